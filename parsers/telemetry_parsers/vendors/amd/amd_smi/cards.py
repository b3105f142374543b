"""From blocks to the report: which device each is, what its entries give, and what they leave open."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from telemetry_parsers import units
from telemetry_parsers.metrics import PERFORMANCE_LEVELS, reading, states
from telemetry_parsers.model import Absent, Device, Problem, Process, Reading, Report
from telemetry_parsers.text.answers import capped, failed
from telemetry_parsers.text.lines import bus_address, quote
from telemetry_parsers.vendors.amd.amd_smi import links, processes
from telemetry_parsers.vendors.amd.amd_smi.blocks import Block, Entry, Outcome, Path, pattern
from telemetry_parsers.vendors.amd.amd_smi.keys import (
    BOARDS,
    ECC_COUNTS,
    FACTS,
    FIELDS,
    STACKS,
    THROTTLED,
    VIOLATION_END,
    Field,
    board_sensor,
    is_quiet,
    temperature,
)
from telemetry_parsers.vendors.amd.amd_smi.words import (
    INDEX_SPACE,
    MOST_DEVICES,
    OTHER_KINDS,
    TOOL,
    VENDOR,
    known,
    level,
)

# Counts over several blocks; what the caches count is a part of all.
_TOTALS = ("all", "cache")
_WORD = re.compile(r"[a-z0-9_]{1,40}\Z")
# The whole of /proc/version without blanks is what an in-tree driver has for a version; its first word is the kernel's.
_KERNEL = re.compile(r"Linuxversion([0-9][0-9A-Za-z.+~_-]{0,60})\(")
# Where an entry stands in its block.
_Slot = tuple[Path, int]
_CHIP = re.compile(r"0x[0-9A-Fa-f]{1,8}\Z")
_NO_SERIALS = frozenset({"0", "0x0"})
# -1, also as the unsigned number that the library returns: the machine has no NUMA nodes.
_NO_NUMA_NODES = frozenset({"-1", "4294967295"})


def report_of(outcome: Outcome) -> Report:
    """What an output says of all cards and partitions."""
    page = _Page(outcome)
    blocks = page.cards()
    if len(blocks) > MOST_DEVICES:
        return failed("not_understood", "text", f"{len(blocks)} devices in one output, as {TOOL} never prints")
    devices = _devices(blocks)
    for position, block in enumerate(blocks):
        page.read(position, block)
    if not devices and any(block.kind in OTHER_KINDS for block in outcome.blocks):
        page.problems.append(
            Problem("text", "it lists no GPU: the sections of processors and network cards are not read")
        )
    facts = tuple(sorted((name, text) for name, text in outcome.facts.items() if known(text)))
    return Report(
        outcome="ok" if devices or facts else "no_devices" if outcome.complete else "failed",
        reason=None if devices or facts or outcome.complete else "not_understood",
        is_cut=not outcome.complete,
        devices=devices,
        readings=tuple(page.readings),
        processes=tuple(page.processes),
        problems=capped(page.problems),
        unknown_fields=tuple(outcome.unknown)[:MOST_DEVICES],
        facts=facts,
        index_space=INDEX_SPACE,
        form=outcome.form,
    )


@dataclass(slots=True)
class _Page:
    """The report in the making."""

    outcome: Outcome
    problems: list[Problem] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)

    def cards(self) -> list[Block]:
        """One block for each card and partition: what several outputs say of one, together; of two runs the second."""
        self.problems += self.outcome.problems
        found: list[_Told] = []
        by_index: dict[int | None, dict[str, _Told]] = {}
        again = False
        for block in self.outcome.blocks:
            if block.kind != "gpu":
                continue
            rows = by_index.setdefault(block.index, {})
            card = _same(rows, _partition_text(block))
            if card is None:
                card = rows[_partition_text(block)] = _Told(block)
                found.append(card)
            told_twice = card.add(block)
            again = again or any(pattern(path) in FIELDS for path, _ in told_twice)
        if again:
            self.problems.append(Problem("text", f"several runs of {TOOL} in one text; the last one is read"))
        return [card.block() for card in found]

    def read(self, position: int, block: Block) -> None:
        """All readings of a device, and its processes."""
        values = _Values(position, block, self.problems)
        for entry in block.entries:
            values.take(entry, self.outcome.unknown)
        self.readings += values.readings()
        self.readings += links.readings_of(position, block, self.problems)
        found = processes.read(position, block)
        self.readings += found.readings
        self.processes += found.processes


class _Told:
    """What the blocks of one card or partition say together; of two in the same place the later one."""

    def __init__(self, first: Block) -> None:
        self._first = first
        self._entries: list[tuple[int, _Slot, Entry]] = []
        self._latest: dict[_Slot, int] = {}
        self._blocks = 0
        self._open_at: Path | None = None

    def add(self, block: Block) -> set[_Slot]:
        """The places that were told of before, and are now told anew."""
        self._blocks += 1
        slots = [_slot(entry) for entry in block.entries]
        told_twice = self._latest.keys() & slots
        self._entries += [(self._blocks, slot, entry) for slot, entry in zip(slots, block.entries, strict=True)]
        self._latest |= dict.fromkeys(slots, self._blocks)
        self._open_at = block.open_at
        return told_twice

    def block(self) -> Block:
        """One block in place of all."""
        entries = [entry for number, slot, entry in self._entries if number == self._latest[slot]]
        return replace(self._first, entries=entries, open_at=self._open_at)


def _same(rows: Mapping[str, _Told], partition: str) -> _Told | None:
    """Of the blocks of one index that which speaks of the same partition; an output need not say of which it speaks."""
    if partition in rows or len(rows) != 1:
        return rows.get(partition)
    name, block = next(iter(rows.items()))
    return None if name and partition else block


def _slot(entry: Entry) -> _Slot:
    """Entries of lists stand side by side; a second one in the same place is of another run."""
    return entry.path, 0 if entry.path[0] != "process_info" else entry.group


class _Values:
    """The readings of one device in the making."""

    def __init__(self, device: int, block: Block, problems: list[Problem]) -> None:
        self._device = device
        self._open_at = block.open_at
        self._problems = problems
        self._found: dict[tuple[str, str], tuple[Reading, bool]] = {}
        self._level: str | None = None
        self._stacks: Counter[Path] = Counter()

    def take(self, entry: Entry, unknown: dict[str, None]) -> None:
        path = pattern(entry.path)
        fields = FIELDS.get(path) or _of_a_family(entry.path) or self._stack(entry)
        for wanted in fields:
            self._add(wanted, entry, path)
        if path == ("perf_level",):
            self._take_level(entry)
        elif not fields and not (is_quiet(path) or _elsewhere(path)) and known(entry.text) is not None:
            unknown[quote("/".join(path[:4])) or "(blank)"] = None

    def readings(self) -> list[Reading]:
        """One reading of each metric and label; of errors by location only where no location is told."""
        by_location = {
            metric
            for (metric, label), (item, _) in self._found.items()
            if metric in ECC_COUNTS.values() and label not in _TOTALS and not isinstance(item.value, Absent)
        }
        kept = [item for key, (item, _) in self._found.items() if not (key[0] in by_location and key[1] in _TOTALS)]
        return kept + (list(states(self._device, "performance_level", self._level)) if self._level else [])

    def _add(self, wanted: Field, entry: Entry, path: Path) -> None:
        item = reading(self._device, wanted.metric, wanted.read(entry.text), wanted.label)
        if item.value in (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE):
            text = f'{wanted.metric}: "{quote(entry.text)}" is {item.value.value}'
            self._problems.append(Problem(entry.where, text))
        elif wanted.many and not entry.text.strip():
            self._problems.append(Problem(entry.where, f"{wanted.metric}: nothing behind one of several"))
        if wanted.many and len(path) > 2 and self._open_at is not None and path[:2] == self._open_at[:2]:
            item = replace(
                item, value=Absent.NOT_UNDERSTOOD
            )  # of some of them the highest may not be the highest of all
        key = (wanted.metric, wanted.label)
        known_one = self._found.get(key)
        self._found[key] = (
            (item, wanted.spare) if known_one is None else _better(known_one, (item, wanted.spare), wanted)
        )

    def _stack(self, entry: Entry) -> tuple[Field, ...]:
        """The field of the next stack or die; none of one whose temperature is not told."""
        if entry.path not in STACKS:
            return ()
        self._stacks[entry.path] += 1
        sensor = f"{STACKS[entry.path]}{self._stacks[entry.path] - 1}"
        return (temperature(sensor),) if known(entry.text) is not None else ()

    def _take_level(self, entry: Entry) -> None:
        self._level = level(entry.text)
        if self._level not in PERFORMANCE_LEVELS and (known(entry.text) is not None or not entry.text.strip()):
            self._level = None
            text = f'performance_level: "{quote(entry.text)}" is not_understood'
            self._problems.append(Problem(entry.where, text))


def _better(one: tuple[Reading, bool], other: tuple[Reading, bool], wanted: Field) -> tuple[Reading, bool]:
    """A number before none, the main key before a spare one, the higher of many."""
    if isinstance(other[0].value, Absent):
        return one
    if isinstance(one[0].value, Absent) or (one[1] and not other[1]):
        return other
    higher = wanted.many and one[1] == other[1] and other[0].value > one[0].value
    return other if higher else one


def _of_a_family(path: Path) -> tuple[Field, ...]:
    """The fields of keys in which a name is the label: a RAS block, a reason to throttle."""
    if path[0] == "ecc_blocks" and len(path) == 3 and path[2] in ECC_COUNTS and _WORD.match(path[1]):
        return (Field(ECC_COUNTS[path[2]], units.number, path[1]),)
    if path[0] == "throttle" and 2 <= len(path) <= 4 and path[1].endswith(VIOLATION_END):
        reason = path[1].removesuffix(VIOLATION_END)
        if _WORD.match(reason):
            return (Field("throttled", THROTTLED, reason, many=True),)
    if len(path) == 3 and path[0] in BOARDS and path[1] == "temperature" and _WORD.match(path[2]):
        return (temperature(board_sensor(path[2])),)
    return ()


def _elsewhere(path: Path) -> bool:
    """Whether a path belongs to what links and processes read, or gives no reading below a family's name."""
    return (
        path[0] in ("ecc_blocks", "throttle", "csv", "partition_id") or processes.is_mine(path) or links.is_mine(path)
    )


