#!/usr/bin/env bash
# Builds the Debian package of an older commit with that commit's own scripts, once, and prints where it lies.
# Nothing is printed where the commit is not to be had, as in a shallow clone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
commit=$1
kept=build/older/$commit.deb
git() { command git -c safe.directory='*' "$@"; }
if [ ! -s "$kept" ]; then
    git cat-file -e "$commit^{commit}" 2>/dev/null || exit 0  # a shallow clone
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    git archive "$commit" | tar --extract --directory "$scratch"
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit") "$scratch/deploy/debian/build.sh" >"$scratch/log" 2>&1 ||
        { cat "$scratch/log" >&2; exit 1; }
    mkdir -p "${kept%/*}"
    cp "$scratch"/build/deb/*.deb "$kept"
fi
echo "$kept"
