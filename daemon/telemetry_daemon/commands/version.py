"""`telemetry version`: prints the versions of the product and of Python."""

from __future__ import annotations

import argparse
import os
import sys

from telemetry_daemon.terminal import exits
from telemetry_daemon.version import __version__

EXAMPLES = {"telemetry version": "Print the version."}


def configure(_parser: argparse.ArgumentParser) -> None:
    """Do nothing, because the command has no arguments."""


def run(_arguments: argparse.Namespace) -> int:
    """Print the versions in one line."""
    python_version, system = sys.version.split()[0], os.uname()
    print(f"telemetry {__version__} (Python {python_version}, {system.sysname} {system.machine})")
    return exits.OK
