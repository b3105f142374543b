"""The examples in every help can be typed as they stand, and `telemetry completions` prints what shells read."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import telemetry_daemon
from kits.command_line import run_main
from telemetry_daemon.cli import COMMANDS, build_parser, module_of

COMPLETION = Path(telemetry_daemon.__file__).parent / "completion"


@pytest.mark.parametrize("command", [name for name, _ in COMMANDS])
def test_every_command_has_examples_that_it_takes(command: str) -> None:
    help_text = build_parser(command).format_help()
    for typed, what in module_of(command).EXAMPLES.items():
        assert f"  {typed}\n      {what}\n" in help_text
        words = shlex.split(typed.partition("telemetry ")[2].partition(" | ")[0].partition(" > ")[0].rstrip(")"))
        assert words[0] == command
        build_parser(command).parse_args(words[1:])


@pytest.mark.parametrize(
    ("shell", "file"), [("bash", "telemetry.bash"), ("zsh", "_telemetry"), ("fish", "telemetry.fish")]
)
def test_completions_are_printed(shell: str, file: str) -> None:
    assert run_main("completions", shell) == (0, (COMPLETION / file).read_text("utf-8"), "")
