"""What the keys of one block give: readings of one chip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, metric
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.ascend.npu_smi import keys


@dataclass(frozen=True, slots=True)
class Entry:
    """A value as printed, the unit in its key, and its line."""

    text: str
    unit: str
    line: Line


Block = Mapping[str, Entry]

_HBM, _DDR = range(len(keys.MEMORY_NAMES))
_MEMORY_KEYS: Mapping[str, tuple[int, Target]] = {
    **{
        pattern.format(name): (kind, target)
        for pattern, target in keys.MEMORY_FIELDS.items()
        for kind, names in enumerate(keys.MEMORY_NAMES)
        for name in names
    },
    **{name: (_DDR, keys.MEMORY_FIELDS["{} " + name]) for name in keys.BARE_MEMORY},
}
_JPEG = metric("engine_utilization_ratio", "jpeg")
_PENDING = metric("retired_pages_pending")
KNOWN = frozenset(
    {
        *keys.FIELDS, *_MEMORY_KEYS, *keys.ECC_FIELDS, *keys.ECC_ENABLED, *keys.JPEG, *keys.PENDING_PAGES,
        *keys.HEALTH, *keys.ABOUT, *keys.UNREAD,
    }
)  # fmt: skip


def is_measured(key: str) -> bool:
    """Whether a key is known to hold what was measured, be it read or not."""
    return key in KNOWN and key not in keys.ABOUT


def read_block(draft: Draft, device: int, block: Block, *, closed: bool) -> None:
    """Put the readings of a block into the draft, and the keys that nobody knows.

    A block that the end of the text ends may go on: it is not `closed`.
    """
    hides_hbm = _hides_hbm(block)
    kind = None if hides_hbm else _memory_of(block, closed=closed)
    if hides_hbm:
        problem = "HBM's capacity is not told, so that nothing says which memory is the chip's"
        draft.complain(next(iter(block.values())).line.where, problem)
    for key, target in _targets_of(block, kind):
        _give(draft, device, block[key], target)
    for key in keys.HEALTH:
        if key in block:
            _give(draft, device, block[key], keys.TO_HEALTH)
    _give_jpeg(draft, device, block)
    _give_pending(draft, device, block)
    enabled = next((block[key] for key in keys.ECC_ENABLED if key in block), None)
    if enabled is not None:
        _give(draft, device, enabled, keys.TO_ECC_ENABLED)
    for key in block:
        if key not in KNOWN and not key.startswith(keys.QUIET_BEGINNINGS):
            draft.name_unknown(key)


def read_card_fields(draft: Draft, devices: Sequence[int], block: Block) -> None:
    """Put what is of a whole card into the draft for each of its chips; its power only where there are several."""
    for key, entry in block.items():
        target = keys.PART_FIELDS.get(key)
        if target is not None and (len(devices) > 1 or target.key != "power_card_watts"):
            for device in devices:
                _give(draft, device, entry, target)
        elif key not in KNOWN:
            draft.name_unknown(key)


def _targets_of(block: Block, kind: int | None) -> Iterator[tuple[str, Target]]:
    """The keys that give a reading each."""
    yield from ((key, target) for key in block for target in keys.FIELDS.get(key, ()))
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
    """Whether HBM is mentioned and its capacity, which is 0 where there is none, is lost beside that of DDR."""
    speaks = any(_MEMORY_KEYS[key][0] == _HBM for key in block if key in _MEMORY_KEYS)
    capacity = block.get("hbm capacity")
    return speaks and "ddr capacity" in block and (capacity is None or units.placeholder(capacity.text) is not None)


def _is_none(block: Block, key: str) -> bool:
    return key in block and block[key].text == "0"


def _give(draft: Draft, device: int, entry: Entry, target: Target) -> None:
    draft.take(device, (target,), entry.text, entry.line.where, entry.unit)


def _value(draft: Draft, entry: Entry, target: Target) -> Value:
    value = draft.value_in(target, entry.text, entry.unit)
    return Absent.NOT_UNDERSTOOD if value is None else value


def _give_jpeg(draft: Draft, device: int, block: Block) -> None:
    """The busier of the two engines; of one alone it is not known whether it is that."""
    entries = [block[key] for key in keys.JPEG if key in block]
    values = [_value(draft, entry, _JPEG) for entry in entries]
    if not entries:
        return
    numbers = [value for value in values if not isinstance(value, Absent)]
    gaps = [value for value in values if isinstance(value, Absent)] + [Absent.NOT_REPORTED] * (len(entries) == 1)
    chosen: Value = gaps[0] if gaps else max(numbers)
    at = values.index(chosen) if chosen in values else 0
    draft.give(device, _JPEG, chosen, entries[at].text, entries[at].line.where)


def _give_pending(draft: Draft, device: int, block: Block) -> None:
    """1 when some page waits for the next start to be taken out of use, 0 when none of either kind of error does."""
    entries = [block[key] for key in keys.PENDING_PAGES if key in block]
    values = [_value(draft, entry, metric("retired_pages")) for entry in entries]
    for entry, value in zip(entries, values, strict=True):
        if isinstance(value, Absent):
            draft.give(device, _PENDING, value, entry.text, entry.line.where)
            return
    is_pending = any(value != 0 for value in values)
    if is_pending or (values and len(values) % len(keys.BITS) == 0):
        draft.give(device, _PENDING, float(is_pending), "", entries[0].line.where)
