"""Finds the daemon that a command asks, on this node or another, with its credentials, and reads its answers."""

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
from telemetry_daemon.commands.options import PASSWORD_VARIABLE, USER_VARIABLE, NotAskedError
from telemetry_daemon.commands.rendering import Answer
from telemetry_daemon.config.inputs import GIVEN_HEADER, READS_HEADER, given_word
from telemetry_daemon.remote.foreign_documents import DocumentError, document_in, snapshot_of
from telemetry_daemon.remote.http_client import (
    Address,
    AddressError,
    Client,
    Credentials,
    NodeError,
    address_of,
    addresses_of,
    listed,
)
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.web.addresses import UnixAddress, WebError, local_socket_in, parse_address
from telemetry_exporters import human
from telemetry_parsers.model import Snapshot

if TYPE_CHECKING:  # `snapshot` of a daemon needs none of these
    from telemetry_daemon.config.settings import Settings

_SNAPSHOT = "/api/v1/snapshot"
_LARGEST_FILE_BYTES = 1 << 20
_PATIENCE_SECONDS = 2.0
# If the tools can be read instead, a slow daemon is not awaited longer.
_SHORT_PATIENCE_SECONDS = 1.0
_NOT_READY = 503


def credentials(arguments: argparse.Namespace) -> Credentials:
    """Return the credentials from arguments and environment. Raises CommandError."""
    if arguments.password_file is None:
        user, password = os.environ.get(USER_VARIABLE, ""), os.environ.get(PASSWORD_VARIABLE, "")
        return Credentials(user, password, arguments.ca)
    lines = _content(arguments.password_file).splitlines()
    user, separator, password = (lines[0] if lines else "").partition(":")
    if not (user and separator):
        raise CommandError(f"{arguments.password_file}: its first line is not USER:PASSWORD")
    return Credentials(user, password, arguments.ca)


def addresses(texts: Sequence[str], file: Path | None) -> tuple[Address, ...]:
    """Return the addresses given as arguments and in the file. Raises CommandError."""
    from_file = listed(_content(str(file))) if file is not None else []
    if file is not None and not from_file:
        raise CommandError(f"{file}: no node is in it; write one on each line")
    try:
        return addresses_of([*texts, *from_file])
    except AddressError as error:
        raise CommandError(str(error)) from None


def daemon_at_socket(arguments: argparse.Namespace) -> Address | None:
    """Return this node's local socket if a daemon answers this user there. A valid path of the socket needs no other setting."""
    address = address_of(f"unix:{options.local_socket(arguments)}")
    return None if _refusal(address, Credentials(), None) else address


def daemon_here(settings: Settings, given: Credentials) -> Address | None:
    """Return where this node's daemon answers this user; None if no daemon runs. Raises NotAskedError."""
    path = local_socket_in(settings.state.runtime_directory)
    is_there, reasons = False, []
    for address in addresses_here(settings):
        error = _refusal(address, given, None if address.unix else _user_of(path))
        if error is None:
            return address
        is_there = is_there or (bool(address.unix) and not error.is_absent)
        reasons.append(f"{address.name}: {error}")
    if not is_there:
        return None
    remedy = f"join the group of {path} (`usermod --append --groups`), or give a user and password with --password-file"
    raise NotAskedError(f"the daemon of this node does not answer this user: {'; '.join(reasons)}; {remedy}")


def _refusal(address: Address, given: Credentials, service_user: int | None) -> NodeError | None:
    """Return why no daemon answers there; None if the daemon does. An answer of another user's process does not count."""
    if service_user is not None and not _is_served_by(address.port, service_user):
        return NodeError("another user's process listens there, or none")
    try:
        _fetch(address, given, _PATIENCE_SECONDS, "/healthz")
    except NodeError as error:
        return error
    return None


def _user_of(local_socket: Path) -> int | None:
    """Return the ID of the user whose daemon made the socket or its folder; None if there is neither."""
    for path in (local_socket, local_socket.parent):
        with contextlib.suppress(OSError):  # missing, or in a folder that this user may not enter
            return path.stat().st_uid
    return None


def _is_served_by(port: int, user: int) -> bool:
    from telemetry_daemon.web.server.listeners import sockets_on

    try:
        users = {owner for _, owner, _ in sockets_on(port)}
    except (OSError, ValueError):  # no /proc, or a different format
        return False
    return bool(users) and users <= {0, user}


def addresses_here(settings: Settings) -> Iterator[Address]:
    """Yield the addresses at which this node's daemon may answer: its local socket, and where it serves."""
    yield address_of(f"unix:{local_socket_in(settings.state.runtime_directory)}")
    certificate = _certificate(settings.web.config_file)
    for text in settings.web.listen_address:
        address = address_of(_reached_at(text))
        yield address if address.unix or not certificate else replace(address, is_tls=True, certificate=certificate)


def _certificate(web_config_file: str) -> str:
    """Return the file with the daemon's certificate; empty without TLS, or if this user may not read the configuration."""
    if not web_config_file:
        return ""
    from telemetry_daemon.web.access.toolkit import load_web_config

    try:
        tls = load_web_config(web_config_file).tls
    except WebError:  # the daemon itself reports the error
        return ""
    return tls.certificate.file if tls is not None else ""


