#!/usr/bin/env bash
# Builds sdist and wheel, installs the wheel in a separate environment, and tests it there, because a
# checkout works even if files are missing from the wheel. If the tests pass, both are copied to dist/.
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1

echo "== building (sdist, and the wheel from the sdist)"
.venv/bin/python -m build --no-isolation --outdir "$scratch/dist" . >"$scratch/build.log" || { cat "$scratch/build.log"; exit 1; }
.venv/bin/python .ci/wheel_contents.py "$scratch"/dist/*.whl

echo "== installing the wheel elsewhere"
.venv/bin/python -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install --quiet "$scratch"/dist/*.whl
"$scratch/venv/bin/python" -m pip check
cd "$scratch"
venv/bin/telemetry version
venv/bin/telemetry metrics >metrics.txt
venv/bin/telemetry config default >telemetry.toml
venv/bin/telemetry config check --config telemetry.toml

echo "== testing what was installed"
cd "$checkout"
"$scratch/venv/bin/python" -m pip install --quiet grafana-foundation-sdk hatchling hypothesis jsonschema prometheus-client pytest pytest-timeout
# Parsing each capture once shows whether a file is missing from the wheel.
# The empty pythonpath excludes the checkout's packages, but not the helper modules of the tests.
TELEMETRY_TEST_INSTALLED=$scratch/venv "$scratch/venv/bin/python" -I -m pytest -q -o "pythonpath=tests" -p no:cacheprovider --level quick \
    tests/packaging/test_installed.py tests/config tests/parsers/test_golden.py tests/exporters tests/e2e/test_commands.py "$@"
mkdir -p dist
cp "$scratch"/dist/* dist/
(cd "$scratch/dist" && printf 'dist/%s\n' *)
