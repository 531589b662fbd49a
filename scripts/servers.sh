#!/usr/bin/env bash
# Installs what the tests start, where it is missing: scripts/servers.sh COMMAND:PACKAGE,PACKAGE...
# COMMAND may be modules of Python instead: python3.MODULE,MODULE.
set -euo pipefail

# Debian keeps the programs of PostgreSQL by version.
path=$PATH:/usr/sbin:/sbin$(printf ':%s' /usr/lib/postgresql/*/bin)
has() {
  case $1 in
  # A package of Debian is for the Python of Debian, which need not be the first.
  python3.*) python3 -c "import ${1#*.}" 2>/dev/null || /usr/bin/python3 -c "import ${1#*.}" 2>/dev/null ;;
  *) PATH=$path command -v "$1" >/dev/null ;;
  esac
}
missing=()
for pair in "$@"; do
  command=${pair%%:*}
  IFS=, read -ra packages <<<"${pair##*:}"
  has "$command" || missing+=("${packages[@]}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "the tests need ${missing[*]}: install them with your package manager" >&2
  exit 1
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -q
# A service that the package would start holds its port against the tests.
"${as_root[@]}" env RUNLEVEL=1 apt-get install -y -q --no-install-recommends "${missing[@]}"
