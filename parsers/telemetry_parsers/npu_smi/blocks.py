"""The `key : value` answers of npu-smi (`-l`, `-t …`): blocks of chips, whose number stands first or last in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Device, Problem, Process
from telemetry_parsers.npu_smi import keys
from telemetry_parsers.npu_smi.page import Page, Place
from telemetry_parsers.npu_smi.readings import KNOWN, Block, Entry, has_readings, read_block
from telemetry_parsers.npu_smi.words import TOOL, VENDOR, known, measured, split_key
from telemetry_parsers.text.lines import Line, bus_address, quote

_PROCESS = ("process id:", "process name:", "process memory(mb):")
_EVENT = re.compile(r"event id=(0x[0-9A-Fa-f]{1,16})")
_CRIES = ("warning", "[warning", "error:", "[error")
_NO_PROCESS = "no process in device"


@dataclass(slots=True)
class _Scan:
    """The state between two lines."""

    page: Page
    asked: Place
    card: int | None = None
    chip: int | None = None
    chip_count: int | None = None
    chip_comes_last: bool | None = None
    is_other_part: bool = False
    is_named: bool = False
    spoken_of: bool = False
    block: dict[str, Entry] = field(default_factory=dict)


def is_blocks(lines: Sequence[Line]) -> bool:
    """Whether some line is a key that only npu-smi prints, or a process as `-t proc-mem` prints it."""
    return any(_is_key(line) or _is_process(line) for line in lines)


def read(lines: Sequence[Line], asked: Place) -> Page:
    """What the answer says; `asked` is the place that the command named, for answers that don't name it."""
    scan = _Scan(Page(), asked, asked.card, asked.chip)
    for line in lines:
        text = line.text.strip()
        if not text:
            continue
        if not line.ended:
            problem = "the text ends inside this line, which is not read"
            scan.page.problems.append(Problem(line.where, problem))
        elif _is_process(line):
            _take_process(scan, text)
        elif text.lower().startswith(_NO_PROCESS):
            scan.page.count_processes(_here(scan), 0.0)
        else:
            _take_line(scan, line)
    _end_card(scan, closed=False)
    _check_total(scan.page, lines)
    return scan.page


def _is_key(line: Line) -> bool:
    name, colon, _ = line.text.partition(":")
    return bool(colon) and line.ended and split_key(name)[0] in KNOWN - keys.COMMON_WORDS


def _take_line(scan: _Scan, line: Line) -> None:
    name, colon, value = line.text.partition(":")
    key, unit = split_key(name)
    if not colon:
        scan.page.problems.append(Problem(line.where, f"not understood: {quote(line.text)}"))
    elif key.startswith(_CRIES):
        scan.page.problems.append(Problem(line.where, quote(line.text)))
    elif key and key not in keys.TOTALS:  # a value goes on under a blank key; the totals are looked at in the end
        _take_value(scan, key, Entry(value.strip(), unit, line))


def _take_value(scan: _Scan, key: str, entry: Entry) -> None:
    if key == keys.CARD_KEY:
        _end_card(scan)
        scan.card, scan.is_named = units.whole(entry.text), True
        scan.chip = scan.asked.chip if scan.card == scan.asked.card else None
    elif key == keys.CHIP_KEY:
        _take_chip(scan, entry.text)
    elif key == keys.NAME_KEY and entry.text.lower() in keys.OTHER_PARTS:
        _end_block(scan)
        scan.is_other_part = True
    else:
        if key == "chip count":
            scan.chip_count = units.whole(entry.text)
        if key in scan.block:
            _end_block(scan)
        scan.block[key] = entry


def _take_chip(scan: _Scan, value: str) -> None:
    """The number of a chip opens its block, as in `-t common`, or closes it, as in `-t usages`."""
    if scan.chip_comes_last is None:
        scan.chip_comes_last = bool(scan.block.keys() - {"chip count"})
    if not scan.chip_comes_last:
        _end_block(scan)
    scan.chip = units.whole(value)
    if scan.chip_comes_last:
        _end_block(scan)
        scan.chip = scan.asked.chip if scan.card == scan.asked.card else None
    else:
        _here(scan)