def _devices(blocks: Sequence[Block]) -> tuple[Device, ...]:
    """The device of each block; a partition other than the first belongs to the card that the first stands for."""
    numbers = [units.whole(_partition_text(block)) for block in blocks]
    owners: dict[str | None, int] = {}
    devices = []
    nearest: int | None = None
    for position, (block, number) in enumerate(zip(blocks, numbers, strict=True)):
        device = _device(block)
        card = device.bus_id.rpartition(".")[0] if device.bus_id else None
        if not number:
            nearest = position
            owners[card] = position
        else:
            parent = owners.get(card, nearest if card is None else None)
            device = replace(device, partition=str(number), parent=parent)
        devices.append(device)
    return tuple(devices)


def _first(block: Block, *paths: Path) -> str | None:
    """The first of these paths that has a value."""
    asked = [entry for entry in reversed(block.entries) if entry.path in paths]
    texts = {entry.path: entry.text for entry in asked if known(entry.text) is not None}
    return next((known(texts[path]) for path in paths if path in texts), None)


def _partition_text(block: Block) -> str:
    return _first(block, ("partition_id",), ("partition", "partition_id"), ("xcp",)) or ""


def _device(block: Block) -> Device:
    serial = _first(block, ("board", "product_serial"))
    if serial in _NO_SERIALS:
        serial = None
    return Device(
        vendor=VENDOR,
        index=block.index,
        model=_model(block),
        uuid=_first(block, ("uuid",)),
        bus_id=bus_address(_first(block, ("bdf",), ("bus", "bdf")) or ""),
        serial=serial or _first(block, ("asic", "asic_serial")),
        driver=_driver(_first(block, ("driver", "version"), ("driver", "driver_version"))),
        facts=tuple(_facts(block)),
    )


def _model(block: Block) -> str | None:
    """The card's name; the number of its chip, which stands there for chips without one, is none."""
    names = (_first(block, path) for path in (("asic", "market_name"), ("market_name",), ("board", "product_name")))
    return next((name for name in names if name is not None and not _CHIP.match(name)), None)


def _driver(text: str | None) -> str | None:
    kernel = _KERNEL.match(text) if text else None
    return kernel[1] if kernel else text


def _facts(block: Block) -> Iterable[tuple[str, str]]:
    for name, paths in FACTS:
        text = _first(block, *paths)
        if text is not None and not (name == "numa_node" and text in _NO_NUMA_NODES):
            yield name, text
    kind = _power_kind(block)
    if kind is not None:
        yield "power_kind", kind


def _power_kind(block: Block) -> str | None:
    """Which power the main figure is, where the version tells the two apart."""
    for key, kind in (("current_socket_power", "instant"), ("average_socket_power", "average")):
        if _first(block, ("power", key)) is not None:
            return kind
    return None
