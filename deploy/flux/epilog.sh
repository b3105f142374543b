#!/bin/sh
# Tells the telemetry daemon that a job has ended on this node. Flux drains a node whose epilog fails, so this ends with status 0 within
# two seconds, whatever becomes of telemetry. README.md says where to put it.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
# A job's variables may keep Python from starting, or have it import the job's own files.
for name in $(env | sed -n 's/^\(PYTHON[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
timeout -s KILL 1.8 telemetry job end </dev/null >/dev/null
exit 0
