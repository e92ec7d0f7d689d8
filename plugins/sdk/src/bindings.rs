//! The contract as Rust, generated from `wit/`: one world for what every plugin exports, and one for
//! each optional interface, so that a component exports only what its author named.

pub mod destination {
    wit_bindgen::generate!({
        path: [
            "wit/deps/io.wit",
            "wit/deps/clocks.wit",
            "wit/deps/random.wit",
            "wit/deps/filesystem.wit",
            "wit/deps/sockets.wit",
            "wit/deps/cli.wit",
            "wit/deps/http.wit",
            "wit/log",
            "wit/secrets",
            "wit/delivery",
        ],
        inline: "
            package outhaul:sdk;
            world sdk-destination {
                include outhaul:delivery/destination@1.0.0;
                import wasi:clocks/monotonic-clock@0.2.12;
                import wasi:http/outgoing-handler@0.2.12;
                import wasi:random/random@0.2.12;
            }
        ",
        world: "outhaul:sdk/sdk-destination",
        additional_derives: [PartialEq],
        // Holds a resource, which nothing compares.
        additional_derives_ignore: ["stream-error"],
        pub_export_macro: true,
        generate_all,
    });
}

/// Apart, so that a plugin that opens no connections does not ask for them.
pub mod net {
    wit_bindgen::generate!({
        path: ["wit/deps/io.wit", "wit/net"],
        inline: "
            package outhaul:sdk;
            world sdk-net { import outhaul:net/net@1.0.0; }
        ",
        world: "outhaul:sdk/sdk-net",
        with: {
            "wasi:io/error@0.2.12": crate::bindings::destination::wasi::io::error,
            "wasi:io/poll@0.2.12": crate::bindings::destination::wasi::io::poll,
            "wasi:io/streams@0.2.12": crate::bindings::destination::wasi::io::streams,
        },
        additional_derives: [PartialEq],
        // Hold resources, which nothing compares.
        additional_derives_ignore: ["connection", "tls-start"],
        generate_all,
    });
}

/// Imported by the plugins that use it, and by no other.
pub mod sql {
    wit_bindgen::generate!({
        path: "wit/sql",
        world: "outhaul:sql/with-sql",
        additional_derives: [PartialEq],
        additional_derives_ignore: ["database", "transaction"],
        generate_all,
    });
}

pub mod batch {
    wit_bindgen::generate!({
        path: ["wit/log", "wit/secrets", "wit/delivery"],
        inline: "
            package outhaul:sdk;
            world sdk-batch { export outhaul:delivery/batch@1.0.0; }
        ",
        world: "outhaul:sdk/sdk-batch",
        with: {
            "outhaul:delivery/types@1.0.0": crate::bindings::destination::outhaul::delivery::types,
        },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        generate_all,
    });
}

pub mod describe {
    wit_bindgen::generate!({
        path: ["wit/log", "wit/secrets", "wit/delivery"],
        inline: "
            package outhaul:sdk;
            world sdk-describe { export outhaul:delivery/describe@1.0.0; }
        ",
        world: "outhaul:sdk/sdk-describe",
        with: {
            "outhaul:delivery/types@1.0.0": crate::bindings::destination::outhaul::delivery::types,
        },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        generate_all,
    });
}

pub mod check {
    wit_bindgen::generate!({
        path: ["wit/log", "wit/secrets", "wit/delivery"],
        inline: "
            package outhaul:sdk;
            world sdk-check { export outhaul:delivery/check@1.0.0; }
        ",
        world: "outhaul:sdk/sdk-check",
        with: {
            "outhaul:delivery/types@1.0.0": crate::bindings::destination::outhaul::delivery::types,
        },
        additional_derives: [PartialEq],
        pub_export_macro: true,
        generate_all,
    });
}

pub mod tick {
    wit_bindgen::generate!({
        path: ["wit/log", "wit/secrets", "wit/delivery"],
        inline: "
            package outhaul:sdk;
            world sdk-tick { export outhaul:delivery/tick@1.0.0; }
        ",
        world: "outhaul:sdk/sdk-tick",
        additional_derives: [PartialEq],
        pub_export_macro: true,
        generate_all,
    });
}

pub mod close {
    wit_bindgen::generate!({
        path: ["wit/log", "wit/secrets", "wit/delivery"],
        inline: "
            package outhaul:sdk;
            world sdk-close { export outhaul:delivery/close@1.0.0; }
        ",
        world: "outhaul:sdk/sdk-close",
        additional_derives: [PartialEq],
        pub_export_macro: true,
        generate_all,
    });
}
