"""The facts of this node for `telemetry doctor`, collected from sources, kernel, daemon and unit, and examined."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from telemetry_daemon.commands import options
from telemetry_daemon.commands.doctor_daemon import Found
from telemetry_daemon.commands.doctor_daemon import find as find_daemon
from telemetry_daemon.commands.options import unknown
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.doctor import limits_here
from telemetry_daemon.doctor.beside import Beside
from telemetry_daemon.doctor.examination import Examined, examined
from telemetry_daemon.doctor.findings import Finding
from telemetry_daemon.doctor.machine import machine
from telemetry_daemon.doctor.reading import Read, read
from telemetry_daemon.plugins.loading import Loaded, load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.remote.address import Address
from telemetry_daemon.state.flights import Flight, kept
from telemetry_daemon.terminal import streams

_PLUGIN = (
    "install what it needs, correct it, or take it out of parsers.paths or the environment; docs/writing-a-parser.md"
)


@dataclass(frozen=True, slots=True)
class Here:
    """What this node was found to be, with all that was read, the settings by which, and where its daemon answers."""

    examined: Examined
    read: Read
    settings: Settings
    daemon: Address | None


def examine(arguments: argparse.Namespace, root: Path, settings: Settings, found: Sequence[Finding] = ()) -> Here:
    """All of this node, or the sources that the arguments name; the kernel's files lie below the root. `found` is known already."""
    with load(find(settings.parsers.paths)) as loaded:
        names = tuple(item.parser.name for item in loaded.parsers)
        for name in sorted(set(arguments.source) - set(names)):
            raise unknown("source", name, names)
        if not found:
            options.check_names(arguments, settings, loaded.polls)
        got = read(loaded, settings, arguments.source, root, streams.show_waiting)
        known = (*found, *_failures(loaded))
    daemon = Found(Beside()) if arguments.source else find_daemon(arguments, settings)
    facts = Examined(
        snapshot=got.snapshot,
        patients=got.patients,
        machine=machine(root, os.environ),
        limits=limits_here.limits(root, daemon.beside.unit),
        folders=limits_here.folders(settings),
        daemon=daemon.beside,
        listed=got.listed,
        known=known,
        flights=_flights(settings.state.directory),
        expected=settings.expect.devices,
        owners_are_told=settings.attribution.enabled,
        is_partial=bool(arguments.source),
    )
    return Here(examined(facts), got, settings, daemon.address)


def _failures(loaded: Loaded) -> list[Finding]:
    return [Finding("plugins", options.failure_text(failure), _PLUGIN) for failure in loaded.failures]


def _flights(state_directory: str) -> tuple[Flight, ...]:
    """What the flight recorder has kept, the newest first."""
    try:
        return kept(state_directory)
    except OSError:  # the folder cannot be read; what is wrong with it is a finding of its own
        return ()
