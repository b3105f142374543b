"""The commands of `telemetry` with their arguments as plain data, for what is made from them: man page, completion."""

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
# What a shell may offer for a value: one of some words, a file, a folder, or nothing since it can be anything.
Kind = Literal["words", "file", "folder", "free"]
Takes = Literal["nothing", "a value", "perhaps a value"]

_OF_MANY = ("+", "*")


@dataclass(frozen=True)
class Argument:
    """An option, or an operand when it has no `flags`; `shown` is how the manual calls its value."""

    name: str
    flags: tuple[str, ...]
    shown: str
    help: str
    takes: Takes
    repeatable: bool
    kind: Kind
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommandTree:
    """A command: what it does in one line, and its arguments in the order of its help."""

    name: str
    help: str
    arguments: tuple[Argument, ...]
    examples: Mapping[str, str]

    @property
    def options(self) -> tuple[Argument, ...]:
        """The arguments that begin with a dash."""
        return tuple(each for each in self.arguments if each.flags)

    @property
    def operands(self) -> tuple[Argument, ...]:
        """The arguments that are told by their place."""
        return tuple(each for each in self.arguments if not each.flags)


@cache
def commands() -> tuple[CommandTree, ...]:
    """Every command."""
    return tuple(
        CommandTree(name, text, _arguments(cli.build_parser(name)), cli.module_of(name).EXAMPLES)
        for name, text in cli.COMMANDS
    )


@cache
def common_options() -> tuple[Argument, ...]:
    """The options that stand in place of a command."""
    return _arguments(cli.build_parser(None))


@cache
def sources() -> tuple[str, ...]:
    """The sources that come with the distribution."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    return tuple(sorted(project["entry-points"]["telemetry.parsers"]))


def _arguments(parser: argparse.ArgumentParser) -> tuple[Argument, ...]:
    return tuple(map(_argument, parser._actions))  # noqa: SLF001  # argparse has no other way to list them


def _argument(action: argparse.Action) -> Argument:
    words = _words(action)
    return Argument(
        name=action.dest,
        flags=tuple(action.option_strings),
        shown=_shown(action),
        help=action.help or "",
        takes=_takes(action),
        repeatable=action.nargs in _OF_MANY or isinstance(action, argparse._AppendAction),  # noqa: SLF001  # no public name for a flag that adds up
        kind="words" if words else _kind(action),
        words=words,
    )


def _takes(action: argparse.Action) -> Takes:
    if action.nargs == 0:
        return "nothing"
    return "perhaps a value" if action.option_strings and action.nargs in ("?", "*") else "a value"


def _shown(action: argparse.Action) -> str:
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.metavar if isinstance(action.metavar, str) else action.dest.upper()


def _words(action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return tuple(map(str, action.choices))
    return _known_words().get(action.dest, ())


@cache
def _known_words() -> Mapping[str, tuple[str, ...]]:
    """What can stand for an argument of that name, where argparse is not told."""
    of_settings = {row.dotted: row.words for row in settings_rows() if row.words}
    own = {"source": sources(), "vendor": VENDOR_WORDS, "demo": tuple(f"8x{vendor}" for vendor in VENDOR_WORDS)}
    return {**of_settings, **own}


def _kind(action: argparse.Action) -> Kind:
    if action.dest == "paths":
        return "folder"
    return "file" if action.metavar == "FILE" or action.dest.endswith("_file") else "free"
