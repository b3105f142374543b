"""One file becomes facts: recognised by its content, read by its format."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from telemetry_daemon.guarded.reading import open_file
from telemetry_daemon.guarded.unpacking import Unpacked, is_packed
from telemetry_parsers.model import Problem
from telemetry_profile.contract import (
    HEAD_BYTES,
    Clue,
    DatabaseFormat,
    NotReadError,
    ProfileFormat,
    Refusal,
    TextFormat,
    TraceFormat,
    TraceReader,
    TraceSample,
)
from telemetry_profile.facts.file_facts import Facts
from telemetry_profile.files.folders import Found

_SQLITE = b"SQLite format 3\0"
LONGEST_LINE = 1 << 20
DATABASE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one file: facts, or why there are none. `is_known` is false where no format knows the file."""

    found: Found
    facts: Facts | None = None
    trouble: str = ""
    is_known: bool = True


def read_one(found: Found, formats: Sequence[ProfileFormat]) -> Outcome:
    """The facts of one file; trouble with it is in the outcome."""
    try:
        with _content(found.path) as content:
            head = content.read(HEAD_BYTES)
        clue = Clue(Path(found.path).name.removesuffix(".gz"), found.folders, head)
        if head.startswith(_SQLITE):
            facts, damage = _of_database(found, formats), ""
        else:
            with _content(found.path) as content:
                facts = _of_text(clue, content, formats) or _of_trace(clue, content, formats)
                damage = content.damage
    except OSError as error:
        return Outcome(found, trouble=f"cannot be read: {error.strerror or error}")
    except NotReadError as error:
        return Outcome(found, trouble=str(error))
    if facts is None:
        return Outcome(found, trouble=_looked_for(clue, formats), is_known=False)
    if damage:
        facts = replace(facts, problems=(*facts.problems, Problem("", f"{damage}; what comes before is shown")))
    return Outcome(found, facts)


def _of_database(found: Found, formats: Sequence[ProfileFormat]) -> Facts | None:
    from telemetry_profile.files.database import open_database  # sqlite3 is for these alone

    with open_database(Path(found.path), DATABASE_SECONDS) as tables:
        for one in formats:
            if isinstance(one, DatabaseFormat) and one.recognises(tables.schema):
                facts = one.read(tables)
                return replace(facts, problems=(*facts.problems, *tables.problems))
    return None


def _of_text(clue: Clue, content: Content, formats: Sequence[ProfileFormat]) -> Facts | None:
    for one in formats:
        if isinstance(one, Refusal) and one.recognises(clue):
            raise NotReadError(f"{one.tool}: {one.remedy}")
        if isinstance(one, TextFormat) and one.recognises(clue):
            return one.read(clue, content.lines())
    return None


def _of_trace(clue: Clue, content: Content, formats: Sequence[ProfileFormat]) -> Facts | None:
    if clue.text.lstrip()[:1] not in ("{", "["):
        return None
    from telemetry_profile.files.blocks import read_trace  # msgspec is for these alone

    def reader(sample: TraceSample) -> TraceReader | None:
        fitting = (one for one in formats if isinstance(one, TraceFormat) and one.recognises(sample))
        return next((one.reader(clue) for one in fitting), None)

    return read_trace(content, clue, reader)


def _looked_for(clue: Clue, formats: Sequence[ProfileFormat]) -> str:
    if not clue.head:
        return "is empty"
    tools = dict.fromkeys(tool for one in formats if not isinstance(one, Refusal) for tool in one.tool.split(", "))
    return f"is no result of a profiler that is known here; looked for {', '.join(tools)}"


@contextlib.contextmanager
def _content(path: str) -> Iterator[Content]:
    with os.fdopen(open_file(path), "rb") as stream:
        packed = is_packed(stream.read(2))
        stream.seek(0)
        yield Content(Unpacked(stream) if packed else stream)


class Content(io.BufferedReader):
    """What a file holds, unpacked."""

    def __init__(self, raw: Unpacked | BinaryIO) -> None:
        super().__init__(raw, HEAD_BYTES)  # type: ignore[arg-type]  # a BufferedReader reads as a raw stream does
        self._unpacked = raw if isinstance(raw, Unpacked) else None

    @property
    def damage(self) -> str:
        """Why it ended early, "" if it did not."""
        return "" if self._unpacked is None else self._unpacked.damage

    def lines(self) -> Iterator[str]:
        """The lines without their ends; of a longer one than any tool writes, the beginning."""
        encoding = "utf-8-sig"
        while line := self.readline(LONGEST_LINE):
            if not line.endswith(b"\n"):
                self._pass_over_the_rest()
                if self.damage:  # the line is torn, and so may be a number in it
                    return
            yield line.decode(encoding, "replace").rstrip("\r\n")
            encoding = "utf-8"

    def _pass_over_the_rest(self) -> None:
        while rest := self.readline(LONGEST_LINE):
            if rest.endswith(b"\n"):
                return
