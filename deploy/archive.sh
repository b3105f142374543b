#!/usr/bin/env bash
# archive.sh FILE ARGUMENTS: a compressed archive that depends only on names and contents, not on user and time.
# ARGUMENTS go to tar.
set -euo pipefail
file=$1
shift
tar --create --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
    --mtime="@${SOURCE_DATE_EPOCH:-1580601600}" "$@" | gzip --best --no-name >"$file"
