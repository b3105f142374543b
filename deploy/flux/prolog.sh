#!/bin/sh
# Tells the telemetry daemon that a job begins on this node. Flux drains a node whose prolog fails, so this ends with status 0 within
# two seconds, whatever becomes of telemetry. README.md says where to put it.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
# A job's variables may keep Python from starting, or have it import the job's own files.
for name in $(env | sed -n 's/^\(PYTHON[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
# Flux tells only the id of the job and the number of its user; these say which of the job's cards are this node's, and whose it is.
# What cannot be asked is empty; what these say of it would stand in the job's output.
FLUX_JOB_R=$(timeout -s KILL 0.4 flux job info "${FLUX_JOB_ID:-}" R 2>/dev/null)
FLUX_RANK=$(timeout -s KILL 0.2 flux getattr rank 2>/dev/null)
FLUX_JOB_USER=$(timeout -s KILL 0.2 id -nu "${FLUX_JOB_USERID:-}" 2>/dev/null)
export FLUX_JOB_R FLUX_RANK FLUX_JOB_USER
timeout -s KILL 1.1 telemetry job start </dev/null >/dev/null
exit 0
