#!/usr/bin/env bash
# Installs the programs that tests use besides Python, from Debian's packages if this user may install packages.
# tests/needs.txt lists each program and its packages. Each missing program is reported in one line.
set -euo pipefail
cd "$(dirname "$0")/.."

missing_packages() {
    while read -r program packages; do
        command -v "$program" >/dev/null || echo "$packages"
    done <tests/needs.txt | tr ' ' '\n' | sort -u
}

packages=$(missing_packages)
if [ -n "$packages" ]; then
    mapfile -t packages <<<"$packages"
    .ci/apt-install.sh "${packages[@]}" >&2
fi
packages=$(missing_packages)
if [ -n "$packages" ]; then
    echo "tests that need more are left out; to run them too: sudo apt-get install ${packages//$'\n'/ }"
fi
