#!/bin/sh
# deb: remove, purge or upgrade; rpm: 0 for a removal, 1 for an upgrade.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
# What the service stored goes with a purge alone; systemd keeps that of a service
# with DynamicUser in /var/lib/private.
if [ "$1" = purge ]; then
	rm -rf /var/lib/private/weir /var/lib/weir
fi
