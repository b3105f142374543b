"""Finds the files of a command line, recognises their formats, and reads each in its own process, so that a bad file harms no other."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import resource
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import BinaryIO

from telemetry_daemon.guarded.packing import Unpacked, is_packed
from telemetry_daemon.guarded.reading import open_file
from telemetry_parsers.model import Problem
from telemetry_profile.format_contract import (
    HEAD_BYTES,
    Clue,
    DatabaseFormat,
    Facts,
    NotReadError,
    ProfileFormat,
    Refusal,
    TextFormat,
    TraceFormat,
    TraceReader,
    TraceSample,
)

_SQLITE = b"SQLite format 3\0"
_LONGEST_LINE = 1 << 20
_DATABASE_SECONDS = 120.0
MOST_FILES, DEEPEST = 20_000, 12
# Limits that no valid file reaches: 5 GB took 90 s and 200 MiB.
MOST_CPU_SECONDS = 900
MOST_BYTES = 4 << 30
GROUP = "telemetry.profiles"
_KINDS = (DatabaseFormat, Refusal, TextFormat, TraceFormat)


@dataclass(frozen=True, slots=True)
class Found:
    """A file to read; `shown` is its name for the user, and `is_named` means that the user named the file, not its folder."""

    path: str
    shown: str
    is_named: bool

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the names of the folders above the file, the nearest last."""
        return Path(os.path.abspath(self.path)).parent.parts[1:]  # noqa: PTH100  # resolve() would follow links


def find(paths: Sequence[str]) -> list[Found]:
    """Return the files in the order of their names. Raise OSError for a missing path or a folder with too many files."""
    found: dict[str, Found] = {}
    for path in paths:
        if Path(path).is_dir():
            inside = (Found(name, os.path.relpath(name, path), is_named=False) for name in sorted(_files(path, 0)))
            for file in inside:
                found.setdefault(file.path, file)
                if len(found) > MOST_FILES:
                    raise OSError(0, f"it has more than {MOST_FILES:,} files; name the folder of one run", path)
        else:
            Path(path).stat()
            found[path] = Found(path, path, is_named=True)
    return list(found.values())


def _files(folder: str, depth: int) -> Iterator[str]:
    """Yield the regular files below a folder, without hidden ones and without following links to folders."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < DEEPEST:
                    yield from _files(entry.path, depth + 1)
            elif entry.is_file():
                yield entry.path


class BadFormatError(Exception):
    """An entry point is not a format."""


def installed() -> tuple[ProfileFormat, ...]:
    """Return all formats in the order of their names. Raise BadFormatError."""
    found: list[ProfileFormat] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        loaded = entry.load()
        if not isinstance(loaded, _KINDS):
            raise BadFormatError(
                f"the entry point '{entry.name}' of {GROUP} is not a format of profiles; update or remove its package"
            )
        found.append(loaded)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of reading one file: facts, or the reason why there are none."""

    found: Found
    facts: Facts | None = None
    trouble: str = ""
    is_recognised: bool = True


Read = Callable[[Found], Outcome]


def read_all(files: Sequence[Found], read: Read, processes: int | None = None) -> Generator[Outcome, None, None]:
    """Yield the outcomes in the order in which the processes end (default: a process per core). Closing it ends the processes."""
    waiting = deque(files)
    running: dict[Connection, tuple[Found, BaseProcess]] = {}
    most = processes or len(os.sched_getaffinity(0))
    try:
        while waiting or running:
            while waiting and len(running) < most:
                found = waiting.popleft()
                connection, process = _start(found, read)
                running[connection] = found, process
            for ready in wait(list(running)):
                connection = next(ours for ours in running if ours is ready)
                yield _outcome(connection, *running[connection])
                running.pop(connection)
    finally:
        for connection, (_, process) in running.items():
            process.kill()
            process.join()
            connection.close()


def _start(found: Found, read: Read) -> tuple[Connection, BaseProcess]:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(found, read, theirs), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _outcome(connection: Connection, found: Found, process: BaseProcess) -> Outcome:
    outcome: Outcome | None = None
    with contextlib.suppress(EOFError):  # the process ended without an answer
        outcome = connection.recv()
    connection.close()
    process.join()
    return outcome or Outcome(found, trouble=_ending(process.exitcode))


