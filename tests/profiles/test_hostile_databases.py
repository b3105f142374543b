"""Databases that try to block, mislead or harm their reader, and damaged databases."""

import contextlib
import gzip
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiles.made_databases import ALL, FORMATS, HIPPROF, NSYS, ROCPD, T, format_of, read, write
from telemetry_profile.files import database
from telemetry_profile.files.database import open_database
from telemetry_profile.format_contract import Facts, NotReadError

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS BeginNs, x + 1 AS EndNs FROM c"


def _doubling(levels: int) -> list[str]:
    """Return views of views, of which sqlite makes two to the power of `levels` while it prepares a query."""
    first = 'CREATE VIEW v0 AS SELECT * FROM "HIPOPS_10_9_8_7_77_170"'
    return [
        first,
        *(f"CREATE VIEW v{n} AS SELECT * FROM v{n - 1} UNION ALL SELECT * FROM v{n - 1}" for n in range(1, levels)),
    ]


@pytest.mark.parametrize(
    "statements",
    [
        [f"CREATE VIEW HIPOPS_1_2_3 AS {ENDLESS}"],
        [*_doubling(40), "CREATE VIEW HIPOPS_1_2_3 AS SELECT * FROM v39"],
        ["CREATE VIEW HIPOPS_1_2_3 AS SELECT load_extension('x.so') AS BeginNs, 1 AS EndNs"],
        [
            "CREATE TABLE HIPOPS_1_2_3 (BeginNs, EndNs AS (hex(zeroblob(100000000))))",
            "INSERT INTO HIPOPS_1_2_3 VALUES (1)",
        ],
        ["CREATE VIRTUAL TABLE HIPOPS_1_2_3 USING fts5(BeginNs)"],
    ],
    ids=["endless", "doubling", "extension", "computed", "virtual"],
)
def test_programs_in_the_file_are_not_run(tmp_path: Path, statements: list[str]) -> None:
    plain = read(write(tmp_path / "plain.db", HIPPROF))
    begun = time.process_time()
    assert read(write(tmp_path / "made.db", HIPPROF, *statements)).devices == plain.devices
    assert time.process_time() - begun < 20


def test_the_time_is_bounded(tmp_path: Path) -> None:
    many = ("BeginNs,EndNs,dev_id,Name", [(T + n, T + n + 1, 0, "1") for n in range(200_000)])
    path = write(tmp_path / "made.db", {**HIPPROF, "HIPOPS_10_9_8_7_77_170": many})
    with pytest.raises(NotReadError, match="did not answer within 0 s"):
        read(path, seconds=0.0)


def test_odd_column_names_are_quoted(tmp_path: Path) -> None:
    odd = 'HIPOPS_1"; DROP TABLE CONFIG; --_2_3'
    path = tmp_path / "made.db"
    write(path, HIPPROF)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        name = odd.replace('"', '""')
        connection.execute(f'CREATE TABLE "{name}" (BeginNs, EndNs, dev_id, Name)')
        connection.execute(f'INSERT INTO "{name}" VALUES ({T}, {T + 7}, 5, 1)')
        connection.commit()
    assert [device.card.index for device in read(path).devices] == [0, 5]


@pytest.mark.parametrize(("written", "shown"), [(20_000, 20_000), (100_000, 1 << 16)])
def test_only_names_that_no_compiler_writes_are_cut(tmp_path: Path, written: int, shown: int) -> None:
    path = write(tmp_path / "made.db", {**NSYS, "StringIds": ("id,value", [(1, "k" * written), (2, "\x1b[31m")])})
    assert max(len(kernel.name) for kernel in read(path).devices[0].kernels) == shown


def test_a_journal_is_reported_as_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "made.db", HIPPROF)
    with contextlib.closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute(
            f'INSERT INTO "HIPOPS_10_9_8_7_77_170" (BeginNs, EndNs, dev_id, Name) VALUES ({T}, {T + 9}, 0, 1)'
        )
        writer.commit()
        with open_database(path, 10.0) as tables:
            assert "made.db-wal was not read" in tables.problems[0].text
    with open_database(path, 10.0) as tables:
        assert tables.problems == []  # the writer has ended and written everything into the file
    assert read(path).devices[0].kernels[0].calls == 3


def test_nothing_is_written(tmp_path: Path) -> None:
    """Neither in the folder of the file nor in the folder for scratch files, even if the reader is killed."""
    folder, scratch = tmp_path / "results", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    plain = write(folder / "made.db", HIPPROF)
    packed = _packed(plain)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    code = (
        "import os, sys; from pathlib import Path; from telemetry_profile.files.database import open_database\n"
        "with open_database(Path(sys.argv[1]), 60.0) as tables:\n"
        "    assert len(list(tables.rows('SELECT * FROM CONFIG'))) == 1\n"
        "    os.kill(os.getpid(), 9)"
    )
    for path in (plain, packed):
        ended = subprocess.run(
            [sys.executable, "-c", code, path], env={**os.environ, "TMPDIR": str(scratch)}, capture_output=True
        )
        assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert list(scratch.iterdir()) == []
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def _packed(path: Path) -> Path:
    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def test_compressed_files_have_the_same_facts(tmp_path: Path) -> None:
    path = write(tmp_path / "made.db", NSYS)
    assert read(_packed(path)) == read(path)


