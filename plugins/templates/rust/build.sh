#!/bin/sh
# Builds my-plugin.wasm.
set -eu
cd "$(dirname "$0")"

need() { echo "build.sh: $1" >&2; exit 1; }
command -v cargo >/dev/null || need "Rust is missing; install it from https://rustup.rs"
ls "$(rustc --print target-libdir --target wasm32-wasip2)"/libstd-* >/dev/null 2>&1 ||
    need "the target is missing; run  rustup target add wasm32-wasip2"

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}"
cargo build --release --target wasm32-wasip2
cp "$CARGO_TARGET_DIR/wasm32-wasip2/release/my_plugin.wasm" my-plugin.wasm
