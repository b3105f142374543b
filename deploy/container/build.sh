#!/usr/bin/env bash
# Builds the image device-telemetry:VERSION with the first installed engine, or with the engine in ENGINE.
# Arguments go to its build command: deploy/container/build.sh --build-arg BASE=mirror.example/python:3.13-slim-bookworm
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' daemon/telemetry_daemon/version.py)
for engine in ${ENGINE:-docker podman buildah}; do
    if "$engine" info >/dev/null 2>&1; then
        # The OCI image format, the default of podman and buildah, has no health check.
        if [ "$engine" != docker ]; then set -- --format docker "$@"; fi
        "$engine" build --file deploy/container/Containerfile --build-arg "VERSION=$version" \
            --tag "device-telemetry:$version" "$@" .
        exit
    fi
done
echo "no container engine answers here (${ENGINE:-docker, podman, buildah}); install one, or name it: ENGINE=" >&2
exit 1
