"""Finds a daemon, on this node or another, and requests its snapshot."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.commands import options
from telemetry_daemon.commands.options import PASSWORD_VARIABLE, USER_VARIABLE, DaemonRefusedError
from telemetry_daemon.commands.rendering import Result
from telemetry_daemon.config.inputs import INPUTS_HASH_HEADER, SETTINGS_HASH_HEADER, inputs_hash
from telemetry_daemon.remote.foreign_documents import DocumentError, parse_document, to_snapshot
from telemetry_daemon.remote.http_client import (
    Address,
    AddressError,
    Client,
    Credentials,
    NodeError,
    node_address,
    node_addresses,
    parse_node_list,
)
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.web.addresses import UnixAddress, WebError, local_socket_in, parse_address
from telemetry_exporters import human
from telemetry_parsers.model import Snapshot

if TYPE_CHECKING:  # imported on demand: a snapshot from the daemon needs no settings
    from telemetry_daemon.config.settings import Settings

_SNAPSHOT_PATH = "/api/v1/snapshot"
_MAX_FILE_BYTES = 1 << 20
_TIMEOUT_SECONDS = 2.0
# A shorter timeout for commands that can read the tools instead.
_SHORT_TIMEOUT_SECONDS = 1.0
_HTTP_NOT_READY = 503


def read_credentials(arguments: argparse.Namespace) -> Credentials:
    """Return the credentials from arguments and environment. Raise CommandError if the password file is unusable."""
    if arguments.password_file is None:
        user, password = os.environ.get(USER_VARIABLE, ""), os.environ.get(PASSWORD_VARIABLE, "")
        return Credentials(user, password, arguments.ca)
    lines = _read_text(arguments.password_file).splitlines()
    user, separator, password = (lines[0] if lines else "").partition(":")
    if not (user and separator):
        raise CommandError(f"{arguments.password_file}: the first line is not USER:PASSWORD")
    return Credentials(user, password, arguments.ca)


def addresses(nodes: Sequence[str], file: Path | None) -> tuple[Address, ...]:
    """Return the addresses of `nodes` and of the nodes in `file`. Raise CommandError if an address is invalid."""
    file_addresses = parse_node_list(_read_text(str(file))) if file is not None else []
    if file is not None and not file_addresses:
        raise CommandError(f"{file} contains no nodes; write one node per line")
    try:
        return node_addresses([*nodes, *file_addresses])
    except AddressError as error:
        raise CommandError(str(error)) from None


def find_daemon_at_socket(arguments: argparse.Namespace) -> Address | None:
    """Return the address of the local socket if a daemon answers there, else None."""
    address = node_address(f"unix:{options.local_socket_path(arguments)}")
    return None if _find_connection_error(address, Credentials(), None) else address


def find_local_daemon(settings: Settings, credentials: Credentials) -> Address | None:
    """Return an address of the local daemon, or None if no daemon runs. Raise DaemonRefusedError if it refuses this user."""
    socket_path = local_socket_in(settings.state.runtime_directory)
    is_running, error_texts = False, []
    for address in local_addresses(settings):
        error = _find_connection_error(address, credentials, None if address.unix else _socket_owner(socket_path))
        if error is None:
            return address
        is_running = is_running or (bool(address.unix) and not error.is_daemon_missing)
        error_texts.append(f"{address.name}: {error}")
    if not is_running:
        return None
    remedy = f"join the group of {socket_path} (`usermod --append --groups`), or pass a user and password with --password-file"
    raise DaemonRefusedError(f"the daemon of this node does not answer this user: {'; '.join(error_texts)}; {remedy}")


def _find_connection_error(address: Address, credentials: Credentials, service_uid: int | None) -> NodeError | None:
    """Return why no daemon answers, or None if one does. With `service_uid`, only this user or root may serve the port."""
    if service_uid is not None and not _is_served_by(address.port, service_uid):
        return NodeError(f"no process of the daemon's user listens on port {address.port}")
    try:
        _fetch_last(address, credentials, _TIMEOUT_SECONDS, "/healthz")
    except NodeError as error:
        return error
    return None


def _socket_owner(local_socket: Path) -> int | None:
    """Return the UID of the socket's owner. If the socket is missing, return its folder's owner."""
    for path in (local_socket, local_socket.parent):
        with contextlib.suppress(OSError):  # the file is missing or inaccessible
            return path.stat().st_uid
    return None


def _is_served_by(port: int, uid: int) -> bool:
    from telemetry_daemon.web.server.listeners import sockets_on

    try:
        owner_uids = {owner_uid for _, owner_uid, _ in sockets_on(port)}
    except (OSError, ValueError):  # /proc is missing or has another format
        return False
    return bool(owner_uids) and owner_uids <= {0, uid}


def local_addresses(settings: Settings) -> Iterator[Address]:
    """Yield the addresses at which this node's daemon may answer."""
    yield node_address(f"unix:{local_socket_in(settings.state.runtime_directory)}")
    certificate = _certificate_path(settings.web.config_file)
    for listen_address in settings.web.listen_address:
        address = node_address(_address_to_connect(listen_address))
        yield address if address.unix or not certificate else replace(address, is_tls=True, certificate=certificate)


