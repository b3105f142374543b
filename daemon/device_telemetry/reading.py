"""Reads the devices from a daemon, or from this node's tools in a separate process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from device_telemetry.node_types import Node, NotReachableError, NotUnderstoodError, node_of
from telemetry_daemon.config.inputs import runtime_directory
from telemetry_daemon.remote.http_client import Address, AddressError, Client, Credentials, NodeError, node_address
from telemetry_daemon.web.addresses import local_socket_in

_SNAPSHOT_PATH = "/api/v1/snapshot"
_PATH_WITH_NEW_COUNTERS = f"{_SNAPSHOT_PATH}?counters=now"
_BAD_REQUEST = 400
_TOOLS_COMMAND = (sys.executable, "-m", "telemetry_daemon.cli", "snapshot", "--format", "json", "--from", "tools")
_MIN_INTERVAL_SECONDS, _DEFAULT_INTERVAL_SECONDS = 0.1, 2.0

# Waits for at most this many seconds, and returns whether the next document needs new energy counters.
PauseFunction = Callable[[float], bool]


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)  # until the next document is due
    return False  # the next document needs no new counters


def read(url: str | None = None, timeout: float = 20.0) -> Node:
    """Return the node whose daemon has the address `url`, by default this node. Raise TelemetryError on failure."""
    return node_of(read_document(url, timeout))


def watch(interval: float | str = 2.0, url: str | float | None = None) -> Iterator[Node]:
    """Yield the node every `interval` seconds. Raise TelemetryError on failure."""
    if isinstance(interval, str):  # the first argument is the address: watch("gpu-17", 5)
        interval, url = _DEFAULT_INTERVAL_SECONDS if url is None else url, interval
    return node_updates(interval, url, _sleep)


def node_updates(interval: float | str, url: str | float | None, pause: PauseFunction) -> Iterator[Node]:
    """Yield the node now and after each pause. Raise TelemetryError on failure."""
    if isinstance(interval, str) or (url is not None and not isinstance(url, str)):
        raise TypeError(f"pass a single address and an interval in seconds, not {interval!r} and {url!r}")
    if not interval >= _MIN_INTERVAL_SECONDS:
        raise ValueError(f"interval must be at least {_MIN_INTERVAL_SECONDS} seconds, not {interval}")
    return map(node_of, _snapshot_documents(interval, url, pause))


def read_document(url: str | None, timeout: float) -> Any:
    """Return a snapshot document from a daemon or, without one, from the tools. Raise TelemetryError on failure."""
    address = _daemon_address(url)
    if address is not None:
        with contextlib.closing(Client(address, _credentials(), timeout)) as client:
            return _fetch_document(client, address)
    command = [*_TOOLS_COMMAND, "--timeout", f"{timeout:.3f}"]
    try:
        run = subprocess.run(command, capture_output=True, timeout=timeout + 10, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise NotReachableError(f"the tools of this node did not finish within {timeout + 10:g} s") from None
    return _parse_document(run.stdout, run.stderr)


def _snapshot_documents(interval: float, url: str | None, pause: PauseFunction = _sleep) -> Iterator[Any]:
    """Yield snapshot documents. If `pause` returns True, the next document has new energy counters."""
    address = _daemon_address(url)
    if address is None:
        yield from _tool_documents(interval)
        return
    with contextlib.closing(Client(address, _credentials())) as client:
        due, needs_counters = time.monotonic(), False
        while True:
            yield _fetch_document(client, address, _PATH_WITH_NEW_COUNTERS if needs_counters else _SNAPSHOT_PATH)
            due = max(due + interval, time.monotonic())
            needs_counters = pause(max(0.0, due - time.monotonic()))


def _daemon_address(url: str | None) -> Address | None:
    """Return the daemon's address, or None if this node has no daemon that is ready."""
    if url is not None:
        if not isinstance(url, str):
            raise TypeError(f"an address must be a string such as 'localhost:{url}' or 'gpu-17', not {url!r}")
        try:
            return node_address(url)
        except AddressError as error:
            raise NotReachableError(str(error)) from None
    directory = runtime_directory(None, os.environ)
    if directory is None:
        return None
    local_address = Address("the daemon of this node", unix=str(local_socket_in(directory)))
    with contextlib.closing(Client(local_address, timeout_seconds=1.0)) as client:
        try:
            client.get("/readyz")
        except NodeError as error:
            if error.status or error.is_daemon_missing:
                return None
        else:
            return local_address
    return _local_http_address()


def _local_http_address() -> Address | None:
    """Return the daemon's HTTP address, for users without access to its socket."""
    # Imported here, because most callers do not need the configuration.
    from telemetry_daemon.commands.daemons import find_local_daemon
    from telemetry_daemon.config import file
    from telemetry_daemon.config.inputs import ConfigInputs
    from telemetry_daemon.terminal.exits import CommandError

    try:
        return find_local_daemon(
            file.load(ConfigInputs(path=None, environment=dict(os.environ), overrides={})), _credentials()
        )
    except CommandError as error:
        warnings.warn(f"{error}; the tools are read instead", RuntimeWarning, stacklevel=2)
        return None


def _credentials() -> Credentials:
    return Credentials(os.environ.get("TELEMETRY_USER", ""), os.environ.get("TELEMETRY_PASSWORD", ""))


def _fetch_document(client: Client, address: Address, path: str = _SNAPSHOT_PATH) -> Any:
    try:
        body = client.get(path).body
    except NodeError as error:
        if error.status == _BAD_REQUEST and path != _SNAPSHOT_PATH:  # an older daemon does not support the parameter
            return _fetch_document(client, address)
        raise NotReachableError(f"{address.name}: {error}") from None
    return _parse_document(body)


def _parse_document(text: bytes, stderr: bytes = b"") -> Any:
    if not text.strip():
        raise NotReachableError(stderr.decode("utf-8", "replace").strip() or "the tools of this node printed nothing")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotUnderstoodError(f"the response is not JSON: {error}") from None


def _tool_documents(interval: float) -> Iterator[Any]:
    """Yield snapshot documents from a process that runs the tools."""
    command = [*_TOOLS_COMMAND, "--watch", f"{interval:.3f}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as process:
        if process.stdout is None:
            raise NotReachableError("the tools of this node cannot be run")
        try:
            for line in process.stdout:
                yield _parse_document(line)
            raise NotReachableError("the process that runs the tools of this node has exited")
        finally:
            process.terminate()
