#!/usr/bin/env bash
# Serves what this machine has, or a simulated node when it has no accelerator. Arguments go to `telemetry serve`.
set -euo pipefail
cd "$(dirname "$0")/.."
telemetry=.venv/bin/telemetry

if [ "$(id -u)" -ne 0 ]; then
    # Only root and the packaged service may write to the usual places.
    export TELEMETRY_STATE_DIRECTORY=${TELEMETRY_STATE_DIRECTORY:-$PWD/.state/lib}
    export TELEMETRY_STATE_RUNTIME_DIRECTORY=${TELEMETRY_STATE_RUNTIME_DIRECTORY:-$PWD/.state/run}
    mkdir -p "$TELEMETRY_STATE_DIRECTORY" "$TELEMETRY_STATE_RUNTIME_DIRECTORY"
fi

# Of the arguments, those that the other commands need to find the same settings.
config=()
settings=()
chosen=
arguments=("$@")
while [ $# -gt 0 ]; do
    case $1 in
        --config=*) config+=("$1") ;;
        --config) config+=("$1" "${2:?--config names a file}"); shift ;;
        --web.*=* | --log.*=*) settings+=("$1") ;;
        --web.* | --log.*) settings+=("$1" "${2:?$1 has a value}"); shift ;;
        --demo | --demo=* | --replay | --replay=* | -h | --help) chosen=yes ;;
    esac
    shift
done

if [ -z "$chosen" ]; then
    echo "looking for accelerators …"
    found=0
    "$telemetry" snapshot "${config[@]}" --timeout 10 --format json >/dev/null || found=$?
    case $found in
        0) echo "serving this machine's accelerators" ;;
        2) echo "serving this machine's accelerators; some cannot be read, see: $telemetry doctor" ;;
        3) echo "no accelerator here: serving a simulated node"; arguments+=(--demo) ;;
        *) exit "$found" ;;
    esac
fi

address=$("$telemetry" config show "${config[@]}" "${settings[@]}" | sed -n 's/^listen_address = \["\([^"]*\)".*/\1/p')
case $address in
    unix:*) echo "listening on $address" ;;
    :* | 0.0.0.0:* | \[::\]:*) echo "open http://$(hostname):${address##*:}/ – Ctrl-C ends it" ;;
    *) echo "open http://$address/ – Ctrl-C ends it" ;;
esac
exec "$telemetry" serve "${arguments[@]}"
