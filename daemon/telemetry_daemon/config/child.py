"""Validates the configuration and finds parsers in a short-lived process, to save memory in the daemon."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.candidates import Candidates
from telemetry_daemon.processes.short_lived import NoAnswerError, ProcessResult, ShortLivedProcess, command_for
from telemetry_daemon.terminal import exits
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.dataclass import dataclass, replace

# Checking the configuration may take this long on a node that is booting.
DEADLINE_SECONDS = 30.0

_NOT_CHECKED = "the configuration could not be checked"


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """The settings, and the parsers that the child process found."""

    settings: Settings
    candidates: Candidates


class ConfigCheck:
    """Validates the configuration in a child process, so that the daemon can import modules in the meantime."""

    def __init__(self, inputs: ConfigInputs, command: Sequence[str] | None = None) -> None:
        # Pass only the variables that may be settings.
        request = json.dumps(to_plain(ConfigInputs, replace(inputs, environment=inputs.variables())))
        try:
            self._process = ShortLivedProcess(command or command_for("telemetry_daemon.config.child"), request)
        except NoAnswerError as error:
            raise ConfigError(f"{_NOT_CHECKED}: {error}", status=exits.UNAVAILABLE) from error

    def result(self, timeout_seconds: float = DEADLINE_SECONDS) -> CheckedConfig:
        """Wait for the settings. Raise ConfigError if they are invalid, or after the timeout."""
        try:
            return _parse_result(self._process.complete(timeout_seconds))
        except NoAnswerError as error:
            raise ConfigError(f"{_NOT_CHECKED}: {error}", status=exits.UNAVAILABLE) from error


def load_in_child(
    inputs: ConfigInputs, timeout_seconds: float = DEADLINE_SECONDS, command: Sequence[str] | None = None
) -> Settings:
    """Return the validated settings. Raise ConfigError if they are invalid, or after the timeout."""
    return ConfigCheck(inputs, command).result(timeout_seconds).settings


def _parse_result(completed: ProcessResult) -> CheckedConfig:
    if completed.status == exits.CONFIGURATION:
        raise ConfigError(*completed.errors.splitlines())
    if completed.status != 0:
        last_line = (completed.errors.strip().splitlines() or ["it printed no error"])[-1]
        text = f"{_NOT_CHECKED}: the validation process exited with status {completed.status}: {last_line}"
        raise ConfigError(text, status=exits.UNAVAILABLE)
    try:
        return from_plain(CheckedConfig, json.loads(completed.output))
    except ValueError as error:
        raise ConfigError(f"{_NOT_CHECKED}: the validation process returned no valid settings: {error!r}") from error


def main() -> int:
    """Validate the inputs from standard input, and return the exit status."""
    # Imported here because the daemon does not need these modules.
    from telemetry_daemon.config.file import load
    from telemetry_daemon.plugins.sources import find_parsers

    try:
        settings = load(from_plain(ConfigInputs, json.load(sys.stdin)))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return error.status
    json.dump(to_plain(CheckedConfig, CheckedConfig(settings, find_parsers(settings.parsers.paths))), sys.stdout)
    return exits.OK


if __name__ == "__main__":
    sys.exit(main())
