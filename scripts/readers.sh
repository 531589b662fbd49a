#!/usr/bin/env bash
# Puts what the servers of lab/readers need into a folder: scripts/readers.sh FOLDER
set -euo pipefail
from=$PWD/lab/readers/servers
mkdir -p "$1"
cp "$from"/package.json "$from"/package-lock.json "$1"
npm --prefix "$1" ci --no-audit --no-fund --silent
python3 -m venv "$1/python"
"$1/python/bin/pip" install -q --disable-pip-version-check --only-binary=:all: --require-hashes -r "$from/requirements.txt"
mvn -q -B -f "$from/pom.xml" dependency:copy-dependencies -DoutputDirectory="$(cd "$1" && pwd)/java"
touch "$1"
