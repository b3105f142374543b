"""Removes echoes, such as prompts, commands and line prefixes, from a tool's output."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import product

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.text.lines import Line, plain

# A line prefix, such as `[1,0]<stdout>:` (mpirun --tag-output), `> `, `# `, or a name before `:`, `|` or `>`.
_PREFIX = re.compile(r"\[[0-9]{1,9},[0-9]{1,9}\]<std(?:out|err)>:[ \t]?|[>#][ \t]|[^\s:|>][^|>]{0,60}?(?::|\||>)[ \t]")
# The line prefix of a log collector, such as a date, a time, a stream, a name in brackets, or `|`.
_LOG_PREFIX = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:Z|[+-][0-9:]{4,6})?)?[ \t]"
    r"(?:std(?:out|err) [FP] )?"
    r"|\[[\w.-]{1,64}\][ \t]|\|[ \t]"
)
# The beginning of a document, such as a horizontal line, markup or a lone bracket, which cannot be a value after a key.
_DOCUMENT_START = re.compile(r"[ \t]*(?:[-+=]{8,}|\+-|<[?!/A-Za-z]|[{\[][ \t]*\Z)")
_MIN_PREFIXED_LINES = 2  # a prefix of fewer lines may be a part of the output
# Lines that a launcher prints before the output, such as `srun: job 17 queued and waiting for resources`.
_MAX_LAUNCHER_LINES = 4


def without_prefix(lines: Sequence[Line]) -> list[Line]:
    """Return the lines without their common prefix."""
    texts = [line.text for line in lines if line.text.strip()]
    starts = range(min(_MAX_LAUNCHER_LINES, len(texts) - _MIN_PREFIXED_LINES) + 1)
    for pattern, start in product((_PREFIX, _LOG_PREFIX), starts):
        match = pattern.match(texts[start])
        if match is not None and all(text.startswith(match[0].rstrip()) for text in texts[start:]):
            return [replace(line, text=_strip_prefix(line.text, match[0])) for line in lines]
    return list(lines)


def has_prefixed_document(lines: Sequence[Line], bare: Sequence[Line]) -> bool:
    """Return whether a document begins in a line whose prefix was removed. `bare` are the lines without the prefix."""
    stripped_texts = (after.text for before, after in zip(lines, bare, strict=True) if before.text != after.text)
    return any(map(_DOCUMENT_START.match, stripped_texts))


def _strip_prefix(text: str, prefix: str) -> str:
    return text.removeprefix(prefix) if text.startswith(prefix) else text.removeprefix(prefix.rstrip())


# A shell prompt, which no tool prints: `root@node:~# `, `(env) [joe work]$`, `joe@node ~> `, `bash-5.1# `.
_PROMPT = re.compile(
    r"[ \t]{0,8}(?:\([^()\s]{1,40}\) )?(?:"
    r"\[[^\[\]]{1,120}\][#$](?:[ \t]|(?=[/\w])|$)"
    r"|(?:[\w.-]{1,64}@[\w.-]{1,64}[^#$%>|\n]{0,120}?|(?:ba|z|k|da)?sh-[0-9.]{1,8})(?:[#$>]|(?<=[ \t])%)(?:[ \t]|$))"
)
# Signs that can begin a prompt or a line of output. Before a command of the tool, the sign is a prompt.
_PROMPT_SIGNS = ("#", "$", ">", "%", "+", "➜", "❯")
_PROMPT_ENDS = (*_PROMPT_SIGNS, "cmd:")
_OPERATORS = ("|", ">", "<", ";", "&", "2>")
_WRAPPERS = frozenset({"sudo", "timeout", "stdbuf", "time"})
# A prompt without a command is removed only from the last line.
_FINAL_PROMPT = re.compile(r"[ \t]{0,8}(?:[$#%❯]|➜[ \t]{1,4}\S{1,80})[ \t]{0,8}\Z")
# The header of watch(1): `Every 2.0s: tool info        node: Mon Mar  3 10:00:00 2025`.
_WATCH_HEADER = re.compile(r"\S{1,12} [0-9]{1,6}[.,][0-9]s: (.{1,300}?)(?:[ \t]{2,}.{0,200})?\Z")
# A message of ssh, kubectl, sudo, script or a login shell.
_NOTE = re.compile(
    r"Defaulted container \"|Defaulting container name to |Use 'kubectl describe pod|Unable to use a TTY - "
    r"|If you don't see a command prompt|Warning: Permanently added '|\S{1,80}@\S{1,80}'s password:"
    r"|Pseudo-terminal will not be allocated|Last login: |Authorized users only|sudo: unable to resolve host "
    r"|Script (?:started|done) on |(?:Shared c|C)onnection to \S{1,80} closed\.|(?:logout|exit)[ \t]{0,8}$"
)
# A fast check: a text without such a line and without the name of a command contains no echoes.
_ANY_ECHO = re.compile(rf"^(?:{_PROMPT.pattern}|{_NOTE.pattern}|\S{{1,12}} [0-9]{{1,6}}[.,][0-9]s: )", re.MULTILINE)
_MAX_COMMAND_WORDS = 40
_MAX_LINE_LENGTH = 400


@dataclass(frozen=True, slots=True)
class Run:
    """One output of a tool, with the command's arguments if the text shows the command."""

    arguments: tuple[str, ...]
    lines: tuple[Line, ...]

    def value_of(self, flag: str) -> str:
        """Return the argument that follows this flag, or an empty string."""
        for position, word in enumerate(self.arguments[:-1]):
            if word == flag:
                return self.arguments[position + 1]
        return ""


