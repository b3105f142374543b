"""Finds files, recognises their formats, and reads each file in its own process."""

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

from telemetry_daemon.guarded.gzip_reader import GzipReader, is_gzip
from telemetry_daemon.guarded.reading import open_file
from telemetry_parsers.model import Problem
from telemetry_profile.format_contract import (
    HEAD_BYTES,
    DatabaseFormat,
    Facts,
    FileSample,
    NotReadError,
    ProfileFormat,
    TextFormat,
    TraceFormat,
    TraceReader,
    TraceSample,
    UnsupportedFormat,
)

_SQLITE = b"SQLite format 3\0"
_MAX_LINE_LENGTH = 1 << 20
_DATABASE_TIMEOUT_SECONDS = 120.0
MAX_FILES, MAX_DEPTH = 20_000, 12
# No valid file reaches these limits: reading a file of 5 GB took 90 s of CPU time and 200 MiB of memory.
MAX_CPU_SECONDS = 900
MAX_MEMORY_BYTES = 4 << 30
GROUP = "telemetry.profiles"  # the group of the formats' entry points
_FORMAT_TYPES = (DatabaseFormat, UnsupportedFormat, TextFormat, TraceFormat)


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """A file to read. `is_named` is whether the user named the file itself, not only a folder above it."""

    path: str
    display_name: str
    is_named: bool

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the names of the folders above the file, the nearest last."""
        return Path(os.path.abspath(self.path)).parent.parts[1:]  # noqa: PTH100  # resolve() would follow links


def find_files(paths: Sequence[str]) -> list[ProfileFile]:
    """Return these files, and all files in these folders. Raise OSError if a path is unreadable or has too many files."""
    files: dict[str, ProfileFile] = {}
    for path in paths:
        if Path(path).is_dir():
            for name in sorted(_walk_files(path, 0)):
                files.setdefault(name, ProfileFile(name, os.path.relpath(name, path), is_named=False))
                if len(files) > MAX_FILES:
                    raise OSError(0, f"the folder has more than {MAX_FILES:,} files; pass the folder of one run", path)
        else:
            Path(path).stat()
            files[path] = ProfileFile(path, path, is_named=True)
    return list(files.values())


def _walk_files(folder: str, depth: int) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < MAX_DEPTH:
                    yield from _walk_files(entry.path, depth + 1)
            elif entry.is_file():
                yield entry.path


class BadFormatError(Exception):
    """An installed entry point does not provide a format."""


def installed_formats() -> tuple[ProfileFormat, ...]:
    """Return all installed formats, ordered by name. Raise BadFormatError for an entry point that is not a format."""
    profile_formats: list[ProfileFormat] = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        profile_format = entry.load()
        if not isinstance(profile_format, _FORMAT_TYPES):
            raise BadFormatError(
                f"the entry point '{entry.name}' of {GROUP} is not a profile format; update or remove its package"
            )
        profile_formats.append(profile_format)
    return tuple(profile_formats)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The content of one file (`facts`), or the reason why the file was not read (`error`)."""

    file: ProfileFile
    facts: Facts | None = None
    error: str = ""
    is_recognised: bool = True


Read = Callable[[ProfileFile], Outcome]


def read_all(files: Sequence[ProfileFile], read: Read, processes: int | None = None) -> Generator[Outcome, None, None]:
    """Read each file in its own process, and yield the outcomes. If the generator is closed, kill the processes."""
    waiting = deque(files)
    running_by_connection: dict[Connection, tuple[ProfileFile, BaseProcess]] = {}
    process_limit = processes or len(os.sched_getaffinity(0))
    try:
        while waiting or running_by_connection:
            while waiting and len(running_by_connection) < process_limit:
                file = waiting.popleft()
                connection, process = _start_process(file, read)
                running_by_connection[connection] = file, process
            for ready in wait(list(running_by_connection)):
                connection = next(candidate for candidate in running_by_connection if candidate is ready)
                yield _receive_outcome(connection, *running_by_connection[connection])
                running_by_connection.pop(connection)
    finally:
        for connection, (_, process) in running_by_connection.items():
            process.kill()
            process.join()
            connection.close()


def _start_process(file: ProfileFile, read: Read) -> tuple[Connection, BaseProcess]:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_run_child, args=(file, read, sender), daemon=True)
    process.start()
    sender.close()
    return receiver, process


def _receive_outcome(connection: Connection, file: ProfileFile, process: BaseProcess) -> Outcome:
    outcome: Outcome | None = None
    with contextlib.suppress(EOFError):  # the process exited without a result
        outcome = connection.recv()
    connection.close()
    process.join()
    return outcome or Outcome(file, error=_exit_error(process.exitcode))


def _exit_error(status: int | None) -> str:
    if status == -signal.SIGXCPU:
        return f"cannot be read: it took more than {MAX_CPU_SECONDS} s"
    if status == -signal.SIGKILL:
        return "cannot be read: the process that read it was killed, perhaps because the machine ran out of memory"
    return f"cannot be read: the process that read it exited with status {status}; please report which profiler wrote the file"


