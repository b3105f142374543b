#!/usr/bin/env bash
# Serves this machine's accelerators, or a simulated node if there are none. Arguments go to `telemetry serve`.
set -euo pipefail
cd "$(dirname "$0")/.."
telemetry=.venv/bin/telemetry

if [ "$(id -u)" -ne 0 ]; then
    # Only root and the packaged service may write to the default folders.
    export TELEMETRY_STATE_DIRECTORY=${TELEMETRY_STATE_DIRECTORY:-$PWD/.state/lib}
    export TELEMETRY_STATE_RUNTIME_DIRECTORY=${TELEMETRY_STATE_RUNTIME_DIRECTORY:-$PWD/.state/run}
    mkdir -p "$TELEMETRY_STATE_DIRECTORY" "$TELEMETRY_STATE_RUNTIME_DIRECTORY"
fi

# The search for accelerators needs the same arguments.
config=()
has_mode=
has_log_level=${TELEMETRY_LOG_LEVEL:-}
arguments=("$@")
while [ $# -gt 0 ]; do
    case $1 in
        --config=*) config+=("$1") ;;
        --config) config+=("$1" "${2:?--config names a file}"); shift ;;
        --log.*) has_log_level=yes ;;
        --demo | --demo=* | --replay | --replay=* | -h | --help) has_mode=yes ;;
    esac
    shift
done
# By default, log only warnings, because the user needs only the address and problems.
[ -n "$has_log_level" ] || export TELEMETRY_LOG_LEVEL=warning

if [ -z "$has_mode" ]; then
    echo "looking for accelerators …"
    status=0
    "$telemetry" snapshot "${config[@]}" --timeout 10 --format json >/dev/null || status=$?
    case $status in
        0) echo "serving this machine's accelerators" ;;
        2) echo "serving this machine's accelerators; some cannot be read, see: $telemetry doctor" ;;
        3) echo "no accelerator here: serving a simulated node"; arguments+=(--demo) ;;
        *) exit "$status" ;;
    esac
fi

exec .venv/bin/python .ci/announce.py "$telemetry" serve "${arguments[@]}"
