"""`telemetry forget`: stops reporting one or all lost devices as lost, and closes the open events of a device."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from telemetry_daemon.commands import options
from telemetry_daemon.commands.options import check_vendor
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.remote import control_socket as control
from telemetry_daemon.remote.control_requests import Forgotten
from telemetry_daemon.remote.control_socket import ask_daemon
from telemetry_daemon.state import devices_file
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.model import Identity

EXAMPLES = {
    "telemetry forget GPU-1f2e3d4c": "Forget a card that was taken out.",
    "telemetry forget --all-lost": "Forget all cards that are lost.",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="`id` label of a lost device, whose accelerator_up is 0, or of one whose open events are to end",
    )
    which.add_argument(
        "--all-lost", action="store_true", help="all lost devices, such as those that a faulty tool reported"
    )
    parser.add_argument(
        "--vendor", metavar="VENDOR", help="with --all-lost: of this vendor only, as in the label `vendor`"
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Send the request to the running daemon, or change its state file if no daemon runs."""
    if arguments.vendor is not None and not arguments.all_lost:
        raise CommandError("--vendor goes with --all-lost; an ID is one device's", status=exits.USAGE)
    settings = options.settings(arguments)
    socket_path = control.path_in(settings.state.runtime_directory)
    if not socket_path.exists():
        chosen = (
            devices_file.of_vendor(arguments.vendor)
            if arguments.all_lost
            else lambda identity: identity.id == arguments.id
        )
        done = _forget_in_file(arguments, chosen, settings.state.directory)
    elif arguments.all_lost:
        done = ask_daemon(settings, Forgotten, "forget_lost", vendor=arguments.vendor)
    else:
        done = ask_daemon(settings, Forgotten, "forget", id=arguments.id)
    if not done.forgotten and not done.events:
        _check_names(arguments, settings, done.lost)
    print(_told(arguments, done))
    return exits.OK


def _told(arguments: argparse.Namespace, done: Forgotten) -> str:
    if arguments.all_lost:
        return f"forgot {done.forgotten} lost {'device' if done.forgotten == 1 else 'devices'}"
    events = f"the open events of {arguments.id}: {', '.join(done.events)}"
    return f"forgot {events if done.events else arguments.id}"


def _forget_in_file(arguments: argparse.Namespace, chosen: Callable[[Identity], bool], directory: str) -> Forgotten:
    path = devices_file.path_in(directory)
    found = devices_file.load(path)
    kept = found.filtered(lambda identity: identity.lost_since is None or not chosen(identity))
    forgotten = len(found.devices) - len(kept.devices)
    codes = tuple(code for event in kept.events if event.id == arguments.id for code in event.codes)
    if forgotten or codes:
        try:
            devices_file.save(
                path, replace(kept, events=tuple(event for event in kept.events if event.id != arguments.id))
            )
        except OSError as error:
            raise CommandError(
                f"cannot write '{path}': {error.strerror}; run it as root", status=exits.UNAVAILABLE
            ) from None
    return Forgotten(forgotten, codes, tuple(device.id for device in kept.devices if device.lost_since is not None))


def _check_names(arguments: argparse.Namespace, settings: Settings, lost: Sequence[str]) -> None:
    if not arguments.all_lost:
        names = ", ".join(map(shlex.quote, lost))
        lost_text = f"the lost devices are {names}" if names else "no device is lost"
        raise CommandError(f"'{arguments.id}' is not a lost device, and has no open event; {lost_text}")
    if arguments.vendor is not None:
        check_vendor(arguments.vendor, settings.parsers.paths)
