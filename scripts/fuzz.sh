#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time: scripts/fuzz.sh 30s
set -euo pipefail

time=${1:?usage: scripts/fuzz.sh DURATION}
said=$(mktemp)
trap 'rm -f "$said"' EXIT
for package in $(go list ./...); do
  # By itself, so that a package that does not build ends the run.
  listed=$(go test -list '^Fuzz' "$package")
  for target in $(grep '^Fuzz' <<<"$listed" || true); do
    echo "$package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" 2>&1 | tee "$said" && continue
    # On a busy machine the go command may take the end of the time for a
    # failure. A real one names the input it failed on.
    if grep -q 'context deadline exceeded' "$said" && ! grep -q 'Failing input written' "$said"; then
      echo "$target: the time was over"
      continue
    fi
    exit 1
  done
done
