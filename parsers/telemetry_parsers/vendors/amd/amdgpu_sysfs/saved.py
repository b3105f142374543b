"""Reads files that were saved in one text, such as a ttar archive or grep's output."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence

from telemetry_parsers.model import Output, Problem, Report
from telemetry_parsers.text.answers import failed
from telemetry_parsers.text.echoes import without_prefix
from telemetry_parsers.text.lines import MAX_LINES, Line, lines, quote
from telemetry_parsers.text.tool_marks import foreign_tool
from telemetry_parsers.vendors.amd.amdgpu_sysfs.tree import build_tree, is_card_folder, is_expected_path

_HEADING = re.compile(r"##? (\S{1,400})\s{0,4}\Z")
# head, tail, more and `find -print` print each file's path on a line above the file.
_PATH_LINE = re.compile(r"(?:==> )?(\S{1,400}?)(?: <==)?\s{0,4}\Z")
_RULE = re.compile(r":{6,40}\s{0,4}\Z")
_TTAR_PATH = re.compile(r"Path: (\S{1,400})\Z")
_TTAR_LINES = re.compile(r"Lines: ([0-9]{1,6})\Z")
_GREP_LINE = re.compile(
    r"(\S{0,300}(?:card[0-9]{1,4}/device|:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|nodes/[0-9]{1,4}|kfd/proc/[0-9]{1,10}"
    r"|module/[a-z]{1,12})/[^\s:]{1,120}):(.*)\Z"
)
_CAT_COMMAND = re.compile(r".{0,80}[$#] ?(?:sudo )?cat (\S{0,300}/\S{1,120})\s{0,4}\Z")
_PROMPT = re.compile(r"(?:\S{0,40}@\S{0,40}.{0,40})?[$#] ")
_ERROR_LINE = re.compile(
    r"(?:/\S{0,40}/)?(?:cat|grep|head|tail|more|find): (?:cannot open '|error reading ')?(\S{1,400}?)'?"
    r"(?: for reading)?: ([A-Z][A-Za-z/ ]{4,40})\s{0,4}\Z"
)
# The files of all cards in a node have about ten thousand lines.
_MAX_LINES = 5 * MAX_LINES
# Maps the error messages of cat, grep and similar tools to error numbers.
_ERROR_NUMBERS: Mapping[str, int] = {
    "Permission denied": errno.EACCES,
    "Operation not permitted": errno.EPERM,
    "Input/output error": errno.EIO,
    "Device or resource busy": errno.EBUSY,
    "Resource temporarily unavailable": errno.EAGAIN,
    "Operation not supported": errno.EOPNOTSUPP,
    "Invalid argument": errno.EINVAL,
    "No data available": errno.ENODATA,
    "No such file or directory": errno.ENOENT,
    "No such device": errno.ENODEV,
    "No such device or address": errno.ENXIO,
    "Function not implemented": errno.ENOSYS,
    "Connection timed out": errno.ETIMEDOUT,
}


def files_in(outputs: Sequence[Output], source: str) -> list[Output] | Report:
    """Return the files in a capture or in saved text. If there are none, return a report instead."""
    texts = [output for output in outputs if not output.name.startswith("/sys/") and output.data is None]
    if not texts:
        return list(outputs)
    text = "\n".join(part for output in texts for part in (output.text, output.stderr) if part)
    if text.count("\n") > _MAX_LINES:
        return failed("not_understood", "text", "the text is longer than all driver files of a node")
    text_lines = lines(text)
    saved_files = _saved_card_files(text_lines)
    if not saved_files and (unprefixed_lines := without_prefix(text_lines)) != text_lines:
        saved_files = _saved_card_files(unprefixed_lines)
    if saved_files:
        return saved_files
    tool = next((name for output in texts if (name := foreign_tool(output.text, source)) is not None), None)
    if tool is not None:
        return Report("not_mine", problems=(Problem("text", f"this is output of {tool}, not driver files"),))
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    problem = (
        "no output"
        if not first_line
        else f"the text contains neither files of an AMD or Hygon card nor of KFD's topology: {quote(first_line)}"
    )
    return failed("not_understood", "text", problem)


def _saved_card_files(text_lines: Sequence[Line]) -> list[Output]:
    """Return the files in saved output if at least one file describes a card or a KFD node, else []."""
    files = [output for output in _saved_files(text_lines) if not is_card_folder(output.name)]
    tree = build_tree(files)
    return files if tree.nodes or any(card.vendor for card in tree.cards.values()) else []


def _saved_files(lines: Sequence[Line]) -> list[Output]:
    """Return the files in saved output. The format that yields the most files is used."""
    errors_by_path: dict[str, int] = {}
    other_lines = []
    for line in lines:
        match = _ERROR_LINE.match(line.text) if line.ended and ": " in line.text else None
        if match is not None and match[2] in _ERROR_NUMBERS:
            errors_by_path[match[1]] = _ERROR_NUMBERS[match[2]]
        else:
            other_lines.append(line)
    formats = (_read_ttar, _read_files_below_paths, _read_grep_output, _read_shell_session)
    files = max((read_format(other_lines) for read_format in formats), key=len)
    readable_files = [output for output in files if output.name not in errors_by_path or output.text.strip()]
    paths = {output.name for output in readable_files}
    return readable_files + [Output(path, status=error) for path, error in errors_by_path.items() if path not in paths]


def _read_ttar(lines: Sequence[Line]) -> list[Output]:
    files: list[Output] = []
    index = 0
    while index < len(lines) - 1:
        path = _TTAR_PATH.match(lines[index].text)
        index += 1
        if path is None:
            continue
        count = _TTAR_LINES.match(lines[index].text)
        if count is not None:
            body = lines[index + 1 : index + 1 + int(count[1])]
            # A file with missing lines is not read, because the archive is truncated there.
            if len(body) == int(count[1]) and all(line.ended for line in body):
                files.append(Output(path[1], text="\n".join(line.text for line in body), status=0))
            index += 1 + int(count[1])
    return files


def _read_files_below_paths(lines: Sequence[Line]) -> list[Output]:
    files: list[tuple[str, list[str]]] = []
    for line in lines:
        path = _path_in(line)
        if path is not None:
            files.append((path, []))
        elif files and line.ended and _RULE.match(line.text) is None:
            files[-1][1].append(line.text)
    return [Output(path, text="\n".join(body), status=0) for path, body in files]


def _path_in(line: Line) -> str | None:
    """Return the path in a line such as `## path`, or None for other lines."""
    if not line.ended:
        return None
    heading = _HEADING.match(line.text)
    if heading is not None and "/" in heading[1]:
        return heading[1]
    path = _PATH_LINE.match(line.text)
    if path is None or "/" not in path[1] or ":" in path[1].rpartition("/")[2]:
        return None
    return path[1] if is_expected_path(path[1]) else None


def _read_grep_output(lines: Sequence[Line]) -> list[Output]:
    lines_by_path: dict[str, list[str]] = {}
    for line in lines:
        match = _GREP_LINE.match(line.text)
        if match is not None and line.ended:
            lines_by_path.setdefault(match[1], []).append(match[2])
    return [Output(path, text="\n".join(body), status=0) for path, body in lines_by_path.items()]


def _read_shell_session(lines: Sequence[Line]) -> list[Output]:
    files: list[tuple[str, list[str]]] = []
    is_output = False
    for line in lines:
        command = _CAT_COMMAND.match(line.text) if "cat " in line.text else None
        if command is not None:
            files.append((command[1], []))
            is_output = True
        elif _PROMPT.match(line.text) is not None:
            is_output = False
        elif is_output and line.ended and line.text.strip():
            files[-1][1].append(line.text)
    return [Output(path, text="\n".join(body), status=0) for path, body in files]
