"""`telemetry forget`: lost devices are no longer shown as lost, one of them or all."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable

from telemetry_daemon.commands import options
from telemetry_daemon.commands.daemon import ask_daemon
from telemetry_daemon.commands.lookup import check_vendor
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.control import socket as control
from telemetry_daemon.plugins.loading import load
from telemetry_daemon.state import devices_file
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.model import Identity


def configure(parser: argparse.ArgumentParser) -> None:
    """The devices, and where the daemon keeps its state."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("id", metavar="ID", nargs="?", help="`id` label of a lost device, whose accelerator_up is 0")
    which.add_argument(
        "--all-lost", action="store_true", help="all lost devices, such as those that a faulty tool reported"
    )
    parser.add_argument(
        "--vendor", metavar="VENDOR", help="with --all-lost: of this vendor only, as in the label `vendor`"
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tell the running daemon, or change its state file where none runs."""
    if arguments.vendor is not None and not arguments.all_lost:
        raise CommandError("--vendor goes with --all-lost; an ID is one device's", status=exits.USAGE)
    settings = options.settings(arguments)
    socket_path = control.path_in(settings.state.runtime_directory)
    if socket_path.exists():
        if arguments.all_lost:
            answer = ask_daemon(settings, "forget_lost", vendor=arguments.vendor)
        else:
            answer = ask_daemon(settings, "forget", id=arguments.id)
        forgotten, lost = answer["forgotten"], answer["lost"]
    else:
        chosen = devices_file.of_vendor(arguments.vendor) if arguments.all_lost else _with_id(arguments.id)
        forgotten, lost = _forget_in_file(chosen, settings.state.directory)
    if not forgotten:
        _check_names(arguments, settings, lost)
    counted = f"{forgotten} lost {'device' if forgotten == 1 else 'devices'}"
    print(f"forgot {counted if arguments.all_lost else arguments.id}")
    return exits.OK


def _with_id(device_id: str) -> Callable[[Identity], bool]:
    return lambda identity: identity.id == device_id


def _forget_in_file(chosen: Callable[[Identity], bool], directory: str) -> tuple[int, list[str]]:
    """How many were forgotten, and the ids of the devices that are still lost."""
    path = devices_file.path_in(directory)
    identities = devices_file.load(path)
    kept = [identity for identity in identities if identity.lost_since is None or not chosen(identity)]
    if len(kept) < len(identities):
        try:
            devices_file.save(path, kept, devices_file.since(path))
        except OSError as error:
            raise CommandError(
                f"cannot write '{path}': {error.strerror}; run it as root", status=exits.UNAVAILABLE
            ) from None
    return len(identities) - len(kept), [identity.id for identity in kept if identity.lost_since is not None]


def _check_names(arguments: argparse.Namespace, settings: Settings, lost: list[str]) -> None:
    """Refuse an id that no lost device has, and a vendor that no parser has. Raises CommandError."""
    if not arguments.all_lost:
        raise CommandError(_unknown(arguments.id, lost))
    if arguments.vendor is not None:
        with load(settings.parsers.paths) as loaded:
            check_vendor(arguments.vendor, loaded)


def _unknown(device_id: str, lost: list[str]) -> str:
    names = ", ".join(map(shlex.quote, lost))
    lost_text = f"the lost devices are {names}" if names else "no device is lost"
    return f"'{device_id}' is not a lost device; {lost_text}"
