"""`telemetry doctor --bundle`: everything that is known of this node, masked, in one file for a bug report."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from telemetry_daemon.commands import daemons, options
from telemetry_daemon.commands.doctor_here import Here, examine
from telemetry_daemon.config import file
from telemetry_daemon.config.inputs import ConfigError
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.doctor import bundle as bundles
from telemetry_daemon.doctor import members, view
from telemetry_daemon.doctor.bundle import Bundle, BundleError
from telemetry_daemon.doctor.findings import Finding, counted
from telemetry_daemon.doctor.machine import OF_PEOPLE, groups, user
from telemetry_daemon.doctor.members import History, Material
from telemetry_daemon.masking.mask import Mask, names_here
from telemetry_daemon.remote.http_client import Client, NodeError
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.version import __version__
from telemetry_exporters.documents.json_values import utc_time
from telemetry_exporters.text import clean

_HISTORY_SECONDS = 10.0


def run(arguments: argparse.Namespace, root: Path) -> int:
    """Write the bundle, print what it has, and say where it is; 2 where something is wrong with the node."""
    path = arguments.bundle
    try:
        bundles.check(path)
        here, loaded = _examined(arguments, root)
        mask = Mask(secrets.token_bytes(32), {*names_here(), user(), *groups(OF_PEOPLE)})
        bundle = Bundle(mask)
        history = _history(arguments, here)
        members.gather(
            bundle,
            mask,
            Material(here.examined, here.read, here.settings, loaded.origins, loaded.file, history, root),
        )
        time = here.examined.snapshot.wall_time
        head = _head(time, mask)
        packed = bundle.packed(head, time)
        bundles.write(path, packed)
    except BundleError as error:
        raise CommandError(str(error), status=exits.UNAVAILABLE) from None
    findings = here.examined.findings
    found = counted(len(findings), "finding")
    sys.stdout.write(f"{bundle.contents(head)}written to {clean(str(path))}: {len(packed):,} bytes, {found}\n")
    return exits.PROBLEMS if findings else exits.OK


def _head(time: float, mask: Mask) -> str:
    return (
        f"telemetry doctor --bundle, by telemetry {__version__}, {utc_time(time)}\n"
        f"{mask.values} values that may identify this node, its cards or its people have stand-ins, the same everywhere in here;\n"
        "the files of the flight recorder have others, since they were masked when they were written.\n"
        "Look through it before you send it: docs/troubleshooting.md says what is masked, and what cannot be."
    )


def _examined(arguments: argparse.Namespace, root: Path) -> tuple[Here, file.Loaded]:
    """What was found out; where the configuration cannot be used that is a finding, and the defaults are in force."""
    inputs = options.inputs(arguments)
    try:
        loaded = file.load_with_origins(inputs)
        return examine(arguments, root, loaded.settings), loaded
    except ConfigError as error:
        wrong = [Finding("configuration", line, "`telemetry config check` says so, too") for line in error.lines]
        defaults = file.Loaded(Settings(), file.path_of(inputs), {})
        return examine(arguments, root, Settings(), wrong), defaults


def _history(arguments: argparse.Namespace, here: Here) -> History:
    """The history and events that the daemon tells, or why it does not; nothing without one."""
    if here.daemon is None:
        return History()
    client = Client(here.daemon, daemons.credentials(arguments), _HISTORY_SECONDS)
    try:
        return History(client.get(view.HISTORY).body)
    except NodeError as error:
        return History(why_not=str(error))
    finally:
        client.close()
