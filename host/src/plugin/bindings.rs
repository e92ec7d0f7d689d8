//! The plugin contract as Rust, generated from `wit/`: what every host promises to every plugin.

wasmtime::component::bindgen!({
    path: ["../wit/log", "../wit/secrets", "../wit/delivery"],
    world: "outhaul:delivery/destination",
    imports: { default: trappable },
    exports: { default: async },
});

pub use self::outhaul::delivery::types;
pub use self::outhaul::log::log;
pub use self::outhaul::secrets::secrets;

// The shared types have no functions; the linker asks for the trait all the same.
impl types::Host for super::state::GuestState {}
