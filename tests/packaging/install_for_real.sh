#!/usr/bin/env bash
# Installs what users install, for real: `make test-install` makes the bundle before. Under systemd only as root, where
# a machine can be booted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

.venv/bin/python -m pytest -q tests/packaging/install_for_real.py "$@"
version=$(.venv/bin/python -c 'from telemetry_daemon.version import __version__ as version; print(version)')
if [ "$(id -u)" -ne 0 ]; then
    echo "not root: install.sh was not tried under a real systemd"
    exit
fi
command -v systemd-nspawn >/dev/null && command -v debootstrap >/dev/null || .ci/apt-install.sh systemd-container debootstrap
exec .venv/bin/python tests/systemd/boot_install.py "build/device-telemetry-$version-offline-$(uname -m).tar.gz"
