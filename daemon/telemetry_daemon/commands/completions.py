"""`telemetry completions`: prints the completion script for a shell."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from telemetry_daemon.terminal import exits

EXAMPLES = {
    "source <(telemetry completions bash)": "Complete commands in this shell.",
    "telemetry completions zsh > ~/.zfunc/_telemetry": "Complete commands in zsh. The folder of the file must be in fpath.",
    "telemetry completions fish > ~/.config/fish/completions/telemetry.fish": "The same for fish.",
}

_SCRIPT_FOLDER = Path(__file__).parent.parent / "completion"
_SCRIPT_NAMES = {"bash": "telemetry.bash", "zsh": "_telemetry", "fish": "telemetry.fish"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument("shell", choices=tuple(_SCRIPT_NAMES), help="the shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script for the shell."""
    sys.stdout.write((_SCRIPT_FOLDER / _SCRIPT_NAMES[arguments.shell]).read_text("utf-8"))
    return exits.OK
