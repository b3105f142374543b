#!/usr/bin/env bash
# Empties dist/ and builds all files of a release there: wheel, sdist, the Debian package for this
# machine's Debian, the offline bundle, the chart, the bill of materials, and the checksums of all.
# The same commit produces the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C.UTF-8 TZ=UTC PYTHONHASHSEED=0
SOURCE_DATE_EPOCH=$(git -c safe.directory='*' log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export PIP_CONSTRAINT=$PWD/constraints.txt PIP_BUILD_CONSTRAINT=$PWD/constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1
export PYTHON=${PYTHON:-.venv/bin/python}
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' daemon/telemetry_daemon/version.py)

rm -rf dist build/deb
mkdir -p dist
echo "== sdist and wheel"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$PYTHON" -m build --no-isolation --outdir dist . >"$log" 2>&1 || { cat "$log"; exit 1; }
echo "== Debian package"
deploy/debian/build.sh
mv build/deb/*.deb dist/
echo "== offline bundle"
deploy/bundle.sh
mv "build/device-telemetry-$version-offline-$(uname -m).tar.gz" dist/
echo "== chart"
deploy/chart.sh
echo "== bill of materials"
"$PYTHON" .ci/sbom.py "dist/device-telemetry-$version.cdx.json"
rm "dist/device-telemetry-$version.cdx.requirements.txt"
(cd dist && sha256sum -- * >"$log" && cp "$log" SHA256SUMS)
chmod 644 dist/SHA256SUMS
echo "== dist/"
cat dist/SHA256SUMS
