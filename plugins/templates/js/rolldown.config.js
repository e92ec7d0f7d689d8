// What the host provides is not bundled.
export default { external: [/^outhaul:/, /^wasi:/] };
