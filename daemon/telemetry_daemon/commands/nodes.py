"""Which daemons a command asks, and with which credentials."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from telemetry_daemon.commands.options import PASSWORD_VARIABLE, USER_VARIABLE
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.nodes.address import Address, AddressError, address_of, addresses_of, listed
from telemetry_daemon.nodes.client import Client, Credentials, NodeError
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.web.addresses import UnixAddress, local_socket_in, parse_address

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
    """Where this node's daemon answers us: on its local socket, else where it serves; None if it does not."""
    for address in addresses_here(settings):
        client = Client(address, given, _PATIENCE_SECONDS)
        try:
            client.get("/healthz")
        except NodeError:  # another way, then
            continue
        finally:
            client.close()
        return address
    return None


def addresses_here(settings: Settings) -> Iterator[Address]:
    """Where this node's daemon may answer: on its local socket, and where it serves."""
    yield address_of(f"unix:{local_socket_in(settings.state.runtime_directory)}")
    for text in settings.web.listen_address:
        yield address_of(_reached_at(text))


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
