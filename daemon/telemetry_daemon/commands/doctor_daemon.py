"""The daemon of this node as `telemetry doctor` finds it: its view, or why there is none."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

from telemetry_daemon.commands import daemons
from telemetry_daemon.config.settings import Settings, reads
from telemetry_daemon.doctor.beside import Beside
from telemetry_daemon.doctor.unit import unit
from telemetry_daemon.doctor.view import ask
from telemetry_daemon.guarded.folders import UnsafeError
from telemetry_daemon.remote.address import Address
from telemetry_daemon.remote.http_client import BrokenError, Credentials, NodeError
from telemetry_daemon.version import __version__

_SECONDS = 5.0
_NOT_FOUND = 404
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Found:
    """What it tells, and the address at which it does; None where it does not."""

    beside: Beside
    address: Address | None = None


def find(arguments: argparse.Namespace, settings: Settings) -> Found:
    """What this node's daemon tells, asked once; nobody is asked after one that runs and does not tell."""
    given = daemons.credentials(arguments)
    own = Beside(unit=unit(), reads=reads(settings), version=__version__)
    silent: list[Beside] = []
    for address in daemons.addresses_here(settings):
        found = _asked(address, given, settings.web.telemetry_path, own)
        if found.address is not None or found.beside.is_broken:
            return found
        silent += [found.beside] if found.beside.why_not else []
    return Found(silent[0] if silent else replace(own, why_not="no daemon of this node answers"))


def _asked(address: Address, given: Credentials, page_path: str, own: Beside) -> Found:
    """What is told there; without a word where there is nothing."""
    try:
        return Found(replace(own, view=ask(address, given, _SECONDS, page_path)), address)
    except NodeError as error:
        if _is_broken(error, address):
            return Found(replace(own, why_not=str(error), is_broken=True))
        return Found(replace(own, why_not=str(error), is_denied=_is_denied(error)) if _is_there(error) else own)


def _is_there(error: NodeError) -> bool:
    """Whether there is something at all, which may be our daemon."""
    return isinstance(error.__cause__, PermissionError) or error.status not in (0, _NOT_FOUND)


def _is_denied(error: NodeError) -> bool:
    """Whether another user, or one with a password, would be told."""
    if error.status:
        return error.status < _SERVER_ERROR
    return isinstance(error.__cause__, PermissionError) and not isinstance(error.__cause__, UnsafeError)


def _is_broken(error: NodeError, address: Address) -> bool:
    """Whether our daemon runs there and does not tell; in the network it may be another program that listens."""
    if not address.unix:
        return False
    cause = error.__cause__
    if isinstance(cause, BrokenError):
        return not error.status or error.status >= _SERVER_ERROR
    return isinstance(cause, TimeoutError) or not isinstance(cause, OSError)
