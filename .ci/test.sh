#!/usr/bin/env bash
# Runs the tests under coverage: all of them in two halves side by side, or those that the arguments for pytest name.
set -euo pipefail
cd "$(dirname "$0")/.."

# These compute, the others mostly wait for processes; neither half starts what the other could run into.
computing=(tests/{accumulate,codec,contract,exporters,merge,parsers,simulate})

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
    covered "${computing[@]}" >build/computing.log 2>&1 &
    covered "${computing[@]/#/--ignore=}" || status=$?
    echo "=== the other half: ${computing[*]#tests/}"
    wait $! || status=$?
    cat build/computing.log
fi
.venv/bin/coverage combine --quiet
.venv/bin/coverage report >build/coverage.txt || true
echo "covered: $(.venv/bin/coverage report --format=total) % of lines and branches; what is not: build/coverage.txt"
exit "$status"
