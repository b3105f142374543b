"""hipprof's database (Hygon DTK): a table for each kind of event, host and process; several processes when merged.

The tables' names hold the node's address, which nobody is told.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence

from telemetry_profile.contract import DatabaseFormat, Schema, Tables
from telemetry_profile.facts.file_facts import Card, Facts
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.sql_columns import NO_NAME, Row, integer, interval, named, records, text
from telemetry_profile.facts.timeline import Timeline

_TOOL = "hipprof"
_KERNELS, _COPIES, _RANGES, _MPI = "HIPOPS_", "HIPCOPY_", "HIPTX_", "MPI_"
_COPY_COLUMNS = ("BeginNs", "EndNs", "dev_id", "Kind", "MemoryType")
# The command of the copy, as OpenCL numbers them (CL_COMMAND_READ_BUFFER and so on), in the words of hipprof's JSON;
# MemoryType says the same in short, of those kinds that it was seen with.
_COMMANDS: Mapping[int | None, str] = {
    0x11F3: "DeviceToHost", 0x11F4: "HostToDevice", 0x11F5: "DeviceToDevice", 0x1207: "Memset",
    0x1201: "DeviceToHost", 0x1202: "HostToDevice", 0x1203: "DeviceToDevice",
}  # fmt: skip
_MEMORY_TYPES: Mapping[int | None, str] = {0: "Memset", 4: "HostToDevice", 6: "DeviceToHost"}
# address _ process _ time
_PROCESS = re.compile(r"(?P<host>.+)_\d+_\d+\Z")
_DEVICE_BITS = 2 | 4  # the kinds of events, of which STR_TABLE.TYPE is a sum: 2 kernels, 4 copies


def _recognises(schema: Schema) -> bool:
    return "CONFIG" in schema and "SUMMARY" in schema


def _read(tables: Tables) -> Facts:
    timeline = Timeline()
    cards, names = _Cards(tables, timeline), _Names(tables)
    for process, (start, end, device, number) in _rows(tables, _KERNELS, ("BeginNs", "EndNs", "dev_id", "Name")):
        name = names.of_kernel(process, number)
        timeline.add(cards.key(process, device), work_of(name), *interval(start, end), name)
    for process, (start, end, device, command, kind) in _rows(tables, _COPIES, _COPY_COLUMNS):
        name = _COMMANDS.get(integer(command)) or _MEMORY_TYPES.get(integer(kind)) or "Memcpy"
        timeline.add(cards.key(process, device), "copy", *interval(start, end), name)
    # The names of HIP's functions are not in the database, only their numbers.
    for process, (start, end, number) in _rows(tables, _RANGES, ("BeginNs", "EndNs", "Name")):
        timeline.marked(names.of_range(process, number), *interval(start, end), process)
    for _, (name, elapsed) in _rows(tables, _MPI, ("MPI_TYPE", "Elapse")):
        timeline.call(text(name) or NO_NAME, integer(elapsed))
    return timeline.facts("hipprof-database", _TOOL, "unix")


def _rows(tables: Tables, kind: str, wanted: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """The rows of one kind of event, each with the process whose table it is in."""
    for table in named(tables.schema, kind):
        process = table[len(kind) :]
        if _PROCESS.match(process):
            for row in records(tables, table, wanted):
                yield process, row


class _Cards:
    """The cards: the processes of one node share them; but each rank counts those that it may use."""

    def __init__(self, tables: Tables, timeline: Timeline) -> None:
        self._timeline = timeline
        self._ranks = {process: integer(rank) for process, rank in records(tables, "CONFIG", ("KEY", "RANK_ID"))}
        self._keys: dict[tuple[str, object], Hashable] = {}

    def key(self, process: str, device: object) -> Hashable:
        """The key of the card on which something ran."""
        seen = process, device
        if seen not in self._keys:
            rank, number = self._ranks.get(process), integer(device)
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
        for process, told, number, name in records(tables, "STR_TABLE", ("CONFIG_KEY", "TYPE", "STR_ID", "STR_NAME")):
            kinds = integer(told)
            names = self._on_device if kinds is None or kinds & _DEVICE_BITS else self._on_host
            names[process, str(number)] = text(name)

    def of_kernel(self, process: str, number: object) -> str:
        """The name of a kernel."""
        return self._on_device.get((process, str(number))) or NO_NAME

    def of_range(self, process: str, number: object) -> str:
        """The name of a range that the program marked, which may stand there itself."""
        key = process, str(number)
        return self._on_host.get(key) or self._on_device.get(key) or text(number)


FORMAT = DatabaseFormat("hipprof-database", _TOOL, _recognises, _read)
