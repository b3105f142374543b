"""The commands of `telemetry` with their arguments as plain data, from which man page and completion are generated."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from telemetry_daemon import cli
from telemetry_daemon.config.table import settings_rows
from telemetry_parsers.vendors import VENDOR_WORDS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHECKOUT = Path(__file__).resolve().parent.parent
# What a shell can offer as the value of an argument. For "free", any text is valid.
Kind = Literal["words", "file", "folder", "free"]
ValueUse = Literal["none", "required", "optional"]

_REPEATED = ("+", "*")


@dataclass(frozen=True)
class Argument:
    """An option, or an operand if `flags` is empty. The manual shows `value_name` in place of the value."""

    name: str
    flags: tuple[str, ...]
    value_name: str
    help: str
    value_use: ValueUse
    repeatable: bool
    kind: Kind
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommandTree:
    """A command with its one-line description and its arguments in the order of the help."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    examples: Mapping[str, str]

    @property
    def options(self) -> tuple[Argument, ...]:
        """Return the arguments that start with a dash."""
        return tuple(argument for argument in self.arguments if argument.flags)

    @property
    def operands(self) -> tuple[Argument, ...]:
        """Return the positional arguments."""
        return tuple(argument for argument in self.arguments if not argument.flags)


@cache
def commands() -> tuple[CommandTree, ...]:
    """Return all commands of `telemetry` with their arguments."""
    return tuple(
        CommandTree(name, text, _arguments(cli.build_parser(name)), cli.command_module(name).EXAMPLES)
        for name, text in cli.COMMANDS
    )


@cache
def common_options() -> tuple[Argument, ...]:
    """Return the options that can be used without a command, such as --version."""
    return _arguments(cli.build_parser(None))


@cache
def sources() -> tuple[str, ...]:
    """Return the sources that are part of the distribution."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    return tuple(sorted(project["entry-points"]["telemetry.parsers"]))


def _arguments(parser: argparse.ArgumentParser) -> tuple[Argument, ...]:
    return tuple(map(_argument, parser._actions))  # noqa: SLF001  # argparse has no public list of arguments


def _argument(action: argparse.Action) -> Argument:
    words = _words(action)
    return Argument(
        name=action.dest,
        flags=tuple(action.option_strings),
        value_name=_value_name(action),
        help=action.help or "",
        value_use=_value_use(action),
        repeatable=action.nargs in _REPEATED or isinstance(action, argparse._AppendAction),  # noqa: SLF001  # argparse has no public name for a repeatable option
        kind="words" if words else _kind(action),
        words=words,
    )


def _value_use(action: argparse.Action) -> ValueUse:
    if action.nargs == 0:
        return "none"
    return "optional" if action.option_strings and action.nargs in ("?", "*") else "required"


def _value_name(action: argparse.Action) -> str:
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.metavar if isinstance(action.metavar, str) else action.dest.upper()


def _words(action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    return _known_words().get(action.dest, ())


@cache
def _known_words() -> Mapping[str, tuple[str, ...]]:
    """Map arguments without choices in argparse to the words that the shell should offer."""
    words_by_setting = {row.dotted_path: row.words for row in settings_rows() if row.words}
    words_by_argument = {
        "source": sources(),
        "vendor": VENDOR_WORDS,
        "demo": tuple(f"8x{vendor}" for vendor in VENDOR_WORDS),
    }
    return {**words_by_setting, **words_by_argument}


def _kind(action: argparse.Action) -> Kind:
    if action.dest == "paths":
        return "folder"
    return "file" if action.metavar == "FILE" or action.dest.endswith("_file") else "free"
