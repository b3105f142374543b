#!/bin/sh
# Slurm's HealthCheckProgram, for sites without NHC: in slurm.conf
#   HealthCheckProgram=/usr/lib/telemetry/health-check.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY
# It logs critical states and exits with 1. It never drains a node: for that, enable the scontrol line below.
# Warnings and unknown states are logged and exit with 0: a node continues while its monitor does not answer.
set -u
PATH=/usr/local/bin:/usr/bin:/bin
verdict=$(telemetry check --timeout 20s 2>&1)
status=$?
first_line=$(printf '%s\n' "$verdict" | head -n 1)
[ "$status" -eq 0 ] || logger -t telemetry-check -- "${first_line%% | *}"
[ "$status" -eq 2 ] || exit 0
# scontrol update NodeName="$(hostname -s)" State=DRAIN Reason="${first_line%% | *}"
exit 1
