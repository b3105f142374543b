#!/usr/bin/env bash
# Gets the programs that tests use besides Python, from Debian's packages where the machine lets us. tests/needs.txt names
# each program and its packages. What cannot be had is said in one line.
set -euo pipefail
cd "$(dirname "$0")/.."

missing() {
    while read -r program packages; do
        command -v "$program" >/dev/null || echo "$packages"
    done <tests/needs.txt | tr ' ' '\n' | sort -u
}

packages=$(missing)
if [ -n "$packages" ]; then
    mapfile -t packages <<<"$packages"
    .ci/apt-install.sh "${packages[@]}" >&2
fi
packages=$(missing)
if [ -n "$packages" ]; then
    echo "tests that need more are left out; to run them too: sudo apt-get install ${packages//$'\n'/ }"
fi
