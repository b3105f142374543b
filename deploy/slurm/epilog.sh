#!/bin/sh
# Reports the end of a job on this node to the telemetry daemon. Slurm drains a node whose epilog fails or takes too long, so this
# script always exits with 0 within two seconds. README.md describes where to put it.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
# A job's variables could break Python, or make it import the job's files.
for name in $(env | sed -n 's/^\(PYTHON[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
timeout -s KILL 1.8 telemetry job end </dev/null >/dev/null
exit 0
