"""Command lines that a saved text repeats before each output: where one output ends, and what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from telemetry_parsers.text.lines import Line

_PROMPT_ENDS = ("#", "$", ">", "%")
_PREFIXES = frozenset({"sudo", "timeout", "stdbuf", "time"})
_WATCH = "Every"  # the head of watch(1): `Every 2.0s: tool info`
_BRACKETS = ("]#", "]$")
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
        if _is_bare_prompt(line.text):
            continue
        if asked is None and not _is_prompt(line.text):
            body.append(line)
            continue
        _keep(found, arguments, body)
        arguments, body = asked, []
    _keep(found, arguments, body)
    return found


def without_commands(lines: Sequence[Line], tool: str) -> list[Line]:
    """The lines that are no command, for a text in which a command of another tool stands before all that is the tool's."""
    return [line for line in lines if arguments_of(line.text, tool) is None and not _is_prompt(line.text)]


def arguments_of(text: str, tool: str) -> tuple[str, ...] | None:
    """The arguments of a command line of this tool, as typed or behind a prompt; None for any other text."""
    words = _apart(text[:_LONGEST], tool).split(maxsplit=_MOST_WORDS)
    place = next((at for at, word in enumerate(words) if word.rpartition("/")[2] == tool), None)
    if place is None or len(words) == place + 1:
        return None
    before = words[:place]
    is_typed = _begins_with_prompt(before) or _PREFIXES.intersection(before) or before[:1] == [_WATCH]
    if before and not (before[-1].endswith(_PROMPT_ENDS) or is_typed):
        return None
    arguments = words[place + 1 :]
    is_command = arguments[0].startswith("-") or arguments[0].isalpha()
    return tuple(arguments) if is_command and "|" not in before else None


def _apart(text: str, tool: str) -> str:
    """The line with a blank behind a prompt that has none: `[user work]$tool -x`."""
    for sign in _PROMPT_ENDS:
        text = text.replace(f"]{sign}{tool} ", f"]{sign} {tool} ", 1)
    return text


def _keep(found: list[Run], arguments: tuple[str, ...] | None, body: Sequence[Line]) -> None:
    if arguments is not None and (arguments or any(line.text.strip() for line in body)):
        found.append(Run(arguments, tuple(body)))


def _is_prompt(text: str) -> bool:
    """Whether a line is the command of some other tool: `> cat /etc/hosts`, `root@node:~# lspci`, `cat file`."""
    words = text[:_LONGEST].split(maxsplit=_MOST_WORDS)
    return len(words) > 1 and (words[0] == "cat" or _begins_with_prompt(words[:-1]))


def _begins_with_prompt(words: Sequence[str]) -> bool:
    """Whether a line begins as `#`, `root@node:~#` or `[root@node ~]#` do."""
    first = words[0] if words else ""
    is_bracketed = "[" in "".join(words[:2]) and any(word.endswith(_BRACKETS) for word in words[:3])
    return first in _PROMPT_ENDS or ("@" in first and first.endswith(("#", "$"))) or is_bracketed


def _is_bare_prompt(text: str) -> bool:
    """Whether a line is a prompt behind which nothing was typed."""
    words = text[:_LONGEST].split(maxsplit=_MOST_WORDS)
    return 0 < len(words) <= 3 and _begins_with_prompt(words) and words[-1].endswith(("#", "$")) and words != ["#"]
