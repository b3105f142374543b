#!/usr/bin/env bash
# Packages the Helm chart as dist/device-telemetry-VERSION.tgz, or into the folder in the argument. Links are replaced by
# their targets. The same checkout produces the same bytes.
set -euo pipefail
folder=$(realpath --canonicalize-missing "${1:-dist}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' daemon/telemetry_daemon/version.py)
mkdir -p "$folder"
cd deploy/helm
find -L device-telemetry -type f ! -name '*.swp' ! -name '*~' ! -name .DS_Store -print0 | sort --zero-terminated |
    ../archive.sh "$folder/device-telemetry-$version.tgz" --dereference --null --files-from=-
