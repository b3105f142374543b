"""The short-lived process that validates a configuration, so that the running daemon never loads pydantic.

It reads the inputs as JSON from standard input. Status 0: the settings as JSON on standard output;
78: one line on standard error for each thing that is wrong.
"""

from __future__ import annotations

import json
import sys

from telemetry_daemon.config.file import load
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.plain import settings_to_plain
from telemetry_daemon.terminal import exits


def main() -> int:
    """Answer the request on standard input and return the exit status."""
    request = json.load(sys.stdin)
    known = request["known_sources"]
    request["known_sources"] = None if known is None else tuple(known)
    request["known_vendors"] = tuple(request["known_vendors"])
    request["known_polls"] = {name: tuple(polls) for name, polls in request["known_polls"].items()}
    try:
        settings = load(ConfigInputs(**request))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return error.status
    json.dump(settings_to_plain(settings), sys.stdout)
    return exits.OK


if __name__ == "__main__":
    sys.exit(main())
