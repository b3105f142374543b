#!/bin/sh
# Reports the start of a job on this node to the telemetry daemon. Flux drains a node whose prolog fails, so this script always exits
# with 0 within two seconds. README.md describes where to put it.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
# A job's variables could break Python, or make it import the job's files.
for name in $(env | sed -n 's/^\(PYTHON[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
# Flux passes only the ids of the job and the user, not the job's cards or the user's name.
# Errors of the commands would appear in the job's output.
FLUX_JOB_R=$(timeout -s KILL 0.4 flux job info "${FLUX_JOB_ID:-}" R 2>/dev/null)
FLUX_RANK=$(timeout -s KILL 0.2 flux getattr rank 2>/dev/null)
FLUX_JOB_USER=$(timeout -s KILL 0.2 id -nu "${FLUX_JOB_USERID:-}" 2>/dev/null)
export FLUX_JOB_R FLUX_RANK FLUX_JOB_USER
timeout -s KILL 1.1 telemetry job start </dev/null >/dev/null
exit 0
