"""Command lines that a saved text repeats before each output: where one output ends, and what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telemetry_parsers.text.lines import Line

_PROMPT_ENDS = ("#", "$", ">", "%")
_PREFIXES = frozenset({"sudo", "timeout", "stdbuf", "time"})
_MOST_WORDS = 40
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Run:
    """One output with the arguments that it answers, none where the text does not repeat its command."""

    arguments: tuple[str, ...]
    lines: tuple[Line, ...]

    def value_of(self, flag: str) -> str:
        """The word after a flag, empty where there is none."""
        for position, word in enumerate(self.arguments[:-1]):
            if word == flag:
                return self.arguments[position + 1]
        return ""


def runs(lines: Sequence[Line], tool: str) -> list[Run]:
    """The outputs in a text of one tool's; what other commands printed between them is left out."""
    found: list[Run] = []
    arguments: tuple[str, ...] | None = ()
    body: list[Line] = []
    for line in lines:
        asked = arguments_of(line.text, tool)
        if asked is None and not _is_prompt(line.text):
            body.append(line)
            continue
        _keep(found, arguments, body)
        arguments, body = asked, []
    _keep(found, arguments, body)
    return found


def arguments_of(text: str, tool: str) -> tuple[str, ...] | None:
    """The arguments of a command line of this tool, as typed or behind a prompt; None for any other text."""
    words = text[:_LONGEST].split(maxsplit=_MOST_WORDS)
    place = next((at for at, word in enumerate(words) if word.rpartition("/")[2] == tool), None)
    if place is None or len(words) == place + 1:
        return None
    before = words[:place]
    if before and not (before[-1].endswith(_PROMPT_ENDS) or _PREFIXES.intersection(before)):
        return None
    arguments = words[place + 1 :]
    is_command = arguments[0].startswith("-") or arguments[0].isalpha()
    return tuple(arguments) if is_command and "|" not in before else None


def _keep(found: list[Run], arguments: tuple[str, ...] | None, body: Sequence[Line]) -> None:
    if arguments is not None and (arguments or any(line.text.strip() for line in body)):
        found.append(Run(arguments, tuple(body)))


def _is_prompt(text: str) -> bool:
    """Whether a line is the command of some other tool: `> cat /etc/hosts`, `root@node:~# lspci`, `cat file`."""
    first, _, rest = text[:_LONGEST].strip().partition(" ")
    if not rest.strip():
        return False
    return first in _PROMPT_ENDS or (first.endswith(("#", "$")) and "@" in first) or first == "cat"
