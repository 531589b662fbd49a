#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time: scripts/fuzz.sh 30s
set -euo pipefail

time=${1:?usage: scripts/fuzz.sh DURATION}
for package in $(go list ./...); do
  # By itself, so that a package that does not build ends the run.
  listed=$(go test -list '^Fuzz' "$package")
  for target in $(grep '^Fuzz' <<<"$listed" || true); do
    echo "$package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package"
  done
done
