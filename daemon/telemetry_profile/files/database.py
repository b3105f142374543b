"""Untrusted sqlite databases: only stored data is read, nothing in the file is executed, and the time is bounded."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from telemetry_daemon.guarded.folders import scratch
from telemetry_daemon.guarded.packing import Unpacked, is_packed
from telemetry_daemon.guarded.reading import open_file
from telemetry_parsers.model import Problem
from telemetry_profile.format_contract import NotReadError, Schema

MOST_UNPACKED_BYTES = 8 << 30
_MOST_COLUMNS = 200_000
_STEPS_BETWEEN_LOOKS = 100_000
_PIECE_BYTES = 1 << 20
# Functions in the schema of the file are not trusted, and nothing is written, not even beside the file.
_PRAGMAS = (
    "trusted_schema = OFF",
    "query_only = ON",
    "cell_size_check = ON",
    "mmap_size = 0",
    "temp_store = MEMORY",
    "cache_size = -8000",
)
# Views, virtual tables and computed columns are programs: some never end, or grow while sqlite prepares them, which no limit stops.
_STORED = """
    SELECT objects.name, columns.name FROM sqlite_master AS objects, pragma_table_xinfo(objects.name) AS columns
    WHERE objects.type = 'table' AND objects.sql NOT LIKE 'CREATE VIRTUAL%' AND columns.hidden IN (0, 3) LIMIT ?
"""
# UnicodeDecodeError occurs if the message of an sqlite error quotes bytes of the file. The messages may contain private names.
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_DAMAGED = Problem("database", "it is damaged, or not as its tool writes it; the readable part is shown")
_CUT = Problem("database", "it is cut off; the readable part is shown")


class Database:
    """The tables of one file; `problems` describes damage."""

    def __init__(self, connection: sqlite3.Connection, seconds: float) -> None:
        self.problems: list[Problem] = []
        self._connection = connection
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.set_progress_handler(self._is_overdue, _STEPS_BETWEEN_LOOKS)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        self.schema: Schema = self._read_schema()

    def rows(self, query: str, parameters: Sequence[float | str] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the readable rows of a query. Raise NotReadError after a timeout."""
        try:
            yield from self._connection.execute(query, parameters)
        except _ERRORS:
            if self._is_overdue():
                raise NotReadError(f"the database did not answer within {self._seconds:g} s") from None
            if _DAMAGED not in self.problems:
                self.problems.append(_DAMAGED)

    def _read_schema(self) -> Schema:
        found: dict[str, tuple[str, ...]] = {}
        for table, column in self.rows(_STORED, (_MOST_COLUMNS,)):
            if isinstance(table, str) and isinstance(column, str) and "\0" not in table + column:
                found[table] = (*found.get(table, ()), column)
        return found

    def _is_overdue(self) -> bool:
        return time.monotonic() > self._deadline


@contextlib.contextmanager
def open_database(path: Path, seconds: float) -> Iterator[Database]:
    """Yield the tables of a database, which may be packed with gzip. Raise OSError, NotReadError."""
    with os.fdopen(open_file(str(path)), "rb") as stream:
        packed = is_packed(stream.read(2))
        stream.seek(0)
        if packed:
            with scratch() as copy:
                _unpack(stream, copy.stream)
                with _connected(copy.named()) as connection:
                    database = _database(connection, seconds, copy.stream)
                    copy.unnamed()  # sqlite has it open
                    yield database
            return
        with _connected(str(path)) as connection:
            database = _database(connection, seconds, stream)
            database.problems += _unfinished(path)
            yield database


def _missing(stream: BinaryIO) -> list[Problem]:
    """Return a problem if a file is shorter than its header states; sqlite notices only the missing pages that it reads."""
    head = os.pread(stream.fileno(), 100, 0)
    is_valid = head[24:28] == head[92:96]  # otherwise an old version, which does not store the size, wrote last
    page_bytes = int.from_bytes(head[16:18], "big")
    stated = int.from_bytes(head[28:32], "big") * (page_bytes if page_bytes > 1 else 1 << 16)
    return [_CUT] if is_valid and os.fstat(stream.fileno()).st_size < stated else []


def _database(connection: sqlite3.Connection, seconds: float, stream: BinaryIO) -> Database:
    missing = _missing(stream)
    trouble = f"the database is {'cut off' if missing else 'damaged'}: its list of tables cannot be read; copy it again"
    try:
        database = Database(connection, seconds)
    except _ERRORS:
        raise NotReadError(trouble) from None
    if database.problems and not database.schema:
        raise NotReadError(trouble)
    database.problems += missing
    return database


@contextlib.contextmanager
def _connected(path: str) -> Iterator[sqlite3.Connection]:
    """Yield a read-only connection; `immutable` means that nothing is locked, written, or replayed from a journal."""
    try:
        connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1", uri=True)  # noqa: PTH100  # a link may be meant
    except sqlite3.Error as error:
        raise NotReadError(f"the database cannot be opened ({error})") from None
    with contextlib.closing(connection):
        yield connection


def _unfinished(path: Path) -> list[Problem]:
    """Return a problem for each journal beside a database, whose content is not in the tables yet."""
    journals = [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]
    return [
        Problem("database", f"{journal.name} is not read: end the profiler, or open the database once with sqlite3")
        for journal in journals
        if journal.is_file() and journal.stat().st_size
    ]


def _unpack(stream: BinaryIO, into: BinaryIO) -> None:
    unpacked = Unpacked(stream)
    size = 0
    buffer = bytearray(_PIECE_BYTES)
    while count := unpacked.readinto(buffer):
        size += count
        if size > MOST_UNPACKED_BYTES:
            raise NotReadError(
                f"the database unpacks to more than {MOST_UNPACKED_BYTES >> 30} GiB; unpack it yourself and give that file"
            )
        into.write(memoryview(buffer)[:count])
    if unpacked.damage:
        raise NotReadError(f"{unpacked.damage}; a database cannot be read in part")
