"""Reads SQLite databases, which may be hostile, within a time limit."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from telemetry_daemon.guarded.folders import temporary_file
from telemetry_daemon.guarded.gzip_reader import GzipReader, is_gzip
from telemetry_daemon.guarded.reading import open_file
from telemetry_parsers.model import Problem
from telemetry_profile.format_contract import NotReadError, Schema

MAX_UNPACKED_BYTES = 8 << 30
_MAX_COLUMNS = 200_000
_VM_STEPS_BETWEEN_CHECKS = 100_000  # the time limit is checked after this many instructions of SQLite
_PIECE_BYTES = 1 << 20
# SQLite must not trust functions in the schema, and must not write files.
_PRAGMAS = (
    "trusted_schema = OFF",
    "query_only = ON",
    "cell_size_check = ON",
    "mmap_size = 0",
    "temp_store = MEMORY",
    "cache_size = -8000",
)
# Views, virtual tables and computed columns are code from the file, and could run forever.
_STORED_COLUMNS_QUERY = """
    SELECT objects.name, columns.name FROM sqlite_master AS objects, pragma_table_xinfo(objects.name) AS columns
    WHERE objects.type = 'table' AND objects.sql NOT LIKE 'CREATE VIRTUAL%' AND columns.hidden IN (0, 3) LIMIT ?
"""
# SQLite's messages may quote the file, so they are never shown. Decoding them may raise UnicodeDecodeError.
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_DAMAGED = Problem("database", "damaged or invalid; only the readable part is shown")
_TRUNCATED = Problem("database", "truncated; only the readable part is shown")


class Database:
    """The tables of one database file. `problems` describes the damage that was found so far."""

    def __init__(self, connection: sqlite3.Connection, timeout_seconds: float) -> None:
        self.problems: list[Problem] = []
        self._connection = connection
        self._deadline = time.monotonic() + timeout_seconds
        self._timeout_seconds = timeout_seconds
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        connection.set_progress_handler(self._is_past_deadline, _VM_STEPS_BETWEEN_CHECKS)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        self.schema: Schema = self._read_schema()

    def rows(self, query: str, parameters: Sequence[float | str] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the readable rows of a query. Raise NotReadError after the time limit."""
        try:
            yield from self._connection.execute(query, parameters)
        except _ERRORS:
            if self._is_past_deadline():
                raise NotReadError(f"the database did not answer within {self._timeout_seconds:g} s") from None
            if _DAMAGED not in self.problems:
                self.problems.append(_DAMAGED)

    def _read_schema(self) -> Schema:
        columns_by_table: dict[str, tuple[str, ...]] = {}
        for table, column in self.rows(_STORED_COLUMNS_QUERY, (_MAX_COLUMNS,)):
            if isinstance(table, str) and isinstance(column, str) and "\0" not in table + column:
                columns_by_table[table] = (*columns_by_table.get(table, ()), column)
        return columns_by_table

    def _is_past_deadline(self) -> bool:
        return time.monotonic() > self._deadline


@contextlib.contextmanager
def open_database(path: Path, timeout_seconds: float) -> Iterator[Database]:
    """Open a database, gzipped or not, and yield its tables. Raise OSError or NotReadError if it cannot be read."""
    with os.fdopen(open_file(str(path)), "rb") as stream:
        is_compressed = is_gzip(stream.read(2))
        stream.seek(0)
        if is_compressed:
            with temporary_file() as copy:
                _decompress(stream, copy.stream)
                with _connect(copy.add_name()) as connection:
                    database = _create_database(connection, timeout_seconds, copy.stream)
                    copy.remove_name()  # SQLite has opened the file, and no longer needs its name
                    yield database
            return
        with _connect(str(path)) as connection:
            database = _create_database(connection, timeout_seconds, stream)
            database.problems += _journal_problems(path)
            yield database


def _truncation_problems(stream: BinaryIO) -> list[Problem]:
    """Return a problem if the file is shorter than its header states."""
    header = os.pread(stream.fileno(), 100, 0)
    is_valid = header[24:28] == header[92:96]  # old SQLite versions do not update the size
    page_bytes = int.from_bytes(header[16:18], "big")
    stated_bytes = int.from_bytes(header[28:32], "big") * (page_bytes if page_bytes > 1 else 1 << 16)
    return [_TRUNCATED] if is_valid and os.fstat(stream.fileno()).st_size < stated_bytes else []


def _create_database(connection: sqlite3.Connection, timeout_seconds: float, stream: BinaryIO) -> Database:
    problems = _truncation_problems(stream)
    message = f"the database is {'truncated' if problems else 'damaged'}: its tables cannot be listed; copy it again"
    try:
        database = Database(connection, timeout_seconds)
    except _ERRORS:
        raise NotReadError(message) from None
    if database.problems and not database.schema:
        raise NotReadError(message)
    database.problems += problems
    return database


@contextlib.contextmanager
def _connect(path: str) -> Iterator[sqlite3.Connection]:
    """Yield a read-only connection, which never locks the file or replays a journal."""
    try:
        connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1", uri=True)  # noqa: PTH100  # a link may be meant
    except sqlite3.Error as error:
        raise NotReadError(f"the database cannot be opened ({error})") from None
    with contextlib.closing(connection):
        yield connection


def _journal_problems(path: Path) -> list[Problem]:
    """Return a problem for each journal beside the database, because journals are not read."""
    journals = [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]
    return [
        Problem("database", f"{journal.name} was not read: stop the profiler, or open the database once with sqlite3")
        for journal in journals
        if journal.is_file() and journal.stat().st_size
    ]


def _decompress(stream: BinaryIO, target: BinaryIO) -> None:
    gzip_reader = GzipReader(stream)
    total_bytes = 0
    buffer = bytearray(_PIECE_BYTES)
    while piece_bytes := gzip_reader.readinto(buffer):
        total_bytes += piece_bytes
        if total_bytes > MAX_UNPACKED_BYTES:
            raise NotReadError(
                f"the database unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB; unpack it yourself, and pass the unpacked file"
            )
        target.write(memoryview(buffer)[:piece_bytes])
    if gzip_reader.damage:
        raise NotReadError(f"{gzip_reader.damage}; a partial database cannot be read")
