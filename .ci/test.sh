#!/usr/bin/env bash
# Runs the tests under coverage. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

.ci/needs.sh
.venv/bin/coverage erase
status=0
.venv/bin/coverage run -m pytest "$@" || status=$?
.venv/bin/coverage combine --quiet
mkdir -p build
.venv/bin/coverage report >build/coverage.txt || true
echo "covered: $(.venv/bin/coverage report --format=total) % of lines and branches; what is not: build/coverage.txt"
exit "$status"
