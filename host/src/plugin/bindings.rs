//! The plugin contract as Rust, generated from `wit/`: what every host promises to every plugin,
//! what a plugin may export, and what only config grants.

wasmtime::component::bindgen!({
    path: ["../wit/log", "../wit/secrets", "../wit/delivery"],
    world: "outhaul:delivery/destination-full",
    imports: { default: trappable },
    exports: { default: async },
});

pub use self::exports::outhaul::delivery::{batch, check, close, deliver, describe, tick};
pub use self::outhaul::delivery::types;
pub use self::outhaul::log::log;
pub use self::outhaul::secrets::secrets;

/// Connections, which only config grants.
pub mod net {
    wasmtime::component::bindgen!({
        path: ["../wit/deps/io.wit", "../wit/net"],
        world: "outhaul:net/with-net",
        imports: { default: async | trappable },
        with: {
            "wasi:io": wasmtime_wasi::p2::bindings::io,
            "outhaul:net/net.tls-start": crate::plugin::capability::net::TlsStart,
        },
        require_store_data_send: true,
    });

    pub use self::outhaul::net::net::{ConnectError, Connection, Host, HostTlsStart, add_to_linker};
}

// The shared types have no functions; the linker asks for the trait all the same.
impl types::Host for super::state::GuestState {}

/// Databases, which only config grants.
pub mod sql {
    wasmtime::component::bindgen!({
        path: "../wit/sql",
        world: "outhaul:sql/with-sql",
        imports: { default: async | trappable },
        with: {
            "outhaul:sql/sql.database": crate::plugin::capability::sql::Database,
            "outhaul:sql/sql.transaction": crate::plugin::capability::sql::Transaction,
        },
        require_store_data_send: true,
    });

    pub use self::outhaul::sql::sql::{
        Dialect, Host, HostDatabase, HostTransaction, Rows, SqlError, Value, Violation, add_to_linker,
    };
}
