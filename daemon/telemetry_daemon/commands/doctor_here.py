"""The facts of this node for `telemetry doctor`, collected from sources, kernel, daemon and unit, and examined."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from telemetry_daemon.commands import nodes, options
from telemetry_daemon.commands.lookup import unknown
from telemetry_daemon.config.reads import reads
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.doctor import limits_here
from telemetry_daemon.doctor.beside import Beside
from telemetry_daemon.doctor.examination import Examined, examined
from telemetry_daemon.doctor.findings import Finding
from telemetry_daemon.doctor.machine import machine
from telemetry_daemon.doctor.reading import Read, read
from telemetry_daemon.doctor.unit import unit
from telemetry_daemon.doctor.view import ask
from telemetry_daemon.guarded.way import UnsafeError
from telemetry_daemon.nodes.address import Address
from telemetry_daemon.nodes.client import Client, NodeError
from telemetry_daemon.plugins.loading import Loaded, load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.recording.flights import Flight, kept
from telemetry_daemon.version import __version__
from telemetry_daemon.web.addresses import local_socket_in

_DAEMON_SECONDS = 5.0
_PLUGIN = (
    "install what it needs, correct it, or take it out of parsers.paths or the environment; docs/writing-a-parser.md"
)


@dataclass(frozen=True, slots=True)
class Here:
    """What this node was found to be, with all that was read, and the settings by which."""

    examined: Examined
    read: Read
    settings: Settings


def examine(arguments: argparse.Namespace, root: Path, settings: Settings, found: Sequence[Finding] = ()) -> Here:
    """All of this node, or the sources that the arguments name; the kernel's files lie below the root. `found` is known already."""
    with load(find(settings.parsers.paths)) as loaded:
        names = tuple(item.parser.name for item in loaded.parsers)
        for name in sorted(set(arguments.source) - set(names)):
            raise unknown("source", name, names)
        if not found:
            options.check_names(arguments, settings, loaded.polls)
        got = read(loaded, settings, arguments.source, root)
        known = (*found, *_failures(loaded))
    facts = Examined(
        got.snapshot,
        got.patients,
        machine(root, os.environ),
        limits_here.limits(root),
        limits_here.folders(settings),
        Beside() if arguments.source else _beside(arguments, settings),
        got.listed,
        known,
        _flights(settings.state.directory),
        owners_are_told=settings.attribution.enabled,
        is_partial=bool(arguments.source),
    )
    return Here(examined(facts), got, settings)


def _failures(loaded: Loaded) -> list[Finding]:
    return [Finding("plugins", options.failure_text(failure), _PLUGIN) for failure in loaded.failures]


def _flights(state_directory: str) -> tuple[Flight, ...]:
    """What the flight recorder has kept, the newest first."""
    try:
        return kept(state_directory)
    except OSError:  # the folder cannot be read; what is wrong with it is a finding of its own
        return ()


def _beside(arguments: argparse.Namespace, settings: Settings) -> Beside:
    """The daemon of this node, as far as it answers."""
    given = nodes.credentials(arguments)
    own = Beside(unit=unit(), reads=reads(settings), version=__version__)
    address = nodes.daemon_here(settings, given)
    if address is None:
        return _silent(own, settings)
    try:
        return replace(own, view=ask(address, given, _DAEMON_SECONDS, settings.web.telemetry_path))
    except NodeError as error:
        return replace(own, why_not=str(error))


def _silent(own: Beside, settings: Settings) -> Beside:
    """With why its local socket does not answer, where there is one."""
    client = Client(Address("the daemon", unix=str(local_socket_in(settings.state.runtime_directory))))
    try:
        client.get("/healthz")
    except NodeError as error:
        if isinstance(error.__cause__, PermissionError):
            return replace(own, why_not=str(error), is_denied=not isinstance(error.__cause__, UnsafeError))
    finally:
        client.close()
    return replace(own, why_not="no daemon of this node answers")
