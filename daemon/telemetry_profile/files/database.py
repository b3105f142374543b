"""Sqlite databases of others: opened without trust, and asked for a bounded time. Only what is stored is read, nothing is run."""

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
# Functions in the file's own schema are not trusted, and nothing is written, also not beside the file.
_PRAGMAS = (
    "trusted_schema = OFF",
    "query_only = ON",
    "cell_size_check = ON",
    "mmap_size = 0",
    "temp_store = MEMORY",
    "cache_size = -8000",
)
# Views, virtual tables and computed columns are programs: some never end, or grow while sqlite prepares them, where no limit reaches.
_STORED = """
    SELECT objects.name, columns.name FROM sqlite_master AS objects, pragma_table_xinfo(objects.name) AS columns
    WHERE objects.type = 'table' AND objects.sql NOT LIKE 'CREATE VIRTUAL%' AND columns.hidden IN (0, 3) LIMIT ?
"""
# The second, where the text of the first quotes bytes of the file. Their texts have its names, some of which are private.
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_DAMAGED = Problem("database", "it is damaged, or not as its tool writes it; what could be read of it is shown")
_CUT = Problem("database", "it is cut off; what could be read of it is shown")


class Database:
    """The tables of one file. `problems` tells what was damaged."""

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
        """The rows of a query, as far as they can be read; NotReadError when the time is over."""
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
    """The tables of a database, packed with gzip or not. Raises OSError, NotReadError."""
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
    """A problem where a file is shorter than its header says; sqlite notices only those missing pages that it comes across."""
    head = os.pread(stream.fileno(), 100, 0)
    is_told = head[24:28] == head[92:96]  # else an old version wrote last, which does not tell the size
    page_bytes = int.from_bytes(head[16:18], "big")
    stated = int.from_bytes(head[28:32], "big") * (page_bytes if page_bytes > 1 else 1 << 16)
    return [_CUT] if is_told and os.fstat(stream.fileno()).st_size < stated else []


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
    """Read only; immutable: nothing is locked, written, or replayed from a journal that lies beside it."""
    try:
        connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1", uri=True)  # noqa: PTH100  # a link may be meant
    except sqlite3.Error as error:
        raise NotReadError(f"the database cannot be opened ({error})") from None
    with contextlib.closing(connection):
        yield connection


def _unfinished(path: Path) -> list[Problem]:
    """A problem for each journal beside a database: what it holds is in no table yet."""
    journals = [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]
    return [
        Problem(
            "database", f"{journal.name} beside it is not read: end the profiler, or open the file once with sqlite3"
        )
        for journal in journals
        if journal.is_file() and journal.stat().st_size
    ]


def _unpack(stream: BinaryIO, into: BinaryIO) -> None:
    unpacked = Unpacked(stream)
    given = 0
    buffer = bytearray(_PIECE_BYTES)
    while count := unpacked.readinto(buffer):
        given += count
        if given > MOST_UNPACKED_BYTES:
            raise NotReadError(
                f"the database unpacks to more than {MOST_UNPACKED_BYTES >> 30} GiB; unpack it yourself and give that file"
            )
        into.write(memoryview(buffer)[:count])
    if unpacked.damage:
        raise NotReadError(f"{unpacked.damage}; a database cannot be read in part")