def _reached_at(listen_address: str) -> str:
    address = parse_address(listen_address)
    if isinstance(address, UnixAddress):
        return f"unix:{address.path}"
    host = address.host if address.host not in ("", "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104  # compared, not bound
    return f"[{host}]:{address.port}" if ":" in host else f"{host}:{address.port}"


def _content(path: str) -> str:
    return options.content_of(path, _LARGEST_FILE_BYTES, "give a file that you may read").decode(errors="replace")


def address_asked(arguments: argparse.Namespace, remedy: str) -> Address:
    """Return the address of the named node, or else of the daemon of this node. Raises CommandError."""
    if arguments.node is not None:
        return addresses([arguments.node], None)[0]
    here = daemon_here(options.settings(arguments), credentials(arguments))
    if here is None:
        raise CommandError(f"no daemon of this node answers; start it, or {remedy}", status=exits.UNAVAILABLE)
    return here


def fetched(arguments: argparse.Namespace, address: Address, target: str, seconds: float) -> bytes:
    """Return the daemon's answer to one request. Raises CommandError."""
    try:
        return _fetch(address, credentials(arguments), seconds, target)
    except NodeError as error:
        raise CommandError(f"{address.name}: {error}", status=exits.UNAVAILABLE) from None


def _fetch(address: Address, given: Credentials, seconds: float, *targets: str) -> bytes:
    with contextlib.closing(Client(address, given, seconds)) as client:
        return [client.get(target).body for target in targets][-1]


def of_daemon(arguments: argparse.Namespace) -> Answer:
    """Return the snapshot of the daemon of this node or another, whatever it reads. Raises CommandError."""
    address = address_asked(arguments, "leave out --from daemon")
    body = fetched(arguments, address, _SNAPSHOT, arguments.timeout or 5.0)
    name = "the daemon" if arguments.node is None else address.name
    try:
        # Another node's clock may be wrong: use the age by its own clock.
        return _answer(body, name, time.time() if address.unix else None)
    except NodeError as error:
        raise CommandError(f"{address.name}: {error}", status=exits.UNAVAILABLE) from None


def of_daemon_here(arguments: argparse.Namespace) -> Answer | None:
    """Return this node's snapshot from its daemon, or None if there is none, or it reads something else. Raises NotAskedError if it refuses this user."""
    with contextlib.closing(_client_here(arguments)) as client:
        try:
            client.get("/readyz")
            answer = client.get(_SNAPSHOT)
            if not _reads_the_same(arguments, answer.headers):
                return None
            return _answer(answer.body, "the daemon", time.time())
        except NodeError as error:
            if error.status or error.is_absent:
                return None
    return _of_daemon_over_http(arguments)


def _of_daemon_over_http(arguments: argparse.Namespace) -> Answer | None:
    """Return what the daemon reports to a user who may not use its socket. Raises NotAskedError."""
    given = credentials(arguments)
    address = daemon_here(options.settings(arguments), given)
    if address is None:
        return None
    try:
        answer = _answer(
            _fetch(address, given, _SHORT_PATIENCE_SECONDS, "/readyz", _SNAPSHOT), "the daemon", time.time()
        )
    except NodeError as error:
        if error.status == _NOT_READY:
            return None
        raise NotAskedError(f"the daemon of this node, {address.name}: {error}") from None
    is_played = answer.snapshot.recorded is not None or any(device.simulated for device in answer.snapshot.devices)
    return None if is_played else answer


def shows_simulated_cards(arguments: argparse.Namespace) -> bool:
    """Return whether a daemon of this node answers and shows simulated cards."""
    given = credentials(arguments)
    for address in addresses_here(options.settings(arguments)):
        with contextlib.suppress(NodeError):  # no daemon answers there
            answer = _answer(_fetch(address, given, _SHORT_PATIENCE_SECONDS, _SNAPSHOT), "", None)
            return any(device.simulated for device in answer.snapshot.devices)
    return False


def daemon_reads_the_same(arguments: argparse.Namespace) -> bool:
    """Return whether this node's daemon runs with settings that make it read the same as this command."""
    with contextlib.closing(_client_here(arguments)) as client:
        try:
            return _reads_the_same(arguments, client.get(_SNAPSHOT).headers)
        except NodeError:  # this command can read instead
            return False


def _client_here(arguments: argparse.Namespace) -> Client:
    return Client(Address("the daemon", unix=str(options.local_socket(arguments))), seconds=_SHORT_PATIENCE_SECONDS)


def _answer(body: bytes, name: str, now: float | None) -> Answer:
    try:
        document = document_in(body)
        snapshot = snapshot_of(document)
    except DocumentError as error:
        raise NodeError(f"its document cannot be understood: {error}") from error
    age = _age(snapshot) + (max(0.0, now - snapshot.wall_time) if now is not None else 0.0)
    # Documents of other machines are shown only as far as they are understood.
    return Answer(snapshot, f"from {name}: read {human.seconds(round(age, 1))} ago", (), document if now else None)


def _age(snapshot: Snapshot) -> float:
    ages = [
        min(snapshot.monotonic_time - poll.attempted_monotonic for poll in source.polls if poll.attempted)
        for source in snapshot.sources
        if source.state == "ok" and any(poll.attempted for poll in source.polls)
    ]
    return max(ages, default=0.0)


def _reads_the_same(arguments: argparse.Namespace, headers: Mapping[str, str]) -> bool:
    """Return whether the daemon's settings have the same effect as this command's, even if they are written differently."""
    given = given_word(arguments.config, os.environ)
    if given and given == headers.get(GIVEN_HEADER.lower()):
        return True
    if not (word := headers.get(READS_HEADER.lower())):
        return False
    from telemetry_daemon.config.settings import reads

    return word == reads(options.settings(arguments))
