"""Removes text around an output: prompts, commands, notes of ssh, kubectl and sudo, and a launcher's line prefix."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import product

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.text.lines import Line, plain

# A name and a sign; the tag of `mpirun --tag-output`, `[1,0]<stdout>:`, without a blank after it; or the sign of a
# quotation or a comment, `> ` and `# `.
_PREFIX = re.compile(r"\[[0-9]{1,9},[0-9]{1,9}\]<std(?:out|err)>:[ \t]?|[>#][ \t]|[^\s:|>][^|>]{0,60}?(?::|\||>)[ \t]")
# The prefixes of log collectors: a date, a time, the stream of a container's log, a name in brackets, or a bare frame.
_LOG_PREFIX = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:Z|[+-][0-9:]{4,6})?)?[ \t]"
    r"(?:std(?:out|err) [FP] )?"
    r"|\[[\w.-]{1,64}\][ \t]|\|[ \t]"
)
# No value after a key begins like this: a frame or a rule, markup, a bracket on a line of its own.
_BEGINS_A_DOCUMENT = re.compile(r"[ \t]*(?:[-+=]{8,}|\+-|<[?!/A-Za-z]|[{\[][ \t]*\Z)")
_FEWEST_LINES = 2
# Lines that the launcher prints before the output: `srun: job 17 queued and waiting for resources`.
_MOST_OF_THE_LAUNCHER = 4


def without_prefix(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without their common first word, which a few lines at the start may lack. Use it only for a text in which nothing was recognised."""
    printed = [line.text for line in lines if line.text.strip()]
    starts = range(min(_MOST_OF_THE_LAUNCHER, len(printed) - _FEWEST_LINES) + 1)
    for pattern, start in product((_PREFIX, _LOG_PREFIX), starts):
        match = pattern.match(printed[start])
        if match is not None and all(text.startswith(match[0].rstrip()) for text in printed[start:]):
            return [replace(line, text=_bare(line.text, match[0])) for line in lines]
    return list(lines)


def begins_a_document(lines: Sequence[Line], bare: Sequence[Line]) -> bool:
    """Return whether the lines without their prefix are surely a document, and not a list of values with equal keys."""
    changed = (after.text for before, after in zip(lines, bare, strict=True) if before.text != after.text)
    return any(_BEGINS_A_DOCUMENT.match(text) for text in changed)


def _bare(text: str, prefix: str) -> str:
    return text.removeprefix(prefix) if text.startswith(prefix) else text.removeprefix(prefix.rstrip())


# A prompt that no tool prints: `root@node:~# `, `(env) [joe work]$`, `joe@node ~> `, `bash-5.1# `.
_PROMPT = re.compile(
    r"[ \t]{0,8}(?:\([^()\s]{1,40}\) )?(?:"
    r"\[[^\[\]]{1,120}\][#$](?:[ \t]|(?=[/\w])|$)"
    r"|(?:[\w.-]{1,64}@[\w.-]{1,64}[^#$%>|\n]{0,120}?|(?:ba|z|k|da)?sh-[0-9.]{1,8})(?:[#$>]|(?<=[ \t])%)(?:[ \t]|$))"
)
# These may also begin a line of output: a prompt only before a command of the tool.
_SIGNS = ("#", "$", ">", "%", "+", "➜", "❯")
_ENDS = (*_SIGNS, "cmd:")
_OPERATORS = ("|", ">", "<", ";", "&", "2>")
_PREFIXES = frozenset({"sudo", "timeout", "stdbuf", "time"})
# A shell's sign on the last line, after which nothing was typed.
_LAST = re.compile(r"[ \t]{0,8}(?:[$#%❯]|➜[ \t]{1,4}\S{1,80})[ \t]{0,8}\Z")
# The head of watch(1): `Every 2.0s: tool info        node: Mon Mar  3 10:00:00 2025`.
_WATCH = re.compile(r"\S{1,12} [0-9]{1,6}[.,][0-9]s: (.{1,300}?)(?:[ \t]{2,}.{0,200})?\Z")
_NOTE = re.compile(
    r"Defaulted container \"|Defaulting container name to |Use 'kubectl describe pod|Unable to use a TTY - "
    r"|If you don't see a command prompt|Warning: Permanently added '|\S{1,80}@\S{1,80}'s password:"
    r"|Pseudo-terminal will not be allocated|Last login: |Authorized users only|sudo: unable to resolve host "
    r"|Script (?:started|done) on |(?:Shared c|C)onnection to \S{1,80} closed\.|(?:logout|exit)[ \t]{0,8}$"
)
# If no line begins with one of these, no line needs to be checked.
_ANY = re.compile(rf"^(?:{_PROMPT.pattern}|{_NOTE.pattern}|\S{{1,12}} [0-9]{{1,6}}[.,][0-9]s: )", re.MULTILINE)
_MOST_WORDS = 40
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Run:
    """One output with the arguments of its command; no arguments if the text does not repeat the command."""

    arguments: tuple[str, ...]
    lines: tuple[Line, ...]

    def value_of(self, flag: str) -> str:
        """Return the word after a flag, or an empty text."""
        for position, word in enumerate(self.arguments[:-1]):
            if word == flag:
                return self.arguments[position + 1]
        return ""


