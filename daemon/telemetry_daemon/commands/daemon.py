"""What commands ask of the running daemon."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.control import socket as control
from telemetry_daemon.control.socket import ControlError
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.model import Plain


def ask_daemon(settings: Settings, verb: str, **arguments: Plain) -> Mapping[str, Plain]:
    """The daemon's answer. Raises CommandError when none answers, or when it refuses."""
    path = control.path_in(settings.state.runtime_directory)
    try:
        return control.ask(path, verb, **arguments)
    except control.RefusedError as error:
        raise CommandError(str(error)) from None
    except ControlError as error:
        raise CommandError(str(error), status=exits.UNAVAILABLE) from None
