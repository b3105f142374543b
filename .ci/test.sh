#!/usr/bin/env bash
# Runs all tests in three parts side by side, or those that the arguments for pytest name, under coverage. Only the
# contract suite goes without: it runs the parsers tens of thousands of times, which tracing makes ten times as long.
set -euo pipefail
cd "$(dirname "$0")/.."

# The tests that compute, and those that wait for workers; the others wait for daemons. None gets into another's way.
computing=(tests/{catalogue,codec,docs,exporters,merge,parsers,simulate,state})
workers=(tests/{mtml,nvml,workers})

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
    started=($!)
    covered "${workers[@]}" >build/workers.log 2>&1 &
    started+=($!)
    apart=("${computing[@]}" tests/contract "${workers[@]}")
    covered "${apart[@]/#/--ignore=}" || status=$?
    for each in "${started[@]}"; do wait "$each" || status=$?; done
    echo "=== beside these: ${apart[*]}"
    cat build/workers.log build/computing.log
fi
.venv/bin/coverage combine --quiet
# A report is no verdict: that of the tests, in status, must reach the end.
.venv/bin/coverage report >build/coverage.txt || true
echo "covered: $(.venv/bin/coverage report --format=total) % of lines and branches; what is not: build/coverage.txt"
exit "$status"
