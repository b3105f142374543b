"""What our parsers say of themselves, a line each, so that the daemon need not import them to know it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from telemetry_daemon.plugins.built_in import description
from telemetry_daemon.processes.targets import load
from telemetry_parsers.codec.captures import DescribedParser
from telemetry_parsers.codec.derived import to_plain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def descriptions() -> str:
    """A JSON list of the parsers that are entry points of the project."""
    entry_points = tomllib.loads(_PROJECT.read_text("utf-8"))["project"]["entry-points"]
    targets = entry_points["telemetry.parsers"].values()
    lines = [json.dumps(to_plain(DescribedParser, description(load(target)))) for target in sorted(targets)]
    return "[\n" + ",\n".join(lines) + "\n]\n"