def _end_card(scan: _Scan, *, closed: bool = True) -> None:
    """What a card said is over; one of which nothing was said is listed all the same."""
    _end_block(scan, closed=closed)
    if scan.is_named and scan.card is not None and not scan.spoken_of:
        _here(scan)
    scan.card, scan.chip = scan.asked.card, scan.asked.chip
    scan.chip_count = scan.chip_comes_last = None
    scan.is_named = scan.spoken_of = scan.is_other_part = False


def _here(scan: _Scan) -> int:
    scan.spoken_of = True
    return scan.page.device(Place(scan.card, scan.chip))


def _end_block(scan: _Scan, *, closed: bool = True) -> None:
    block, scan.block = scan.block, {}
    other, scan.is_other_part = scan.is_other_part, False
    if other or not block.keys() - {"chip count"}:
        return
    if scan.chip is None and (scan.chip_count or 1) > 1 and has_readings(block):
        line = next(iter(block.values())).line
        problem = f"readings of one of {scan.chip_count} chips without its Chip ID are not read"
        scan.page.problems.append(Problem(line.where, problem))
        return
    if KNOWN.isdisjoint(block):
        scan.page.unknown.update(dict.fromkeys(map(quote, block)))
        return
    device = _here(scan)
    _describe(scan.page, device, block)
    read_block(scan.page, device, block, closed=closed)


def _describe(page: Page, device: int, block: Block) -> None:
    def text(*names: str) -> str | None:
        return next((known(block[name].text) for name in names if name in block), None)

    address = text(keys.ADDRESS)
    told = Device(
        VENDOR,
        model=text(*keys.MODELS),
        uuid=text(*keys.UUIDS),
        bus_id=bus_address(address) if address else None,
        serial=text(keys.SERIAL),
        driver=text(keys.DRIVER),
    )
    facts = {name: known(block[key].text) for key, name in keys.FACTS.items() if key in block}
    if keys.FAULT_EVENTS in block:
        facts["error_codes"] = " ".join(_EVENT.findall(block[keys.FAULT_EVENTS].text)) or None
    if keys.RATED_POWER in block:
        facts["power_kind"] = "rated"
    page.describe(device, told, facts)


def _is_process(line: Line) -> bool:
    return line.ended and line.text.strip().lower().startswith(_PROCESS[0])


def _take_process(scan: _Scan, text: str) -> None:
    """A line such as `Process id:2077  Process name:python     Process memory(MB):55436`."""
    lower = text.lower()
    starts = [lower.find(word) for word in _PROCESS]
    if -1 in starts or starts != sorted(starts):
        return
    ends = [start + len(word) for start, word in zip(starts, _PROCESS, strict=True)]
    pid = units.whole(text[ends[0] : starts[1]])
    memory = measured(text[ends[2] :], "mb", "memory_used_bytes")
    if pid is not None:
        used = None if isinstance(memory, Absent) else memory
        scan.page.processes.append(Process(_here(scan), pid, text[ends[1] : starts[2]].strip(), used))


def _totals(lines: Sequence[Line]) -> Iterator[tuple[Line, int]]:
    for line in lines:
        name, _, value = line.text.partition(":")
        count = units.whole(value)
        if line.ended and count is not None and split_key(name)[0] in keys.TOTALS:
            yield line, count


def _check_total(page: Page, lines: Sequence[Line]) -> None:
    """A list that has fewer cards than it counts was cut."""
    cards = {place.card for place in page.places()}
    for line, count in _totals(lines):
        if count != len(cards):
            page.cut, page.complete = True, False
            page.problems.append(Problem(line.where, f"{TOOL} counts {count} cards and lists {len(cards)}"))
