"""The short-lived process that validates a configuration, so that the running daemon never loads pydantic.

It reads the inputs as JSON from standard input. Status 0: the settings, and what may be a parser, as JSON on standard output;
78: one line on standard error for each thing that is wrong.
"""

from __future__ import annotations

import json
import sys

from telemetry_daemon.config.child import Checked
from telemetry_daemon.config.file import load
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.terminal import exits
from telemetry_parsers.codec.derived import from_plain, to_plain


def main() -> int:
    """Answer the request on standard input and return the exit status."""
    try:
        settings = load(from_plain(ConfigInputs, json.load(sys.stdin)))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return error.status
    checked = Checked(settings, find(settings.parsers.paths))
    json.dump(to_plain(Checked, checked), sys.stdout)
    return exits.OK


if __name__ == "__main__":
    sys.exit(main())