def _certificate_path(web_config_file: str) -> str:
    """Return the path of the daemon's certificate, or "" if it is unknown."""
    if not web_config_file:
        return ""
    from telemetry_daemon.web.access.toolkit import load_web_config

    try:
        tls = load_web_config(web_config_file).tls
    except WebError:  # the daemon itself reports the error
        return ""
    return tls.certificate.file if tls is not None else ""


def _address_to_connect(listen_address: str) -> str:
    address = parse_address(listen_address)
    if isinstance(address, UnixAddress):
        return f"unix:{address.path}"
    host = address.host if address.host not in ("", "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104  # compared, not bound
    return f"[{host}]:{address.port}" if ":" in host else f"{host}:{address.port}"


def _read_text(path: str) -> str:
    return options.read_content(path, _MAX_FILE_BYTES, "use a readable file").decode(errors="replace")


def requested_address(arguments: argparse.Namespace, remedy: str) -> Address:
    """Return the address of `--node`, or of the local daemon. Raise CommandError if no local daemon answers."""
    if arguments.node is not None:
        return addresses([arguments.node], None)[0]
    address = find_local_daemon(options.load_settings(arguments), read_credentials(arguments))
    if address is None:
        raise CommandError(f"no daemon of this node answers; start it, or {remedy}", status=exits.UNAVAILABLE)
    return address


def fetch(arguments: argparse.Namespace, address: Address, target: str, timeout_seconds: float) -> bytes:
    """Return the body of the daemon's response. Raise CommandError if the request fails."""
    try:
        return _fetch_last(address, read_credentials(arguments), timeout_seconds, target)
    except NodeError as error:
        raise CommandError(f"{address.name}: {error}", status=exits.UNAVAILABLE) from None


def _fetch_last(address: Address, credentials: Credentials, timeout_seconds: float, *targets: str) -> bytes:
    """Request the targets one after the other, and return the body of the last response."""
    with contextlib.closing(Client(address, credentials, timeout_seconds)) as client:
        return [client.get(target).body for target in targets][-1]


def daemon_snapshot(arguments: argparse.Namespace) -> Result:
    """Return the snapshot of the daemon on `--node`, or of the local daemon. Raise CommandError if the daemon fails."""
    address = requested_address(arguments, "leave out --from daemon")
    body = fetch(arguments, address, _SNAPSHOT_PATH, arguments.timeout or 5.0)
    name = "the daemon" if arguments.node is None else address.name
    try:
        # The clocks of two machines may differ, so only a local snapshot is compared with the current time.
        return _parse_snapshot(body, name, time.time() if address.unix else None)
    except NodeError as error:
        raise CommandError(f"{address.name}: {error}", status=exits.UNAVAILABLE) from None


def local_daemon_snapshot(arguments: argparse.Namespace) -> Result | None:
    """Return the local daemon's snapshot, or None if the daemon is missing, not ready, or has other settings."""
    with contextlib.closing(_local_client(arguments)) as client:
        try:
            client.get("/readyz")
            response = client.get(_SNAPSHOT_PATH)
            if not _has_same_settings(arguments, response.headers):
                return None
            return _parse_snapshot(response.body, "the daemon", time.time())
        except NodeError as error:
            if error.status or error.is_daemon_missing:
                return None
    return _snapshot_over_http(arguments)


def _snapshot_over_http(arguments: argparse.Namespace) -> Result | None:
    """Return the snapshot of a local daemon that reads real cards, or None if no such daemon is ready."""
    credentials = read_credentials(arguments)
    address = find_local_daemon(options.load_settings(arguments), credentials)
    if address is None:
        return None
    try:
        body = _fetch_last(address, credentials, _SHORT_TIMEOUT_SECONDS, "/readyz", _SNAPSHOT_PATH)
        result = _parse_snapshot(body, "the daemon", time.time())
    except NodeError as error:
        if error.status == _HTTP_NOT_READY:
            return None
        raise DaemonRefusedError(f"the daemon of this node, {address.name}: {error}") from None
    is_real = result.snapshot.recorded is None and not any(device.simulated for device in result.snapshot.devices)
    return result if is_real else None


def local_daemon_has_simulated_cards(arguments: argparse.Namespace) -> bool:
    """Return whether a daemon of this node answers and has simulated cards."""
    credentials = read_credentials(arguments)
    for address in local_addresses(options.load_settings(arguments)):
        with contextlib.suppress(NodeError):  # no daemon answers there
            body = _fetch_last(address, credentials, _SHORT_TIMEOUT_SECONDS, _SNAPSHOT_PATH)
            return any(device.simulated for device in _parse_snapshot(body, "", None).snapshot.devices)
    return False


def local_daemon_has_same_settings(arguments: argparse.Namespace) -> bool:
    """Return whether the local daemon has the same settings as this command."""
    with contextlib.closing(_local_client(arguments)) as client:
        try:
            return _has_same_settings(arguments, client.get(_SNAPSHOT_PATH).headers)
        except NodeError:  # without a daemon, the command reads the sources itself
            return False


def _local_client(arguments: argparse.Namespace) -> Client:
    return Client(
        Address("the daemon", unix=str(options.local_socket_path(arguments))), timeout_seconds=_SHORT_TIMEOUT_SECONDS
    )


def _parse_snapshot(body: bytes, daemon_name: str, now: float | None) -> Result:
    try:
        document = parse_document(body)
        snapshot = to_snapshot(document)
    except DocumentError as error:
        raise NodeError(f"the daemon's document is invalid: {error}") from error
    age_seconds = _oldest_source_age(snapshot) + (max(0.0, now - snapshot.wall_time) if now is not None else 0.0)
    origin = f"from {daemon_name}: read {human.seconds(round(age_seconds, 1))} ago"
    # A document of another machine is not printed as it is, because its unknown fields may contain anything.
    return Result(snapshot, origin, (), document if now else None)


def _oldest_source_age(snapshot: Snapshot) -> float:
    ages = [
        min(snapshot.monotonic_time - poll.attempted_monotonic for poll in source.polls if poll.attempted)
        for source in snapshot.sources
        if source.state == "ok" and any(poll.attempted for poll in source.polls)
    ]
    return max(ages, default=0.0)


def _has_same_settings(arguments: argparse.Namespace, headers: Mapping[str, str]) -> bool:
    own_hash = inputs_hash(arguments.config, os.environ)
    if own_hash and own_hash == headers.get(INPUTS_HASH_HEADER.lower()):
        return True
    if not (daemon_hash := headers.get(SETTINGS_HASH_HEADER.lower())):
        return False
    from telemetry_daemon.config.settings import settings_hash

    return daemon_hash == settings_hash(options.load_settings(arguments))
