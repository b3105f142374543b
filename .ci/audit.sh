#!/usr/bin/env bash
# Audits the runtime dependencies of the wheel. Checks without a network: versions, unchanged files, licences, and
# the bill of materials (build/sbom.json). Checks with a network: the schema, and known vulnerabilities.
# The exit status is 1 if a check failed, and 2 if a check could not run.
# --offline skips the checks that need a network.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "== without a network"
.venv/bin/python -m pip check
.venv/bin/python .ci/sbom.py build/sbom.json
if [ "${1:-}" = --offline ]; then
    echo "known vulnerabilities were not looked up (--offline)"
    exit 0
fi

echo "== with a network"
tools=build/audit
result=build/audit.json
if [ ! -x "$tools/bin/pip-audit" ]; then
    python3 -m venv "$tools"
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check \
        pip-audit==2.10.1 'cyclonedx-python-lib[json-validation]==11.12.0' || {
        echo "NOT AUDITED: the tools could not be installed"
        rm -rf "$tools"
        exit 2
    }
fi
"$tools/bin/python" .ci/sbom_schema.py build/sbom.json
requirements=build/sbom.requirements.txt
for service in osv pypi; do
    rm -f "$result"
    echo "querying $service"
    # The exit status is the same for a finding and for an unreachable service, so the output is evaluated.
    "$tools/bin/pip-audit" --disable-pip --no-deps --progress-spinner off --timeout 20 --vulnerability-service "$service" \
        --requirement "$requirements" --format json --output "$result" 2>build/audit.log || true
    status=0
    .venv/bin/python .ci/audit_answer.py "$result" "$requirements" || status=$?
    if [ "$status" != 2 ]; then exit "$status"; fi
done
exit 2