def without_notes(text: str) -> str:
    """Return the text without messages of ssh, kubectl, sudo and script."""
    return _remove_echoes(text, _is_note, ())


def without_echoes(text: str, commands: Collection[str]) -> str:
    """Remove prompts, echoes of these commands, and messages of ssh, kubectl, sudo and script."""
    used_commands = [command for command in commands if command in text]
    return _remove_echoes(
        text, lambda row: _is_note(row) or _echoed_command(row, used_commands) is not None, used_commands
    )


def _remove_echoes(text: str, is_echo: Callable[[str], bool], commands: Sequence[str]) -> str:
    """Replace echoes with blank lines, so that line numbers do not change."""
    plain_text = plain(text)
    last_line = plain_text.rstrip().rpartition("\n")[2]
    ends_in_echo = (
        is_echo(last_line) or _FINAL_PROMPT.match(last_line) is not None or _echoed_command(last_line, ()) == ""
    )
    if not ends_in_echo and not commands and _ANY_ECHO.search(plain_text) is None:
        return text
    rows = plain_text.rstrip().split("\n") if ends_in_echo else plain_text.split("\n")
    kept = ["" if is_echo(row) else row for row in (rows[:-1] if ends_in_echo else rows)]
    return "\n".join(kept).rstrip() + "\n" if ends_in_echo else "\n".join(kept)


def _is_note(text: str) -> bool:
    return _NOTE.match(text) is not None


def _echoed_command(text: str, commands: Collection[str]) -> str | None:
    """Return the command in an echoed line, "" for a bare prompt, or None for a line of output."""
    prompt = _PROMPT.match(text)
    if prompt is not None:
        return text[prompt.end() :].strip()
    watch_header = _WATCH_HEADER.match(text)
    if watch_header is not None:
        return watch_header[1]
    if not any(command in text for command in commands):
        return None
    words = text[:_MAX_LINE_LENGTH].split(maxsplit=_MAX_COMMAND_WORDS)
    command_index = next((position for position, word in enumerate(words) if word.rpartition("/")[2] in commands), None)
    if command_index is None or "|" in words[:command_index]:
        return None
    words_before, arguments = words[:command_index], words[command_index + 1 :]
    follows_prompt = not words_before or words_before[0] in _PROMPT_SIGNS or words_before[-1].endswith(_PROMPT_ENDS)
    is_typed = follows_prompt or _WRAPPERS.intersection(words_before)
    return " ".join(words[command_index:]) if is_typed and _are_arguments(arguments) else None


def _are_arguments(words: Sequence[str]) -> bool:
    """Return whether these words can be arguments: `metric -g 0`, but not `went away`."""
    words = words[: next((position for position, word in enumerate(words) if word.startswith(_OPERATORS)), len(words))]
    flag_index = next((position for position, word in enumerate(words) if word.startswith("-")), len(words))
    return all(word.isalpha() for word in words[:flag_index]) and (flag_index <= 1 or flag_index < len(words))


def split_runs(lines: Sequence[Line], tool: str) -> list[Run]:
    """Split saved output into the runs of one tool."""
    found: list[Run] = []
    arguments: tuple[str, ...] | None = ()  # None while the lines are the output of another tool
    body: list[Line] = []
    for line in lines:
        command = _echoed_command(line.text, (tool,))
        if command == "":
            continue
        if command is None and not _is_other_command(line.text):
            body.append(line)
            continue
        _append_run(found, arguments, body)
        arguments, body = arguments_of(line.text, tool), []
    _append_run(found, arguments, body)
    return found


def without_commands(lines: Sequence[Line], tool: str) -> list[Line]:
    """Return the lines that are not commands of this tool or another tool."""
    return [line for line in lines if _echoed_command(line.text, (tool,)) is None and not _is_other_command(line.text)]


def arguments_of(text: str, tool: str) -> tuple[str, ...] | None:
    """Return the arguments of a command line of this tool, or None for any other text."""
    words = (_echoed_command(text, (tool,)) or "").split(maxsplit=_MAX_COMMAND_WORDS)
    tool_index = next((position for position, word in enumerate(words) if word.rpartition("/")[2] == tool), None)
    return None if tool_index is None else tuple(words[tool_index + 1 :])


def _append_run(found: list[Run], arguments: tuple[str, ...] | None, body: Sequence[Line]) -> None:
    if arguments is not None and (arguments or any(line.text.strip() for line in body)):
        found.append(Run(arguments, tuple(body)))


def _is_other_command(text: str) -> bool:
    """Return whether a line is a command of another tool, such as `# lspci`."""
    words = text[:_MAX_LINE_LENGTH].split(maxsplit=_MAX_COMMAND_WORDS)
    return len(words) > 1 and (words[0] == "cat" or words[0] in _PROMPT_SIGNS)
