"""hipprof's database (Hygon DTK): a table for each kind of event, host and process; several processes when merged.

The tables' names hold the node's address, which nobody is told.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence

from telemetry_parsers.profiles.columns import Row, integer, length, named, records, text
from telemetry_parsers.profiles.contract import DatabaseFormat, Schema, Tables
from telemetry_parsers.profiles.facts import Card, Facts
from telemetry_parsers.profiles.steps import is_kept
from telemetry_parsers.profiles.timeline import Timeline
from telemetry_parsers.profiles.words import work_of

_TOOL = "hipprof"
_KERNELS, _COPIES, _RANGES, _MPI = "HIPOPS_", "HIPCOPY_", "HIPTX_", "MPI_"
# The command of the copy, as OpenCL numbers them (CL_COMMAND_READ_BUFFER and so on), in the words of hipprof's JSON;
# MemoryType says the same in short, of those kinds that it was seen with.
_COMMANDS = {
    0x11F3: "DeviceToHost", 0x11F4: "HostToDevice", 0x11F5: "DeviceToDevice", 0x1207: "Memset",
    0x1201: "DeviceToHost", 0x1202: "HostToDevice", 0x1203: "DeviceToDevice",
}  # fmt: skip
_MEMORY_TYPES = {0: "Memset", 4: "HostToDevice", 6: "DeviceToHost"}
# address _ process _ time
_PROCESS = re.compile(r"(?P<host>.+)_\d+_\d+\Z")
_DEVICE_BITS = 2 | 4  # the kinds of events, of which STR_TABLE.TYPE is a sum: 2 kernels, 4 copies


def _recognises(schema: Schema) -> bool:
    return "CONFIG" in schema and "SUMMARY" in schema


def _read(tables: Tables) -> Facts:
    timeline = Timeline()
    cards, names = _Cards(tables, timeline), _Names(tables)
    for process, row in _rows(tables, _KERNELS, ("dev_id", "Name")):
        name = names.of_kernel(process, row.get("Name"))
        timeline.add(cards.key(process, row), work_of(name), integer(row.get("BeginNs")), _length(row), name)
    for process, row in _rows(tables, _COPIES, ("dev_id", "Kind", "MemoryType")):
        timeline.add(cards.key(process, row), "copy", integer(row.get("BeginNs")), _length(row), _copy_name(row))
    # The names of HIP's functions are not in the database, only their numbers.
    for process, row in _rows(tables, _RANGES, ("Name",)):
        name = names.of_range(process, row.get("Name"))
        is_kept(timeline, name, integer(row.get("BeginNs")), _length(row), process)
    for _, row in _rows(tables, _MPI, ("MPI_TYPE", "Elapse")):
        timeline.call(text(row.get("MPI_TYPE")), integer(row.get("Elapse")))
    return Facts(
        "hipprof-database",
        _TOOL,
        "unix",
        devices=timeline.devices(),
        calls=timeline.calls(),
        problems=timeline.problems(),
    )


def _rows(tables: Tables, kind: str, wanted: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """The rows of one kind of event, each with the process whose table it is in."""
    for table in named(tables.schema, kind):
        process = table[len(kind) :]
        if _PROCESS.match(process):
            for row in records(tables, table, ("BeginNs", "EndNs", *wanted)):
                yield process, row


class _Cards:
    """The cards: the processes of one node share them; but each rank counts those that it may use."""

    def __init__(self, tables: Tables, timeline: Timeline) -> None:
        self._timeline = timeline
        rows = records(tables, "CONFIG", ("KEY", "RANK_ID"))
        self._ranks = {row.get("KEY"): integer(row.get("RANK_ID")) for row in rows}
        self._keys: dict[tuple[str, object], Hashable] = {}

    def key(self, process: str, row: Row) -> Hashable:
        """The key of the card on which something ran."""
        seen = process, row.get("dev_id")
        if seen not in self._keys:
            rank, number = self._ranks.get(process), integer(seen[1])
            rank = None if rank is None or rank < 0 else rank
            host = _PROCESS.sub(r"\g<host>", process) if rank is None else ""
            self._keys[seen] = (host, rank, number)
            self._timeline.card(self._keys[seen], Card(number), rank, process)
        return self._keys[seen]


class _Names:
    """The words that other tables name by number, which each process counts anew."""

    def __init__(self, tables: Tables) -> None:
        self._on_device: dict[tuple[object, str], str] = {}
        self._on_host: dict[tuple[object, str], str] = {}
        for row in records(tables, "STR_TABLE", ("CONFIG_KEY", "TYPE", "STR_ID", "STR_NAME")):
            kinds = integer(row.get("TYPE"))
            names = self._on_device if kinds is None or kinds & _DEVICE_BITS else self._on_host
            names[row.get("CONFIG_KEY"), str(row.get("STR_ID"))] = text(row.get("STR_NAME"))

    def of_kernel(self, process: str, number: object) -> str:
        """The name of a kernel."""
        return self._on_device.get((process, str(number))) or "(no name)"

    def of_range(self, process: str, number: object) -> str:
        """The name of a range that the program marked, which may stand there itself."""
        key = process, str(number)
        return self._on_host.get(key) or self._on_device.get(key) or text(number)


def _copy_name(row: Row) -> str:
    found = _COMMANDS.get(integer(row.get("Kind")) or 0) or _MEMORY_TYPES.get(_or_unknown(row.get("MemoryType")))
    return found or "Memcpy"


def _or_unknown(value: object) -> int:
    number = integer(value)
    return -1 if number is None else number


def _length(row: Row) -> int | None:
    return length(row.get("BeginNs"), row.get("EndNs"))


FORMAT = DatabaseFormat("hipprof-database", _TOOL, "tables CONFIG, SUMMARY and HIPOPS_…", _recognises, _read)
