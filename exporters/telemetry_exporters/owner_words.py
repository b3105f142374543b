"""Owners of cards in words, for people: who it is, with which share, and whether the card is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from telemetry_exporters import human
from telemetry_exporters.text import cut
from telemetry_parsers.ownership import Allocation, Basis, Owner, Process

_LONGEST = 48
_BASES: Mapping[Basis, str] = {
    "whole": "the whole card",
    "partition": "of the card, as its partition",
    "utilization": "of the card, by utilization",
    "memory": "of the card, by memory",
    "equal": "of the card, in equal parts",
}
_USES: Mapping[tuple[bool, bool | None], str] = {
    (True, True): "allocated and used",
    (True, False): "allocated, not used",
    (True, None): "allocated",
    (False, True): "used, not allocated",
    (False, False): "not allocated",
    (False, None): "not allocated",
}


def who(owner: Owner) -> str:
    """The owner in a few words: `job 1234 (alice)`, `pod ml/train-0/main`; the kind alone where its name is not told."""
    if owner.kind == "others":
        return "others"
    words = cut(f"{owner.kind} {owner.name}".rstrip(), _LONGEST)
    return f"{words} ({cut(owner.user, _LONGEST // 2)})" if owner.user and owner.kind != "user" else words


def all_of(allocations: Sequence[Allocation]) -> str:
    """The first of a card's owners, and how many more there are; empty without any."""
    if not allocations:
        return ""
    more = len(allocations) - 1
    return who(allocations[0].owner) + (f" +{more}" if more else "")


def searched(allocations: Sequence[Allocation]) -> str:
    """All words by which the owners of a card are looked for."""
    return " ".join(
        filter(None, (text for one in allocations for text in (who(one.owner), one.owner.name, one.owner.account)))
    )


def share(allocation: Allocation) -> str:
    """How much of the card it is, and what that was taken from: `75 % of the card, by utilization`."""
    words = basis(allocation)
    return words if allocation.basis == "whole" else f"{human.percent(allocation.share)} {words}"


def basis(allocation: Allocation) -> str:
    """What its share was taken from: `of the card, by utilization`."""
    return _BASES[allocation.basis]


def briefly(allocations: Sequence[Allocation]) -> str:
    """All owners of a card, and who of them does not use it: `job 1234 (alice): not used, user bob`."""
    return ", ".join(who(one.owner) + (": not used" if one.is_used is False else "") for one in allocations)


def standing(allocation: Allocation) -> str:
    """Whether it was given the card and uses it, who says so, the memory that it holds, and since when it is there."""
    memory = allocation.memory_used_bytes
    parts = (
        _USES[allocation.is_allocated, allocation.is_used],
        "" if memory is None else human.byte_size(memory),
        since(allocation.started),
        f"told by {', '.join(allocation.sources)}" if allocation.sources else "",
    )
    return ", ".join(filter(None, parts))


def of_process(process: Process) -> str:
    """Whose process it is: its owner, else its container; empty where neither is known."""
    if process.owner is not None:
        return who(process.owner)
    return f"container {cut(process.container, _LONGEST)}" if process.container else ""


def about_process(process: Process) -> str:
    """What is known of a process besides its memory: program, user, owner, its part of the card's time, and its start."""
    command = process.command if process.command != process.name else ""
    parts = (
        process.name,
        command,
        f"of {process.user}" if process.user else "",
        of_process(process),
        f"GPU instance {process.instance}" if process.instance else "",
        "" if process.utilization_ratio is None else human.percent(process.utilization_ratio),
        since(process.started),
    )
    return ", ".join(filter(None, parts))


def since(started: float | None) -> str:
    """Since when, in UTC; empty where that is no time."""
    return f"since {human.utc(started)}" if started is not None and human.is_moment(started) else ""
