#!/usr/bin/env bash
# Builds the Debian package, gets what booting a machine needs, and tests the package in there. Another package, and the
# release of Debian that it is for, can be named in place of the one that is built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if ! command -v systemd-nspawn >/dev/null || ! command -v debootstrap >/dev/null; then
    .ci/apt-install.sh systemd-container debootstrap
fi
if [ $# -eq 0 ]; then set -- "$(deploy/debian/build.sh | tail -1)"; fi
exec /usr/bin/python3 tests/systemd/boot.py "$@"
