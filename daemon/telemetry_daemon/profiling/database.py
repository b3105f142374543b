"""Sqlite databases of others: opened without trust, and asked for a bounded time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from telemetry_daemon.guarded.reading import open_file
from telemetry_daemon.profiling.unpacking import Unpacked, is_packed
from telemetry_parsers.model import Problem
from telemetry_parsers.profiles.contract import NotReadError, Schema

MOST_UNPACKED_BYTES = 8 << 30
MOST_OBJECTS = 5_000
_STEPS_BETWEEN_LOOKS = 100_000
_PIECE_BYTES = 1 << 20
# What a file brings along is not run: triggers, and functions in its views that could do harm.
_PRAGMAS = (
    "trusted_schema = OFF",
    "query_only = ON",
    "cell_size_check = ON",
    "mmap_size = 0",
    "temp_store = MEMORY",
    "cache_size = -8000",
)


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
        """The rows of a query, as far as they can be read. Raises NotReadError where there is not even a first one."""
        is_begun = False
        try:
            for row in self._connection.execute(query, parameters):
                is_begun = True
                yield row
        except sqlite3.Error as error:
            words = self._words(error)
            if not is_begun:
                raise NotReadError(words) from None
            self.problems.append(Problem("database", f"{words}; what comes before is shown"))

    def _read_schema(self) -> Schema:
        names = [
            name
            for (name,) in self.rows(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name LIMIT ?", (MOST_OBJECTS,)
            )
        ]
        return {name: tuple(self._columns(name)) for name in names if isinstance(name, str)}

    def _columns(self, name: str) -> list[str]:
        try:
            return [str(row[0]) for row in self._connection.execute("SELECT name FROM pragma_table_xinfo(?)", (name,))]
        except sqlite3.Error:  # a view of tables that are not there has no columns; whoever needs it says so
            return []

    def _is_overdue(self) -> bool:
        return time.monotonic() > self._deadline

    def _words(self, error: sqlite3.Error) -> str:
        if self._is_overdue():
            return f"the database did not answer within {self._seconds:g} s"
        return f"the database is damaged, or not as its tool writes it ({error})"


@contextlib.contextmanager
def open_database(path: Path, seconds: float) -> Iterator[Database]:
    """The tables of a database, packed with gzip or not. Raises OSError, NotReadError."""
    with os.fdopen(open_file(str(path)), "rb") as stream:
        packed = is_packed(stream.read(2))
        stream.seek(0)
        if not packed:
            with _connected(str(path)) as connection:
                yield _database(connection, seconds)
            return
        with tempfile.NamedTemporaryFile() as unpacked:
            _unpack(stream, unpacked)
            with _connected(unpacked.name) as connection:
                yield _database(connection, seconds)


def _database(connection: sqlite3.Connection, seconds: float) -> Database:
    try:
        return Database(connection, seconds)
    except sqlite3.Error as error:
        raise NotReadError(f"the database is damaged ({error})") from None


@contextlib.contextmanager
def _connected(path: str) -> Iterator[sqlite3.Connection]:
    """Read only; immutable: nothing is locked, written, or replayed from a journal that lies beside it."""
    try:
        connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1", uri=True)  # noqa: PTH100  # a link may be meant
    except sqlite3.Error as error:
        raise NotReadError(f"the database cannot be opened ({error})") from None
    with contextlib.closing(connection):
        yield connection


def _unpack(stream: BinaryIO, into: Any) -> None:  # what tempfile gives has no public type
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
    into.flush()
