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
_CRIES = ("warning", "[warning", "error:", "[error", "failed to ")
_COUNT = "chip count"
_NO_PROCESS = "no process in device"
_NO_NAME = "get pid name failed"


@dataclass(frozen=True, slots=True)
class _Row:
    """A process whose chip may be told below it."""

    pid: int
    name: str
    memory_bytes: float | None
    line: Line


@dataclass(slots=True)
class _Scan:
    """The state between two lines."""

    page: Page
    asked: Place
    card: int | None = None
    chip: int | None = None
    chip_count: int | None = None
    chip_comes_last: bool | None = None
    chip_is_open: bool = False
    is_other_part: bool = False
    is_named: bool = False
    spoken_of: bool = False
    are_several: bool = False
    has_gap: bool = False
    since_gap: set[str] = field(default_factory=set)
    block: dict[str, Entry] = field(default_factory=dict)
    processes: list[_Row] = field(default_factory=list)
    says_idle: bool = False


def is_blocks(lines: Sequence[Line]) -> bool:
    """Whether some line is a key that only npu-smi prints, or a process as `-t proc-mem` prints it."""
    return any(_is_key(line) or _is_process(line) for line in lines)


def read(lines: Sequence[Line], asked: Place) -> Page:
    """What the answer says; `asked` is the place that the command named, for answers that don't name it."""
    scan = _Scan(Page(), asked, asked.card, asked.chip)
    for line in lines:
        text = line.text.strip()
        if not text:
            scan.has_gap, scan.since_gap = True, set()
        elif not line.ended:
            problem = "the text ends inside this line, which is not read"
            scan.page.problems.append(Problem(line.where, problem))
        elif _is_process(line):
            _take_process(scan, line)
        elif text.lower().startswith(_NO_PROCESS):
            scan.says_idle = True
        elif not text.lower().startswith(_NO_NAME):  # the process follows, with a blank name
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
        _take_failure(scan)
    elif key and key not in keys.TOTALS:  # a value goes on under a blank key; the totals are looked at in the end
        _take_value(scan, key, Entry(value.strip(), unit, line))


def _take_value(scan: _Scan, key: str, entry: Entry) -> None:
    if key == keys.CARD_KEY:
        _end_card(scan)
        scan.card, scan.is_named = units.whole(entry.text), True
        _forget_chip(scan)
    elif key == keys.CHIP_KEY:
        _take_chip(scan, entry.text)
    elif key == keys.NAME_KEY and entry.text.lower() in keys.OTHER_PARTS:
        _take_other_part(scan, entry.line)
    else:
        if key == _COUNT:
            scan.chip_count = units.whole(entry.text)
        if key in scan.block:
            _look_for_others(scan, key, entry.line)
            _end_block(scan)
        scan.block[key] = entry
    scan.since_gap.add(key)


def _look_for_others(scan: _Scan, key: str, line: Line) -> None:
    """The same reading twice and no word of whose it is: these are answers about several chips."""
    if scan.card is None and scan.chip is None and key in KNOWN - keys.QUIET and not scan.are_several:
        scan.are_several = True
        problem = "answers about several chips that don't say about which are not read; keep the command lines"
        scan.page.problems.append(Problem(line.where, problem))


def _take_chip(scan: _Scan, value: str) -> None:
    """The number of a chip opens its block, as in `-t common`, or closes it, as in `-t usages`."""
    if scan.chip_comes_last is None:
        scan.chip_comes_last = not scan.is_other_part and _has_content(scan)
    if not scan.chip_comes_last:
        _end_block(scan)
    scan.chip, scan.chip_is_open = units.whole(value), True
    if scan.chip_comes_last:
        _end_block(scan)
        _forget_chip(scan)


def _forget_chip(scan: _Scan) -> None:
    scan.chip = scan.asked.chip if scan.card == scan.asked.card else None


