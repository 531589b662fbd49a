#!/usr/bin/env bash
# Gives the module another path, everywhere: scripts/rename.sh example.org/weir
set -euo pipefail

new=${1:?usage: make rename MODULE=example.org/weir}
old=$(go list -m)
[ "$new" != "$old" ] || { echo "the module is called $old already"; exit 0; }
git grep -lF "$old" -- . ':!CHANGELOG.md' | xargs -r sed -i "s|$(printf '%s' "$old" | sed 's/[.[\*^$]/\\&/g')|$new|g"
gofmt -l -w . >/dev/null
# The path has its place in the sorted lists of modules.
for dir in . lab/bench examples/middleware client/browser/chromium internal/insight/dashboard/chromium tools tools/compose tools/helm tools/release tools/site/chromium; do
  (cd "$dir" && go mod tidy)
done
go build ./...
echo "renamed $old to $new; commit the change"