def _ending(status: int | None) -> str:
    if status == -signal.SIGXCPU:
        return f"cannot be read: it took more than {MOST_CPU_SECONDS} s"
    if status == -signal.SIGKILL:
        return "cannot be read: its reader was killed, perhaps because the machine ran out of memory"
    return f"cannot be read: its reader ended with status {status}; report this file's tool and version"


def _child(found: Found, read: Read, answer: Connection) -> None:
    # The parent handles ^C: it prints what has been read.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_SECONDS, MOST_CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    try:
        outcome = read(found)
    except MemoryError:
        outcome = Outcome(found, trouble=f"cannot be read: it takes more than {MOST_BYTES >> 30} GiB of memory")
    answer.send(outcome)
    answer.close()


def read_one(found: Found, formats: Sequence[ProfileFormat]) -> Outcome:
    """Return the facts of one file, or the reason why it cannot be read."""
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
        return Outcome(found, trouble=_looked_for(clue, formats), is_recognised=False)
    if damage:
        facts = replace(facts, problems=(*facts.problems, Problem("", f"{damage}; what comes before is shown")))
    return Outcome(found, facts)


def _of_database(found: Found, formats: Sequence[ProfileFormat]) -> Facts | None:
    from telemetry_profile.files.database import open_database  # only databases need sqlite3

    with open_database(Path(found.path), _DATABASE_SECONDS) as tables:
        for profile_format in formats:
            if isinstance(profile_format, DatabaseFormat) and profile_format.recognises(tables.schema):
                facts = profile_format.read(tables)
                return replace(facts, problems=(*facts.problems, *tables.problems))
    return None


def _of_text(clue: Clue, content: _Content, formats: Sequence[ProfileFormat]) -> Facts | None:
    for profile_format in formats:
        if isinstance(profile_format, Refusal) and profile_format.recognises(clue):
            raise NotReadError(f"{profile_format.tool}: {profile_format.remedy}")
        if isinstance(profile_format, TextFormat) and profile_format.recognises(clue):
            return profile_format.read(clue, content.lines())
    return None


def _of_trace(clue: Clue, content: _Content, formats: Sequence[ProfileFormat]) -> Facts | None:
    if clue.text.lstrip()[:1] not in ("{", "["):
        return None
    from telemetry_profile.files.trace import read_trace  # only traces need msgspec

    def reader(sample: TraceSample) -> TraceReader | None:
        for profile_format in formats:
            if isinstance(profile_format, TraceFormat) and profile_format.recognises(sample):
                return profile_format.reader(clue)
        return None

    return read_trace(content, clue, reader)


def _looked_for(clue: Clue, formats: Sequence[ProfileFormat]) -> str:
    if not clue.head:
        return "is empty"
    readable = [profile_format.tool for profile_format in formats if not isinstance(profile_format, Refusal)]
    tools = dict.fromkeys(", ".join(readable).split(", "))
    return f"is not a result of a supported profiler; looked for {', '.join(tools)}"


@contextlib.contextmanager
def _content(path: str) -> Iterator[_Content]:
    with os.fdopen(open_file(path), "rb") as stream:
        packed = is_packed(stream.read(2))
        stream.seek(0)
        yield _Content(Unpacked(stream) if packed else stream)


class _Content(io.BufferedReader):
    """The unpacked content of a file."""

    def __init__(self, raw: Unpacked | BinaryIO) -> None:
        super().__init__(raw, HEAD_BYTES)  # type: ignore[arg-type]  # a BufferedReader reads as a raw stream does
        self._unpacked = raw if isinstance(raw, Unpacked) else None

    @property
    def damage(self) -> str:
        """Return why the content ended early, "" if it is complete."""
        return "" if self._unpacked is None else self._unpacked.damage

    def lines(self) -> Iterator[str]:
        """Yield the lines without their ends; a line longer than any tool writes is cut."""
        encoding = "utf-8-sig"
        while line := self.readline(_LONGEST_LINE):
            if not line.endswith(b"\n"):
                self._skip_rest_of_line()
                if self.damage:  # the line is torn, and so may be a number in it
                    return
            yield line.decode(encoding, "replace").rstrip("\r\n")
            encoding = "utf-8"

    def _skip_rest_of_line(self) -> None:
        while rest := self.readline(_LONGEST_LINE):
            if rest.endswith(b"\n"):
                return
