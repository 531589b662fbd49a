#!/bin/sh
# deb: remove or upgrade; rpm: 0 for a removal, 1 for an upgrade.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now weir.service || true
elif command -v systemctl >/dev/null; then
	systemctl disable weir.service || true
fi