def without_notes(text: str) -> str:
    """Return the text without notes of ssh, kubectl and sudo, and without the prompt at its end."""
    return _without(text, _is_note, ())


def without_echoes(text: str, commands: Collection[str]) -> str:
    """Return the text without notes, prompts and commands, as a program would have received it."""
    present = [command for command in commands if command in text]
    return _without(text, lambda row: _is_note(row) or _command_in(row, present) is not None, present)


def _without(text: str, is_echo: Callable[[str], bool], commands: Sequence[str]) -> str:
    """Return the text with blank lines instead of echoes, so that lines keep their numbers. Echoes at the end are cut off."""
    bare = plain(text)
    end = bare.rstrip().rpartition("\n")[2]
    ends_in_echo = is_echo(end) or _LAST.match(end) is not None or _command_in(end, ()) == ""
    if not ends_in_echo and not commands and _ANY.search(bare) is None:
        return text
    rows = bare.rstrip().split("\n") if ends_in_echo else bare.split("\n")
    kept = ["" if is_echo(row) else row for row in (rows[:-1] if ends_in_echo else rows)]
    return "\n".join(kept).rstrip() + "\n" if ends_in_echo else "\n".join(kept)


def _is_note(text: str) -> bool:
    """Return whether a line is a note of the program that transferred the output: `Defaulted container "x" out of: x, y`."""
    return _NOTE.match(text) is not None


def _command_in(text: str, commands: Collection[str]) -> str | None:
    """Return the command that this line repeats from a shell: empty after a bare prompt, None for a line of output."""
    prompt = _PROMPT.match(text)
    if prompt is not None:
        return text[prompt.end() :].strip()
    watched = _WATCH.match(text)
    if watched is not None:
        return watched[1]
    if not any(command in text for command in commands):
        return None
    words = text[:_LONGEST].split(maxsplit=_MOST_WORDS)
    start = next((at for at, word in enumerate(words) if word.rpartition("/")[2] in commands), None)
    if start is None or "|" in words[:start]:
        return None
    before, arguments = words[:start], words[start + 1 :]
    is_typed = not before or before[0] in _SIGNS or _PREFIXES.intersection(before) or before[-1].endswith(_ENDS)
    return " ".join(words[start:]) if is_typed and _are_arguments(arguments) else None


def _are_arguments(words: Sequence[str]) -> bool:
    """Return whether these words can follow a command: `metric -g 0`, `-a`, `info | head`, but not `went away`."""
    words = words[: next((at for at, word in enumerate(words) if word.startswith(_OPERATORS)), len(words))]
    names = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    return all(word.isalpha() for word in words[:names]) and (names <= 1 or names < len(words))


def runs(lines: Sequence[Line], tool: str) -> list[Run]:
    """Return the outputs of one tool in a text. Output of other commands between them is left out."""
    outputs: list[Run] = []
    arguments: tuple[str, ...] | None = ()
    body: list[Line] = []
    for line in lines:
        typed = _command_in(line.text, (tool,))
        if typed == "":
            continue
        if typed is None and not _is_other(line.text):
            body.append(line)
            continue
        _keep(outputs, arguments, body)
        arguments, body = arguments_of(line.text, tool), []
    _keep(outputs, arguments, body)
    return outputs


def without_commands(lines: Sequence[Line], tool: str) -> list[Line]:
    """Return the lines that are not commands, for a text in which the command of another tool precedes the tool's output."""
    return [line for line in lines if _command_in(line.text, (tool,)) is None and not _is_other(line.text)]


def arguments_of(text: str, tool: str) -> tuple[str, ...] | None:
    """Return the arguments of a command line of this tool, as typed or after a prompt; None for any other text."""
    words = (_command_in(text, (tool,)) or "").split(maxsplit=_MOST_WORDS)
    start = next((at for at, word in enumerate(words) if word.rpartition("/")[2] == tool), None)
    return None if start is None else tuple(words[start + 1 :])


def _keep(kept: list[Run], arguments: tuple[str, ...] | None, body: Sequence[Line]) -> None:
    if arguments is not None and (arguments or any(line.text.strip() for line in body)):
        kept.append(Run(arguments, tuple(body)))


def _is_other(text: str) -> bool:
    """Return whether a line is the command of another tool: `> cat /etc/hosts`, `# lspci`, `cat file`."""
    words = text[:_LONGEST].split(maxsplit=_MOST_WORDS)
    return len(words) > 1 and (words[0] == "cat" or words[0] in _SIGNS)
