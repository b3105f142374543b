"""`telemetry forget`: removes lost devices from the daemon's reports, or closes a device's open events."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from telemetry_daemon.commands import options
from telemetry_daemon.commands.options import check_vendor
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.remote import control_socket as control
from telemetry_daemon.remote.control_requests import ForgetResult
from telemetry_daemon.remote.control_socket import daemon_answer
from telemetry_daemon.state import devices_file
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.model import Identity

EXAMPLES = {
    "telemetry forget GPU-1f2e3d4c": "Forget a removed card.",
    "telemetry forget --all-lost": "Forget all lost cards.",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    selection = parser.add_mutually_exclusive_group(required=True)
    selection.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="`id` label of a lost device, or of a device with open events",
    )
    selection.add_argument(
        "--all-lost", action="store_true", help="all lost devices, for example after a tool reported wrong devices"
    )
    parser.add_argument(
        "--vendor", metavar="VENDOR", help="with --all-lost: only devices whose label `vendor` has this value"
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Make the daemon forget the devices or, without a daemon, remove them from its state file."""
    if arguments.vendor is not None and not arguments.all_lost:
        raise CommandError("--vendor needs --all-lost; an ID already selects one device", status=exits.USAGE)
    settings = options.load_settings(arguments)
    socket_path = control.socket_path(settings.state.runtime_directory)
    if not socket_path.exists():
        matches = (
            devices_file.vendor_filter(arguments.vendor)
            if arguments.all_lost
            else lambda identity: identity.id == arguments.id
        )
        result = _forget_in_file(arguments, matches, settings.state.directory)
    elif arguments.all_lost:
        result = daemon_answer(settings, ForgetResult, "forget_lost", vendor=arguments.vendor)
    else:
        result = daemon_answer(settings, ForgetResult, "forget", id=arguments.id)
    if not result.forgotten and not result.events:
        _raise_if_unknown(arguments, settings, result.lost)
    print(_result_text(arguments, result))
    return exits.OK


def _result_text(arguments: argparse.Namespace, result: ForgetResult) -> str:
    if arguments.all_lost:
        return f"forgot {result.forgotten} lost {'device' if result.forgotten == 1 else 'devices'}"
    if result.events:
        return f"forgot the open events of {arguments.id}: {', '.join(result.events)}"
    return f"forgot {arguments.id}"


def _forget_in_file(arguments: argparse.Namespace, matches: Callable[[Identity], bool], directory: str) -> ForgetResult:
    path = devices_file.path_in(directory)
    content = devices_file.load(path)
    kept = content.filtered(lambda identity: identity.lost_since is None or not matches(identity))
    forgotten = len(content.devices) - len(kept.devices)
    codes = tuple(code for event in kept.events if event.id == arguments.id for code in event.codes)
    if forgotten or codes:
        try:
            kept_events = tuple(event for event in kept.events if event.id != arguments.id)
            devices_file.save(path, replace(kept, events=kept_events))
        except OSError as error:
            text = f"cannot write '{path}': {error.strerror}; run the command as root"
            raise CommandError(text, status=exits.UNAVAILABLE) from None
    return ForgetResult(forgotten, codes, tuple(device.id for device in kept.devices if device.lost_since is not None))


def _raise_if_unknown(arguments: argparse.Namespace, settings: Settings, lost_ids: Sequence[str]) -> None:
    if not arguments.all_lost:
        quoted_ids = ", ".join(map(shlex.quote, lost_ids))
        lost_text = f"the lost devices are {quoted_ids}" if quoted_ids else "no device is lost"
        raise CommandError(f"'{arguments.id}' is not a lost device, and has no open event; {lost_text}")
    if arguments.vendor is not None:
        check_vendor(arguments.vendor, settings.parsers.paths)
