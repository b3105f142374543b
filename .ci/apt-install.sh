#!/usr/bin/env bash
# Installs Debian packages without starting their services. Does nothing if that is not possible,
# because the caller checks for the programs afterwards.
set -euo pipefail

guard=/usr/sbin/policy-rc.d
saved=$guard.saved-by-telemetry

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || { echo "not root and no sudo without a password: not installing $*"; exit 0; }
    as_root=(sudo -n)
fi
command -v apt-get >/dev/null || { echo "no apt-get: not installing $*"; exit 0; }

restore() {
    "${as_root[@]}" rm -f "$guard"
    if [ -e "$saved" ]; then "${as_root[@]}" mv "$saved" "$guard"; fi
}

apt_get() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

install() {
    apt_get install --yes --no-install-recommends "$@" >/dev/null
}

# Concurrent runs would conflict in apt's lists and in the guard.
exec {lock}<"${BASH_SOURCE[0]}"
flock "$lock"

echo "installing $*"
if [ -e "$guard" ]; then "${as_root[@]}" mv "$guard" "$saved"; fi
trap restore EXIT
printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$guard" >/dev/null
"${as_root[@]}" chmod 755 "$guard"
# If the installation fails, the package lists may be outdated, so update the lists and try again.
# If that fails, install each package alone, because a release may lack some packages.
install "$@" 2>/dev/null || { apt_get update && install "$@"; } ||
    for package in "$@"; do install "$package" || echo "could not install $package"; done
