"""Has a short-lived process validate the configuration, and takes over the plain settings."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields

from telemetry_daemon import exits
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.plain import settings_from_plain
from telemetry_daemon.settings import Settings

DEADLINE_SECONDS = 10.0

_DEATH_SECONDS = 1.0
_FAILED = "the configuration could not be checked"

# The child imports from exactly the places that this process imports from; `-m` would put the working
# directory first, where anybody may have left a module.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; del sys.argv[1:]; "
    "from telemetry_daemon.config.check import main; sys.exit(main())"
)


def load_in_child(
    inputs: ConfigInputs, deadline: float = DEADLINE_SECONDS, command: Sequence[str] | None = None
) -> Settings:
    """The settings in force; a ConfigError says what is wrong, or why they could not be checked.

    `deadline` is seconds; `command` stands in for the child.
    """
    try:
        child = _started(command or (sys.executable, "-c", _PROGRAM, *filter(None, sys.path)))
        output, errors = child.communicate(_request(inputs), timeout=deadline)
    except OSError as error:
        raise ConfigError(f"{_FAILED}: no process could be started: {error}") from error
    except subprocess.TimeoutExpired:
        _abandon(child)
        raise ConfigError(f"{_FAILED}: no answer within {deadline:g} s; is the file on a disk that hangs?") from None
    return _answer(child.returncode, output, errors)


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )


def _request(inputs: ConfigInputs) -> str:
    """The inputs as JSON; of the environment only what may be ours."""
    names = (field.name for field in fields(inputs))
    values = {name: getattr(inputs, name) for name in names}
    return json.dumps(
        values
        | {
            "environment": inputs.variables(),
            "overrides": dict(inputs.overrides),
            "known_polls": dict(inputs.known_polls),
        }
    )


def _abandon(child: subprocess.Popen[str]) -> None:
    """Kill the child with all that it started, and leave it alone if it cannot die."""
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        os.killpg(child.pid, signal.SIGKILL)
    try:
        child.communicate(timeout=_DEATH_SECONDS)
    except subprocess.TimeoutExpired:
        child.poll()
        for stream in filter(None, (child.stdin, child.stdout, child.stderr)):
            stream.close()


def _answer(status: int, output: str, errors: str) -> Settings:
    if status == exits.CONFIGURATION:
        raise ConfigError(*errors.splitlines())
    if status != 0:
        last = (errors.strip().splitlines() or ["it said nothing"])[-1]
        raise ConfigError(f"{_FAILED}: the checking process ended with status {status}: {last}")
    try:
        return settings_from_plain(json.loads(output))
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"{_FAILED}: the checking process gave no settings: {error!r}") from error