def _take_other_part(scan: _Scan, line: Line) -> None:
    """The name of a part that is no chip opens its block, as in `-t common`, or closes it, as in the other answers."""
    readable = has_readings(scan.block)
    follows_chip = keys.CHIP_KEY in scan.since_gap
    own = scan.since_gap & scan.block.keys() if scan.has_gap and not follows_chip else frozenset[str]()
    if scan.chip_comes_last:
        scan.block = {}
    elif scan.chip_is_open and follows_chip and not readable:  # `-t board` of that part
        scan.chip_is_open, scan.is_other_part = False, True
        _forget_chip(scan)
    elif own:
        scan.block = {key: entry for key, entry in scan.block.items() if key not in own}
    elif scan.chip_comes_last is None and readable and not scan.has_gap:
        problem = "values beside the name of a part that is no chip are not read: they may be the part's or a chip's"
        scan.page.problems.append(Problem(line.where, problem))
        scan.block, scan.is_other_part = {}, True
    else:
        _end_block(scan)
        scan.is_other_part = True


def _has_content(scan: _Scan) -> bool:
    return bool(scan.block.keys() - {_COUNT} or scan.processes or scan.says_idle)


def _take_failure(scan: _Scan) -> None:
    """A chip that did not answer has its number alone, which tells nothing of where the others have theirs."""
    if not _has_content(scan):
        _end_block(scan)
        scan.chip_comes_last = None
        _forget_chip(scan)


def _end_card(scan: _Scan, *, closed: bool = True) -> None:
    """What a card said is over; one of which nothing was said is listed all the same."""
    _end_block(scan, closed=closed)
    if scan.is_named and scan.card is not None and not scan.spoken_of:
        _here(scan)
    scan.card, scan.chip = scan.asked.card, scan.asked.chip
    scan.chip_count = scan.chip_comes_last = None
    scan.is_named = scan.spoken_of = scan.is_other_part = scan.has_gap = False
    scan.since_gap = set()


def _here(scan: _Scan) -> int:
    scan.spoken_of = True
    return scan.page.device(Place(scan.card, scan.chip))


def _end_block(scan: _Scan, *, closed: bool = True) -> None:
    block, scan.block = scan.block, {}
    other, scan.is_other_part = scan.is_other_part, False
    is_open, scan.chip_is_open = scan.chip_is_open, False
    if is_open and not other:
        _here(scan)
    _end_processes(scan)
    if scan.are_several and scan.card is None and scan.chip is None:
        return
    if other or not block.keys() - {_COUNT}:
        return
    if has_readings(block) and _lacks_chip(scan, "readings", next(iter(block.values())).line):
        return
    if KNOWN.isdisjoint(block):
        scan.page.unknown.update(dict.fromkeys(map(quote, block)))
        return
    device = _here(scan)
    _describe(scan.page, device, block)
    read_block(scan.page, device, block, closed=closed)


def _end_processes(scan: _Scan) -> None:
    rows, scan.processes = scan.processes, []
    idle, scan.says_idle = scan.says_idle, False
    if rows and not _lacks_chip(scan, "processes", rows[0].line):
        device = _here(scan)
        scan.page.processes.extend(Process(device, row.pid, row.name, row.memory_bytes) for row in rows)
    elif idle and (scan.chip is not None or (scan.chip_count or 1) == 1):
        scan.page.count_processes(_here(scan), 0.0)


def _lacks_chip(scan: _Scan, what: str, line: Line) -> bool:
    """Whether the chip of these is unknown although it should be told; a problem then."""
    several = (scan.chip_count or 1) > 1
    lacks = scan.chip is None and (several or scan.chip_comes_last is True)
    if lacks:
        whose = f"one of {scan.chip_count} chips" if several else "a chip"
        scan.page.problems.append(Problem(line.where, f"{what} of {whose} without its Chip ID are not read"))
    return lacks


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


def _take_process(scan: _Scan, line: Line) -> None:
    """A line such as `Process id:2077  Process name:python     Process memory(MB):55436`."""
    text = line.text.strip()
    lower = text.lower()
    starts = [lower.find(word) for word in _PROCESS]
    ends = [start + len(word) for start, word in zip(starts, _PROCESS, strict=True)]
    pid = units.whole(text[ends[0] : starts[1]])
    if pid is None or -1 in starts or starts != sorted(starts):
        scan.page.problems.append(Problem(line.where, f"no process: {quote(text)}"))
    else:
        memory = measured(text[ends[2] :], "mb", "memory_used_bytes")
        used = None if isinstance(memory, Absent) else memory
        scan.processes.append(_Row(pid, text[ends[1] : starts[2]].strip(), used, line))


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
