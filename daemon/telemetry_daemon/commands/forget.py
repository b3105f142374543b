"""`telemetry forget ID`: a lost device is no longer shown as lost."""

from __future__ import annotations

import argparse
import shlex

from telemetry_daemon import control, exits
from telemetry_daemon.commands import options
from telemetry_daemon.commands.daemon import ask_daemon
from telemetry_daemon.exits import CommandError
from telemetry_daemon.state import devices_file


def configure(parser: argparse.ArgumentParser) -> None:
    """The device, and where the daemon keeps its state."""
    parser.add_argument("id", metavar="ID", help="`id` label of a lost device, whose accelerator_up is 0")
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tell the running daemon, or change its state file where none runs."""
    settings = options.settings(arguments)
    socket_path = control.path_in(settings.runtime_directory)
    if socket_path.exists():
        answer = ask_daemon(settings, "forget", id=arguments.id)
        if not answer["forgotten"]:
            raise CommandError(_unknown(arguments.id, answer["lost"]))
    else:
        _forget_in_file(arguments.id, settings.state_directory)
    print(f"forgot {arguments.id}")
    return exits.OK


def _forget_in_file(device_id: str, directory: str) -> None:
    path = devices_file.path_in(directory)
    identities = devices_file.load(path)
    kept = [identity for identity in identities if identity.id != device_id]
    if len(kept) == len(identities):
        raise CommandError(_unknown(device_id, [i.id for i in identities if i.lost_since is not None]))
    try:
        devices_file.save(path, kept)
    except OSError as error:
        raise CommandError(
            f"cannot write '{path}': {error.strerror}; run it as root", status=exits.UNAVAILABLE
        ) from None


def _unknown(device_id: str, lost: object) -> str:
    names = ", ".join(shlex.quote(str(each)) for each in lost) if isinstance(lost, list) else ""
    known = f"the lost devices are {names}" if names else "no device is lost"
    return f"'{device_id}' is not a lost device; {known}"
