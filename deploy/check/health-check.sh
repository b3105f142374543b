#!/bin/sh
# Slurm's HealthCheckProgram, for sites without NHC: in slurm.conf
#   HealthCheckProgram=/usr/lib/telemetry/health-check.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY
# It logs what is critical and ends with 1. It never drains: to have that, take the scontrol line below into use.
# Warnings, and what nobody knows, are logged and end with 0: a node goes on while its monitor does not answer.
set -u
PATH=/usr/local/bin:/usr/bin:/bin
verdict=$(telemetry check --timeout 20s 2>&1)
status=$?
first=$(printf '%s\n' "$verdict" | head -n 1)
[ "$status" -eq 0 ] || logger -t telemetry-check -- "${first%% | *}"
[ "$status" -eq 2 ] || exit 0
# scontrol update NodeName="$(hostname -s)" State=DRAIN Reason="${first%% | *}"
exit 1
