"""Which daemons a command asks, with which credentials, and how the daemon of this node is reached."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.commands.answer import NotAskedError
from telemetry_daemon.commands.options import PASSWORD_VARIABLE, USER_VARIABLE
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.remote.address import Address, AddressError, address_of, addresses_of, listed
from telemetry_daemon.remote.http_client import Client, Credentials, NodeError
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.web.addresses import UnixAddress, local_socket_in, parse_address
from telemetry_daemon.web.errors import WebError

_LARGEST_FILE_BYTES = 1 << 20
_PATIENCE_SECONDS = 2.0


def credentials(arguments: argparse.Namespace) -> Credentials:
    """What the arguments and the environment say. Raises CommandError."""
    if arguments.password_file is None:
        user, password = os.environ.get(USER_VARIABLE, ""), os.environ.get(PASSWORD_VARIABLE, "")
        return Credentials(user, password, arguments.ca)
    lines = _content(arguments.password_file).splitlines()
    user, separator, password = (lines[0] if lines else "").partition(":")
    if not (user and separator):
        raise CommandError(f"{arguments.password_file}: its first line is not USER:PASSWORD")
    return Credentials(user, password, arguments.ca)


def addresses(texts: Sequence[str], file: Path | None) -> tuple[Address, ...]:
    """The nodes that are given, and those in the file. Raises CommandError."""
    from_file = listed(_content(str(file))) if file is not None else []
    if file is not None and not from_file:
        raise CommandError(f"{file}: no node is in it; write one on each line")
    try:
        return addresses_of([*texts, *from_file])
    except AddressError as error:
        raise CommandError(str(error)) from None


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
    client = Client(address, given, _PATIENCE_SECONDS)
    try:
        client.get("/healthz")
    except NodeError as error:
        return error
    finally:
        client.close()
    return None


def _user_of(local_socket: Path) -> int | None:
    """Return the ID of the user whose daemon made the socket or its folder; None if there is neither."""
    for path in (local_socket, local_socket.parent):
        with contextlib.suppress(OSError):  # not there, or in a folder that this user may not enter
            return path.stat().st_uid
    return None


def _is_served_by(port: int, user: int) -> bool:
    from telemetry_daemon.web.server.port_owner import listeners

    try:
        users = {owner for _, owner, _ in listeners(port)}
    except (OSError, ValueError):  # no /proc, or one that reads otherwise
        return False
    return bool(users) and users <= {0, user}


def addresses_here(settings: Settings) -> Iterator[Address]:
    """Yield where this node's daemon may answer: its local socket, and where it serves."""
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
    except WebError:  # the daemon itself reports what is wrong with it
        return ""
    return tls.certificate.file if tls is not None else ""


def _reached_at(listen_address: str) -> str:
    """How a client of this node reaches what listens there."""
    address = parse_address(listen_address)
    if isinstance(address, UnixAddress):
        return f"unix:{address.path}"
    host = address.host if address.host not in ("", "0.0.0.0", "::") else "127.0.0.1"  # noqa: S104  # compared, not bound
    return f"[{host}]:{address.port}" if ":" in host else f"{host}:{address.port}"


def _content(path: str) -> str:
    try:
        return read_file(path, _LARGEST_FILE_BYTES).decode()
    except (OSError, ValueError) as error:
        raise CommandError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
