#!/usr/bin/env bash
# Gets the tools that tests use besides Python, from Debian's packages where the machine lets us.
set -euo pipefail
cd "$(dirname "$0")/.."

wanted=(
    "cc gcc libc6-dev"
    "nm binutils"
    "curl curl"
    "openssl openssl"
    "mandoc mandoc"
    "shellcheck shellcheck"
    "zsh zsh"
    "fish fish"
    "prometheus prometheus"
    "promtool prometheus"
    "prometheus-alertmanager prometheus-alertmanager"
    "systemd-analyze systemd"
    "systemd-sysusers systemd"
)

missing() {
    for each in "${wanted[@]}"; do
        command -v "${each%% *}" >/dev/null || echo "$each"
    done
}

packages=$(missing | cut -d ' ' -f 2- | tr ' ' '\n' | sort -u)
if [ -n "$packages" ]; then
    mapfile -t packages <<<"$packages"
    .ci/apt-install.sh "${packages[@]}"
fi
missing | while read -r tool needed; do
    echo "still missing: $tool (Debian: apt-get install $needed)"
done
