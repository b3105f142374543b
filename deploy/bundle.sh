#!/usr/bin/env bash
# Makes build/device-telemetry-VERSION-offline-ARCHITECTURE.tar.gz: everything that install.sh needs on a node without a
# network, for every Python that the project supports. The argument is the architecture, by default this machine's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}
architecture=${1:-$(uname -m)}
pythons=$(sed -n 's/.*"Programming Language :: Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml)
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' daemon/telemetry_daemon/version.py)
name=device-telemetry-$version-offline-$architecture
# All wheels run on this C library, which also supports the older platform tags.
platforms=()
for tag in manylinux_2_28 manylinux_2_17 manylinux2014; do platforms+=(--platform "${tag}_$architecture"); done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
bundle=$scratch/$name
mkdir -p "$bundle/wheels" build

echo "building the wheel of version $version"
"$python" -m build --wheel --no-isolation --outdir "$bundle/wheels" . >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }

# pip evaluates the conditions of requirements for its own Python, so they are evaluated here for each Python. The
# bindings that no vendor's driver contains are included.
for_python() {
    "$python" -c '
import sys
from packaging.requirements import Requirement
for requirement in map(Requirement, sys.stdin.read().splitlines()):
    if not requirement.marker or requirement.marker.evaluate({"python_version": sys.argv[1], "extra": "moorethreads"}):
        print(f"{requirement.name}{requirement.specifier}")' "$1"
}

"$python" -m zipfile --extract "$bundle"/wheels/device_telemetry-*.whl "$scratch/wheel"
for python_version in $pythons; do
    echo "fetching wheels for Python $python_version on $architecture"
    for_python "$python_version" <constraints.txt >"$scratch/pins"
    sed -n 's/^Requires-Dist: //p' "$scratch"/wheel/*.dist-info/METADATA | for_python "$python_version" >"$scratch/requirements"
    "$python" -m pip --disable-pip-version-check download --quiet --dest "$bundle/wheels" --only-binary :all: \
        --implementation cp --python-version "$python_version" "${platforms[@]}" --constraint "$scratch/pins" \
        --requirement "$scratch/requirements" pip
done

cp deploy/install.sh deploy/telemetry.toml LICENSE "$bundle/"
cp -r deploy/systemd "$bundle/"
(cd "$bundle" && find wheels systemd install.sh telemetry.toml -type f -print0 | sort -z | xargs -0 sha256sum >SHA256SUMS)
deploy/archive.sh "build/$name.tar.gz" --directory "$scratch" "$name"
count=$(find "$bundle/wheels" -name '*.whl' | wc -l)
echo "build/$name.tar.gz: $(du -h "build/$name.tar.gz" | cut -f 1), $count wheels"
