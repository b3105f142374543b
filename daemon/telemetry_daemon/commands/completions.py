"""`telemetry completions`: what lets a shell complete our commands, for whoever installed us without it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from telemetry_daemon.terminal import exits

_FOLDER = Path(__file__).parent.parent / "completion"
_FILES = {"bash": "telemetry.bash", "zsh": "_telemetry", "fish": "telemetry.fish"}


def configure(parser: argparse.ArgumentParser) -> None:
    """For which shell."""
    parser.add_argument("shell", choices=tuple(_FILES), help="the shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    sys.stdout.write((_FOLDER / _FILES[arguments.shell]).read_text("utf-8"))
    return exits.OK
