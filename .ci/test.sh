#!/usr/bin/env bash
# Runs all tests in two halves side by side, or those that the arguments for pytest name, under coverage. Only the
# contract suite goes without: it runs the parsers tens of thousands of times, which tracing makes ten times as long.
set -euo pipefail
cd "$(dirname "$0")/.."

# The tests that compute; the others mostly wait for processes. No test of one half gets into the way of the other's.
computing=(tests/{catalogue,codec,docs,exporters,merge,parsers,simulate,state})

covered() {
    .venv/bin/coverage run -m pytest "$@"
}

.ci/needs.sh
mkdir -p build
.venv/bin/coverage erase
status=0
if [ $# -gt 0 ]; then
    covered "$@" || status=$?
else
    { covered "${computing[@]}" && .venv/bin/python -m pytest tests/contract; } >build/computing.log 2>&1 &
    covered --ignore=tests/contract "${computing[@]/#/--ignore=}" || status=$?
    echo "=== the other half: ${computing[*]} tests/contract"
    wait $! || status=$?
    cat build/computing.log
fi
.venv/bin/coverage combine --quiet
.venv/bin/coverage report >build/coverage.txt || true
echo "covered: $(.venv/bin/coverage report --format=total) % of lines and branches; what is not: build/coverage.txt"
exit "$status"
