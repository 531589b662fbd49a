#!/usr/bin/env bash
# Makes manual pages of the help of a command: scripts/man.sh BINARY FOLDER
# A commit's pages are the same wherever they are made.
set -euo pipefail
weir=$1 folder=$2
mkdir -p "$folder"
export LC_ALL=C.UTF-8 TZ=UTC SOURCE_DATE_EPOCH
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
version=$("$weir" version | awk '{print $2; exit}')

# help2man sets a line as a command where it begins with "$ ", and runs a program that
# prints the help.
show=$(mktemp)
trap 'rm "$show"' EXIT
cat >"$show" <<EOF
#!/bin/sh
"$weir" "\$@" | sed 's/^Flags:/Options:/; s/^\( \+\)weir /\1$ weir /'
EOF
chmod +x "$show"

# page NAME WHAT ARGUMENT... writes a page of what the arguments print.
page() {
  help2man --no-info --version-string="$1 $version" --name="$2" --help-option="${*:3}" "$show" | gzip -9n >"$folder/$1.1.gz"
}

page weir "rate limiter for one process or a fleet" --help
for command in $("$weir" --help | sed -n 's/^  \([a-z]\+\)  .*/\1/p; s/^Others: \(.*\)\. .*/\1/p' | tr -d ,); do
  # What it does is the paragraph after the usage.
  what=$("$weir" "$command" --help | awk -v RS= 'NR == 2 { gsub("\n", " "); print tolower(substr($0, 1, 1)) substr($0, 2) }')
  page "weir-$command" "${what%.}" "$command" --help
done
