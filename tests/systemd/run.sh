#!/usr/bin/env bash
# Builds the Debian package, gets what booting a machine needs, and tests the package in there: by itself, and over the
# last package of 0.1.0. Another package, and the release of Debian that it is for, can be named in place of the one that
# is built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# The last commit of 0.1.0 whose configuration, state and recordings are to be taken over.
last_of_0_1_0=3f38924

if ! command -v systemd-nspawn >/dev/null || ! command -v debootstrap >/dev/null; then
    .ci/apt-install.sh systemd-container debootstrap
fi
if [ $# -eq 0 ]; then set -- "$(deploy/debian/build.sh | tail -1)"; fi
status=0
/usr/bin/python3 tests/systemd/boot.py "$@" || status=1
older=$(tests/systemd/older_package.sh "$last_of_0_1_0")
if [ -n "$older" ]; then
    /usr/bin/python3 tests/systemd/boot_upgrade.py "$older" "$@" || status=1
else
    echo "the upgrade from 0.1.0 was not tried: this clone has no commit $last_of_0_1_0"
fi
exit "$status"