def test_truncated_compressed_file_is_not_read(tmp_path: Path) -> None:
    packed = _packed(write(tmp_path / "made.db", NSYS))
    packed.write_bytes(packed.read_bytes()[:-100])
    with pytest.raises(NotReadError, match=r"truncated.*a partial database"):
        read(packed)


def test_decompression_bomb_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MAX_UNPACKED_BYTES", 1 << 16)
    packed = tmp_path / "made.gz"
    packed.write_bytes(gzip.compress(b"SQLite format 3\0" + bytes(1 << 20)))
    with pytest.raises(NotReadError, match="unpack it yourself"):
        read(packed)


def test_other_files_are_no_databases(tmp_path: Path) -> None:
    path = tmp_path / "made.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises((NotReadError, ValueError)):
        read(path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(OSError, match="it is a pipe"):
        read(fifo)


def _facts_or_none(path: Path) -> Facts | None:
    try:
        with open_database(path, 30.0) as tables:
            if not any(database.recognises(tables.schema) for database in FORMATS):
                return None
            return format_of(tables.schema).read(tables)
    except NotReadError:
        return None


@pytest.mark.parametrize("name", ALL)
def test_a_database_that_is_cut_never_shows_more(tmp_path: Path, name: str) -> None:
    several_pages = {table: (columns, [*rows, *(rows[-1:] * 300)]) for table, (columns, rows) in ALL[name].items()}
    path = write(tmp_path / "made.db", several_pages)
    whole = {kernel.name: kernel.calls for device in read(path).devices for kernel in device.kernels}
    content = path.read_bytes()
    for part in range(1, 16):
        path.write_bytes(content[: len(content) * part // 16])
        facts = _facts_or_none(path)
        calls = [kernel for device in facts.devices for kernel in device.kernels] if facts else []
        assert all(kernel.calls <= whole.get(kernel.name, sum(whole.values())) for kernel in calls)
        if facts is not None:
            with open_database(path, 30.0) as tables:
                assert "truncated" in str(tables.problems)


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_a_database_with_flipped_bytes_never_raises(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "made.db", ALL[name])
    content = path.read_bytes()
    draw = random.Random(name)
    for _ in range(100):
        damaged = bytearray(content)
        for _ in range(draw.randint(1, 20)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged)
        _facts_or_none(path)


VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=True),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=20),
)


@pytest.mark.long
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
def test_any_values_in_any_column_give_sound_facts(tmp_path: Path, name: str, data: st.DataObject) -> None:
    tables = {
        table: (columns, [tuple(data.draw(VALUES | st.just(cell)) for cell in row) for row in rows])
        for table, (columns, rows) in ALL[name].items()
    }
    path = tmp_path / f"{data.draw(st.uuids())}.db"
    facts = _facts_or_none(write(path, tables))
    path.unlink()
    for device in facts.devices if facts else ():
        split = device.split
        assert (split.idle_ns or 0) >= 0
        assert (split.compute_ns or 0) <= (split.span_ns or 0)
        assert all(isinstance(kernel.name, str) and kernel.total_ns >= 0 for kernel in device.kernels)
        assert isinstance(device.card.model + device.card.uuid + device.card.bus_id, str)


# The texts that a profile may show: names of kernels, copies, ranges, functions and models, and the identities of cards.
PUBLIC = {
    "hipprof": {"STR_NAME"},
    "nsys": {"value of StringIds", "text", "name of TARGET_INFO_GPU", "busLocation", "uuid"},
    "rocpd": {"string", "kernel_name", "display_name", "name", "product_name"},
    "rocprof": {"Name"},
    "msprof": {"value", "name of NPU_INFO"},
    "analysis": {"step", "type", "transport_type"},
}


@pytest.mark.parametrize("name", ALL)
def test_a_secret_in_any_other_text_is_shown_nowhere(tmp_path: Path, name: str) -> None:
    def is_public(table: str, column: str) -> bool:
        return bool({column, f"{column} of {table}"} & PUBLIC[name])

    planted = {
        table: (
            columns,
            [
                tuple(
                    "SECRET" if isinstance(cell, str) and not is_public(table, column) and _is_free(cell) else cell
                    for column, cell in zip(columns.split(","), row, strict=True)
                )
                for row in rows
            ],
        )
        for table, (columns, rows) in ALL[name].items()
    }
    assert "SECRET" in str(planted)
    assert "SECRET" not in repr(read(write(tmp_path / "made.db", planted)))


def _is_free(cell: str) -> bool:
    """Return whether a text is no key that joins rows."""
    return cell not in ("10_9_8_7_77_170", "1", "GPU") and "message" not in cell


def test_words_that_are_no_utf_8_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "made.db", ROCPD)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE rocpd_info_kernel_symbol_u1 SET display_name = CAST(x'67ff6d' AS TEXT)")
        connection.commit()
    assert read(path).devices[0].kernels[0].name == "g�m"
