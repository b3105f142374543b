"""How the time of a step was spent, as lines: of one card, or of the ranks of a job."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from telemetry_exporters.terminal.style import ABSENT
from telemetry_exporters.text import pad_left, pad_right
from telemetry_profile.facts.file_facts import Split
from telemetry_profile.verdict.slowest_rank import spread_of, straggler_of
from telemetry_profile.verdict.summary import Usual, mean

# The least length from which on a unit is used, its name, and its nanoseconds.
_UNITS = ((10**11, "s", 10**9), (10**6, "ms", 10**6), (0, "µs", 10**3))
_PARTS = (
    ("compute_ns", "compute"),
    ("communication_ns", "communication"),
    ("exposed_communication_ns", "exposed"),
    ("copy_ns", "copies"),
    ("idle_ns", "idle"),
    ("wait_ns", "waits for ranks"),
    ("data_wait_ns", "data wait"),
)
_COLUMNS = (
    ("span_ns", "STEP"),
    ("compute_ns", "COMPUTE"),
    ("communication_ns", "COMM"),
    ("exposed_communication_ns", "EXPOSED"),
    ("copy_ns", "COPIES"),
    ("idle_ns", "IDLE"),
    ("wait_ns", "WAIT"),
)


def parts_line(ranks: Sequence[Usual], width: int) -> list[str]:
    """The parts of the mean step in one unit; two lines where one is too short for them."""
    split = mean([rank.split for rank in ranks]) if ranks else Split()
    longest = max((getattr(split, name) or 0 for name, _ in (("span_ns", ""), *_PARTS)), default=0)
    unit, scale = _unit(longest)
    told = [(name, words, getattr(split, name)) for name, words in _PARTS]
    texts = [
        f"{words} {_number(value, scale)}"
        for name, words, value in told
        if value is not None and not _says_nothing(name, value, split)
    ]
    if not texts:
        return []
    texts[-1] += f" {unit}"
    if split.launches:
        texts.append(f" launches {split.launches:,}")
    line = "  ".join(texts)
    return [line] if len(line) <= width else ["  ".join(texts[:4]), "  ".join(texts[4:])]


def _says_nothing(name: str, value: int, split: Split) -> bool:
    """What is no more than a repetition: nothing of no communication is exposed, and nobody waits."""
    if name == "exposed_communication_ns":
        return value == 0 and not split.communication_ns
    return name in ("wait_ns", "data_wait_ns") and value == 0


def rank_table(ranks: Sequence[Usual]) -> list[str]:
    """The median, the slowest and the fastest rank, and the one that holds up the others; nothing for a single card."""
    spread = spread_of(ranks)
    if spread is None:
        return []
    slow = straggler_of(ranks)
    rows: list[tuple[str, Split]] = [
        ("median", _median(ranks)),
        (f"slowest: {_name(spread.slowest)}", spread.slowest.split),
        (f"fastest: {_name(spread.fastest)}", spread.fastest.split),
    ]
    rows += [
        (f"holds up the others: rank {slow.rank}", rank.split)
        for rank in ranks
        if slow and rank.member.device.rank == slow.rank
    ]
    unit, scale = _unit(spread.median_ns)
    columns = [
        (name, heading) for name, heading in _COLUMNS if any(getattr(split, name) is not None for _, split in rows)
    ]
    lines = [[f"RANKS ({unit})", *(heading for _, heading in columns)]]
    lines += [[words, *(_number(getattr(split, name), scale) for name, _ in columns)] for words, split in rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return [
        pad_right(line[0], widths[0])
        + "".join("  " + pad_left(cell, each) for cell, each in zip(line[1:], widths[1:], strict=True))
        for line in lines
    ] + ([f"skew: the slowest takes {spread.skew:.1%} longer than the median"] if spread.skew >= 0.001 else [])


def _name(rank: Usual) -> str:
    device = rank.member.device
    if device.rank is not None:
        return f"rank {device.rank}"
    return "a card without number" if device.card.index is None else f"card {device.card.index}"


def _median(ranks: Sequence[Usual]) -> Split:
    told = {name: [value for rank in ranks if (value := getattr(rank.split, name)) is not None] for name, _ in _COLUMNS}
    return Split(**{name: round(statistics.median(values)) if values else None for name, values in told.items()})


def _unit(longest: int) -> tuple[str, int]:
    return next((name, scale) for least, name, scale in _UNITS if longest >= least)


def _number(value: int | None, scale: int) -> str:
    if value is None:
        return ABSENT
    return f"{value / scale:,.1f}" if value else "0"
