#!/bin/sh
# deb: configure VERSION; rpm: 1 for an installation, 2 for an upgrade.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
# An upgrade restarts a service that runs, and starts none.
systemctl try-restart weir.service || true
