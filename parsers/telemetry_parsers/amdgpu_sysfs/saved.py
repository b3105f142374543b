"""Files as people save them in one text: `## path`, ttar archives, `path:value` as grep prints it, a shell session."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers.model import Output
from telemetry_parsers.text.lines import Line

_SECTION = re.compile(r"##? (\S*/\S{1,400})\s{0,4}\Z")
_TTAR = re.compile(r"Path: (\S{1,400})\Z")
_TTAR_LINES = re.compile(r"Lines: ([0-9]{1,6})\Z")
_TTAR_LINK = re.compile(r"SymlinkTo: (\S{1,400})\Z")
_GREP = re.compile(r"(/(?:sys|host/sys)/[^\s:]{1,300}(?::[^\s:/]{1,40}){0,3}/[^\s:]{1,120}):(.*)\Z")
_SESSION = re.compile(r"\S{0,80}[$#] ?(?:sudo )?cat (/\S{1,300})\s{0,4}\Z")


def saved_files(lines: Sequence[Line]) -> list[Output]:
    """The files in a text, by the first of the four ways that fits; empty when none does."""
    for read in (_ttar, _sections, _grep, _session):
        found = read(lines)
        if found:
            return found
    return []


def _ttar(lines: Sequence[Line]) -> list[Output]:
    found: list[Output] = []
    position = 0
    while position < len(lines) - 1:
        path = _TTAR.match(lines[position].text)
        position += 1
        if path is None:
            continue
        count = _TTAR_LINES.match(lines[position].text)
        link = _TTAR_LINK.match(lines[position].text)
        if count is not None:
            body = lines[position + 1 : position + 1 + int(count[1])]
            # A file of which lines are missing is not read: the archive was cut there.
            if len(body) == int(count[1]) and all(line.ended for line in body):
                found.append(Output(path[1], text="\n".join(line.text for line in body), status=0))
            position += 1 + int(count[1])
        elif link is not None:
            found.append(Output(path[1], text=link[1], status=0))
    return found


def _sections(lines: Sequence[Line]) -> list[Output]:
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        section = _SECTION.match(line.text)
        if section is not None and line.ended:
            found.append((section[1], []))
        elif found and line.ended:
            found[-1][1].append(line.text)
    return [Output(path, text="\n".join(body), status=0) for path, body in found]


def _grep(lines: Sequence[Line]) -> list[Output]:
    found: dict[str, list[str]] = {}
    for line in lines:
        match = _GREP.match(line.text)
        if match is not None and line.ended:
            found.setdefault(match[1], []).append(match[2])
    return [Output(path, text="\n".join(body), status=0) for path, body in found.items()]


def _session(lines: Sequence[Line]) -> list[Output]:
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        command = _SESSION.match(line.text)
        if command is not None:
            found.append((command[1], []))
        elif found and line.ended and line.text.strip():
            found[-1][1].append(line.text)
    return [Output(path, text="\n".join(body), status=0) for path, body in found]
