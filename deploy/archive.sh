#!/usr/bin/env bash
# archive.sh FILE ARGUMENTS: writes a compressed archive. ARGUMENTS go to tar. The bytes of the archive depend only on
# the names and contents of the files, not on user and time.
set -euo pipefail
file=$1
shift
tar --create --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
    --mtime="@${SOURCE_DATE_EPOCH:-1580601600}" "$@" | gzip --best --no-name >"$file"
