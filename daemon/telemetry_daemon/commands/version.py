"""`telemetry version`: the version, and that of Python."""

from __future__ import annotations

import argparse
import platform

from telemetry_daemon.terminal import exits
from telemetry_daemon.version import __version__


def configure(parser: argparse.ArgumentParser) -> None:
    """No arguments."""
    parser.set_defaults()


def run(_arguments: argparse.Namespace) -> int:
    """Print one line."""
    print(f"telemetry {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")
    return exits.OK
