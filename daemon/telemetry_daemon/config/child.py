"""Has a short-lived process validate the configuration and look for parsers, and takes over what it found.

So the daemon never imports pydantic and importlib.metadata, which would cost it 11 MiB for good. The process is this module as a program:
it reads the inputs as JSON from standard input. Status 0: the settings, and what may be a parser, as JSON on standard output;
78: one line on standard error for each thing that is wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.candidates import Candidates
from telemetry_daemon.processes.short_lived import Completed, NoAnswerError, ShortLivedProcess, command_for
from telemetry_daemon.terminal import exits
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.dataclass import dataclass, replace

# A booting node may be slow. A check that could not run is repeated, while a wrong configuration stays wrong.
DEADLINE_SECONDS = 30.0

_FAILED = "the configuration could not be checked"


@dataclass(frozen=True, slots=True)
class Checked:
    """The validated settings, and the candidate parsers for these settings."""

    settings: Settings
    candidates: Candidates


class Check:
    """A configuration check that runs while the daemon imports its modules. `command` replaces the child process."""

    def __init__(self, inputs: ConfigInputs, command: Sequence[str] | None = None) -> None:
        # Only variables that may be settings of this program.
        request = json.dumps(to_plain(ConfigInputs, replace(inputs, environment=inputs.variables())))
        try:
            self._asked = ShortLivedProcess(command or command_for("telemetry_daemon.config.child"), request)
        except NoAnswerError as error:
            raise ConfigError(f"{_FAILED}: {error}", status=exits.UNAVAILABLE) from error

    def result(self, deadline: float = DEADLINE_SECONDS) -> Checked:
        """Return the result. Raise ConfigError with the errors, or why the check could not run. `deadline` is in seconds."""
        try:
            return _answer(self._asked.answer(deadline))
        except NoAnswerError as error:
            raise ConfigError(f"{_FAILED}: {error}", status=exits.UNAVAILABLE) from error


def load_in_child(
    inputs: ConfigInputs, deadline: float = DEADLINE_SECONDS, command: Sequence[str] | None = None
) -> Settings:
    """Return the validated settings. Raise ConfigError with the errors, or why the check could not run."""
    return Check(inputs, command).result(deadline).settings


def _answer(ended: Completed) -> Checked:
    if ended.status == exits.CONFIGURATION:
        raise ConfigError(*ended.errors.splitlines())
    if ended.status != 0:
        last = (ended.errors.strip().splitlines() or ["it printed nothing"])[-1]
        text = f"{_FAILED}: the checking process ended with status {ended.status}: {last}"
        raise ConfigError(text, status=exits.UNAVAILABLE)
    try:
        return from_plain(Checked, json.loads(ended.output))
    except ValueError as error:
        raise ConfigError(f"{_FAILED}: the checking process gave no settings: {error!r}") from error


def main() -> int:
    """Answer the request on standard input and return the exit status."""
    # Only the short-lived process needs these.
    from telemetry_daemon.config.file import load
    from telemetry_daemon.plugins.sources import find

    try:
        settings = load(from_plain(ConfigInputs, json.load(sys.stdin)))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return error.status
    json.dump(to_plain(Checked, Checked(settings, find(settings.parsers.paths))), sys.stdout)
    return exits.OK


if __name__ == "__main__":
    sys.exit(main())
