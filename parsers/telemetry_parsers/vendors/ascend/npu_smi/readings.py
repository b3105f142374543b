"""What the keys of one block give: readings of one chip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Problem, Value
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.ascend.npu_smi import keys
from telemetry_parsers.vendors.ascend.npu_smi.keys import Field
from telemetry_parsers.vendors.ascend.npu_smi.page import Page
from telemetry_parsers.vendors.ascend.npu_smi.words import VENDOR, health, measured


@dataclass(frozen=True, slots=True)
class Entry:
    """A value as printed, the unit in its key, and its line."""

    text: str
    unit: str
    line: Line


Block = Mapping[str, Entry]

_HBM, _DDR = range(len(keys.MEMORY_NAMES))
_MEMORY_KEYS: Mapping[str, tuple[int, Field]] = {
    **{
        pattern.format(name): (kind, wanted)
        for pattern, wanted in keys.MEMORY_FIELDS.items()
        for kind, names in enumerate(keys.MEMORY_NAMES)
        for name in names
    },
    **{name: (_DDR, keys.MEMORY_FIELDS["{} " + name]) for name in keys.BARE_MEMORY},
}
_SWITCH: Mapping[str, float] = MappingProxyType({"true": 1.0, "false": 0.0})
KNOWN = frozenset(
    {
        *keys.FIELDS, *_MEMORY_KEYS, *keys.ECC_FIELDS, *keys.ECC_ENABLED, *keys.JPEG, *keys.PENDING_PAGES,
        *keys.HEALTH, *keys.ABOUT, *keys.UNREAD,
    }
)  # fmt: skip


def is_measured(key: str) -> bool:
    """Whether a key is known to tell what was measured, be it read or not."""
    return key in KNOWN and key not in keys.ABOUT


def read_block(page: Page, device: int, block: Block, *, closed: bool) -> None:
    """Put the readings of a block onto the page, and the keys that nobody knows.

    A block that the end of the text ends may go on: it is not `closed`.
    """
    hides_hbm = _hides_hbm(block)
    kind = None if hides_hbm else _memory_of(block, closed=closed)
    if hides_hbm:
        problem = "HBM's capacity is not told, so that nothing says which memory is the chip's"
        page.problems.append(Problem(next(iter(block.values())).line.where, problem))
    for key, wanted in _wanted(block, kind):
        _give(page, device, block[key], wanted)
    for key in keys.HEALTH:
        for item in health(device, block[key].text) if key in block else ():
            page.give(device, item, block[key].text, block[key].line.where)
    _give_jpeg(page, device, block)
    _give_pending(page, device, block)
    _give_ecc_enabled(page, device, block)
    for key in block:
        if key not in KNOWN and not key.startswith(keys.QUIET_BEGINNINGS):
            page.unknown[quote(key) or "(blank)"] = None


def read_card_fields(page: Page, devices: Sequence[int], block: Block) -> None:
    """Put what is of a whole card onto the page for each of its chips; its power only where there are several."""
    for key, entry in block.items():
        wanted = keys.PART_FIELDS.get(key)
        if wanted is not None and (len(devices) > 1 or wanted.key != "power_card_watts"):
            for device in devices:
                _give(page, device, entry, wanted)
        elif key not in KNOWN:
            page.unknown[quote(key)] = None


def _wanted(block: Block, kind: int | None) -> Iterator[tuple[str, Field]]:
    """The keys that give a reading each."""
    yield from ((key, wanted) for key in block for wanted in keys.FIELDS.get(key, ()))
    yield from ((key, keys.ECC_FIELDS[key]) for key in block if key in keys.ECC_FIELDS)
    yield from ((key, _MEMORY_KEYS[key][1]) for key in block if key in _MEMORY_KEYS and _MEMORY_KEYS[key][0] == kind)


def _memory_of(block: Block, *, closed: bool) -> int | None:
    """Which memory is the device's: HBM unless there is none, else DDR where no line of HBM can be lost; None for neither."""
    if keys.FLASH_KEY in block:
        return None
    kinds = {_MEMORY_KEYS[key][0] for key in block if key in _MEMORY_KEYS}
    if _HBM in kinds and not _is_none(block, "hbm capacity"):
        return _HBM
    if _DDR not in kinds or _is_none(block, "ddr capacity"):
        return None
    is_proven = _HBM in kinds or not keys.WITHOUT_HBM.isdisjoint(block)
    is_open = not closed or not keys.MAY_HAVE_HBM.isdisjoint(block)
    return _DDR if is_proven or not is_open else None


def _hides_hbm(block: Block) -> bool:
    """Whether HBM is spoken of and its capacity, which is 0 where there is none, is lost beside that of DDR."""
    speaks = any(_MEMORY_KEYS[key][0] == _HBM for key in block if key in _MEMORY_KEYS)
    capacity = block.get("hbm capacity")
    return speaks and "ddr capacity" in block and (capacity is None or units.placeholder(capacity.text) is not None)


def _is_none(block: Block, key: str) -> bool:
    return key in block and block[key].text == "0"


def _give(page: Page, device: int, entry: Entry, wanted: Field) -> None:
    value = measured(entry.text, entry.unit, wanted.key)
    page.give(device, reading(device, wanted.key, value, wanted.label, VENDOR), entry.text, entry.line.where)


def _give_jpeg(page: Page, device: int, block: Block) -> None:
    """The busier of the two engines; of one alone it is not known whether it is that."""
    entries = [block[key] for key in keys.JPEG if key in block]
    values = [measured(entry.text, entry.unit, "engine_utilization_ratio") for entry in entries]
    if not entries:
        return
    numbers = [value for value in values if not isinstance(value, Absent)]
    gaps = [value for value in values if isinstance(value, Absent)] + [Absent.NOT_REPORTED] * (len(entries) == 1)
    chosen: Value = gaps[0] if gaps else max(numbers)
    at = values.index(chosen) if chosen in values else 0
    item = reading(device, "engine_utilization_ratio", chosen, "jpeg")
    page.give(device, item, entries[at].text, entries[at].line.where)


def _give_pending(page: Page, device: int, block: Block) -> None:
    """1 when some page waits for the next start to be taken out of use, 0 when none of either kind of error does."""
    entries = {key: block[key] for key in keys.PENDING_PAGES if key in block}
    values = {key: measured(entry.text, entry.unit, "retired_pages") for key, entry in entries.items()}
    for key, value in values.items():
        if isinstance(value, Absent):
            item = reading(device, "retired_pages_pending", value)
            page.give(device, item, entries[key].text, entries[key].line.where)
            return
    pending = any(value != 0 for value in values.values())
    if pending or (values and len(values) % len(keys.BITS) == 0):
        where = next(iter(entries.values())).line.where
        page.give(device, reading(device, "retired_pages_pending", float(pending)), "", where)


def _give_ecc_enabled(page: Page, device: int, block: Block) -> None:
    entry = next((block[key] for key in keys.ECC_ENABLED if key in block), None)
    if entry is None:
        return
    value = _SWITCH.get(entry.text.lower(), units.placeholder(entry.text) or Absent.NOT_UNDERSTOOD)
    page.give(device, reading(device, "ecc_enabled", value), entry.text, entry.line.where)
