#!/usr/bin/env bash
# Installs Debian packages without starting any service that they bring. Does nothing where that is not possible:
# whoever needs the packages looks for them afterwards.
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

get() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

install() {
    get install --yes --no-install-recommends "$@" >/dev/null
}

# Two at once would meet in apt's lists and in the guard.
exec {turn}<"${BASH_SOURCE[0]}"
flock "$turn"

echo "installing $*"
if [ -e "$guard" ]; then "${as_root[@]}" mv "$guard" "$saved"; fi
trap restore EXIT
printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$guard" >/dev/null
"${as_root[@]}" chmod 755 "$guard"
# One package that a release does not have keeps out no other.
# The lists may be missing or too old; an install that works needs no new ones, and one that fails is tried again aloud.
install "$@" 2>/dev/null || { get update && install "$@"; } ||
    for each in "$@"; do install "$each" || echo "could not install $each"; done