def _run_child(file: ProfileFile, read: Read, sender: Connection) -> None:
    # The parent handles Ctrl-C, and prints the results so far.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    try:
        outcome = read(file)
    except MemoryError:
        outcome = Outcome(file, error=f"cannot be read: it needs more than {MAX_MEMORY_BYTES >> 30} GiB of memory")
    sender.send(outcome)
    sender.close()


def read_file(file: ProfileFile, formats: Sequence[ProfileFormat]) -> Outcome:
    """Return the content of a file, or the reason why the file cannot be read."""
    try:
        with _open_content(file.path) as content:
            head = content.read(HEAD_BYTES)
        sample = FileSample(Path(file.path).name.removesuffix(".gz"), file.folders, head)
        if head.startswith(_SQLITE):
            facts, damage = _read_database(file, formats), ""
        else:
            with _open_content(file.path) as content:
                facts = _read_text(sample, content, formats) or _read_trace_file(sample, content, formats)
                damage = content.damage
    except OSError as failure:
        return Outcome(file, error=f"cannot be read: {failure.strerror or failure}")
    except NotReadError as failure:
        return Outcome(file, error=str(failure))
    if facts is None:
        return Outcome(file, error=_unrecognised_error(sample, formats), is_recognised=False)
    if damage:
        facts = replace(facts, problems=(*facts.problems, Problem("", f"{damage}; the undamaged part is shown")))
    return Outcome(file, facts)


def _read_database(file: ProfileFile, formats: Sequence[ProfileFormat]) -> Facts | None:
    from telemetry_profile.files.database import open_database  # only databases need sqlite3

    with open_database(Path(file.path), _DATABASE_TIMEOUT_SECONDS) as tables:
        for profile_format in formats:
            if isinstance(profile_format, DatabaseFormat) and profile_format.recognises(tables.schema):
                facts = profile_format.read(tables)
                return replace(facts, problems=(*facts.problems, *tables.problems))
    return None


def _read_text(sample: FileSample, content: _Content, formats: Sequence[ProfileFormat]) -> Facts | None:
    for profile_format in formats:
        if isinstance(profile_format, UnsupportedFormat) and profile_format.recognises(sample):
            raise NotReadError(f"{profile_format.tool}: {profile_format.remedy}")
        if isinstance(profile_format, TextFormat) and profile_format.recognises(sample):
            return profile_format.read(sample, content.lines())
    return None


def _read_trace_file(sample: FileSample, content: _Content, formats: Sequence[ProfileFormat]) -> Facts | None:
    if sample.text.lstrip()[:1] not in ("{", "["):
        return None
    from telemetry_profile.files.trace import read_trace  # only traces need msgspec

    def choose_reader(trace_sample: TraceSample) -> TraceReader | None:
        for profile_format in formats:
            if isinstance(profile_format, TraceFormat) and profile_format.recognises(trace_sample):
                return profile_format.reader(sample)
        return None

    return read_trace(content, sample, choose_reader)


def _unrecognised_error(sample: FileSample, formats: Sequence[ProfileFormat]) -> str:
    if not sample.head:
        return "is empty"
    readable = [profile_format.tool for profile_format in formats if not isinstance(profile_format, UnsupportedFormat)]
    tools = dict.fromkeys(", ".join(readable).split(", "))
    return f"was not written by a supported profiler ({', '.join(tools)})"


@contextlib.contextmanager
def _open_content(path: str) -> Iterator[_Content]:
    with os.fdopen(open_file(path), "rb") as stream:
        is_compressed = is_gzip(stream.read(2))
        stream.seek(0)
        yield _Content(GzipReader(stream) if is_compressed else stream)


class _Content(io.BufferedReader):
    def __init__(self, raw: GzipReader | BinaryIO) -> None:
        super().__init__(raw, HEAD_BYTES)  # type: ignore[arg-type]  # GzipReader has the methods of a raw stream
        self._unpacked = raw if isinstance(raw, GzipReader) else None

    @property
    def damage(self) -> str:
        """Return why the gzipped content is incomplete, or "" if it is complete."""
        return "" if self._unpacked is None else self._unpacked.damage

    def lines(self) -> Iterator[str]:
        """Yield the lines without their line endings, cut to a maximum length."""
        encoding = "utf-8-sig"
        while line := self.readline(_MAX_LINE_LENGTH):
            if not line.endswith(b"\n"):
                self._skip_rest_of_line()
                if self.damage:  # the last line is incomplete, and may end within a number
                    return
            yield line.decode(encoding, "replace").rstrip("\r\n")
            encoding = "utf-8"

    def _skip_rest_of_line(self) -> None:
        while piece := self.readline(_MAX_LINE_LENGTH):
            if piece.endswith(b"\n"):
                return
