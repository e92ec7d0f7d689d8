#!/bin/sh
# Builds my-plugin.wasm from src/plugin.js, or from src/plugin.ts if that is there.
set -eu
cd "$(dirname "$0")"
PATH="$PWD/node_modules/.bin:$PATH"

need() { echo "build.sh: $1" >&2; exit 1; }
command -v node >/dev/null || need "Node.js is missing; install 20.19 or newer from https://nodejs.org"
command -v jco >/dev/null && command -v tsc >/dev/null || need "the build tools are missing; run  npm install"

# Types of everything in wit/, for the checker and the editor.
rm -rf build && mkdir build
jco guest-types wit --world-name plugin --out-dir build/types >/dev/null
tsc --project .

source=src/plugin.js
if [ -e src/plugin.ts ]; then source=src/plugin.ts; fi
# Without the engine's own fetch, which src/http.js stands in for.
jco componentize "$source" --bundle --bundle-config rolldown.config.js \
    --wit wit --world-name plugin --disable http fetch-event \
    --out my-plugin.wasm
echo "built my-plugin.wasm"
