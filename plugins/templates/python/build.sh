#!/bin/sh
# Builds my-plugin.wasm.
set -eu
cd "$(dirname "$0")"
PATH="$PWD/.venv/bin:$PATH"

need() { echo "build.sh: $1" >&2; exit 1; }
command -v componentize-py >/dev/null || need "componentize-py is missing; run
  python3 -m venv .venv && .venv/bin/pip install -r requirements-build.txt"

# For the editor and type checkers; the component gets its own.
rm -rf build && mkdir build
componentize-py --quiet --wit-path wit --world plugin bindings build/bindings

# The schema travels inside the component, where there are no files.
{ printf 'SCHEMA = r"""'; cat settings.schema.json; printf '"""\n'; } > build/settings_schema.py

componentize-py --quiet --wit-path wit --world plugin componentize app \
    --python-path src --python-path build --output my-plugin.wasm
echo "built my-plugin.wasm"
