"""Requests of commands to the running daemon."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.remote import control_socket as control
from telemetry_daemon.remote.control_socket import ControlError
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters.text import clean, cut
from telemetry_parsers.codec.derived import from_plain
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.model import Plain

_LONGEST_TEXT = 1000
T = TypeVar("T")


def ask_daemon(settings: Settings, answer_type: type[T], verb: str, **arguments: Plain) -> T:
    """Return the daemon's answer, whose texts are fit for a terminal. Raises CommandError if none answers, or the daemon refuses."""
    path = control.path_in(settings.state.runtime_directory)
    try:
        answer = control.ask(path, verb, **arguments)
        # A newer daemon may report more.
        known = {field.name: answer[field.name] for field in fields(answer_type) if field.name in answer}  # type: ignore[arg-type]  # a dataclass
        return from_plain(answer_type, _printable(known))
    except control.RefusedError as error:
        raise CommandError(str(error)) from None
    except ControlError as error:
        raise CommandError(str(error), status=exits.UNAVAILABLE) from None
    except CodecError as error:
        text = f"the daemon on {path} gave an answer that is not understood ({error}); is it of another version?"
        raise CommandError(text, status=exits.UNAVAILABLE) from None


def _printable(plain: Plain) -> Plain:
    """Return the same data without control characters and with short texts: the process at the socket may not be our daemon."""
    if isinstance(plain, str):
        return cut(clean(plain), _LONGEST_TEXT)
    if isinstance(plain, dict):
        return {name: _printable(value) for name, value in plain.items()}
    return [_printable(value) for value in plain] if isinstance(plain, list) else plain
