"""The facts of many files become what is known of each rank.

In MindSpore's cluster folder the number of a file is that of a card, and a rank table says whose it was. MindSpore until 1.3 gathers
`cluster_profiler/ALIAS/profiler/…`, with the rank table and `host_ips_mapping.txt` beside `cluster_profiler`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from telemetry_parsers.model import Problem
from telemetry_profile.format_contract import (
    THIS_RANK,
    Call,
    Card,
    Clock,
    Device,
    Facts,
    Hint,
    Kernel,
    Link,
    Split,
    Step,
    largest_first,
)

# Folders inside one result. What lies in them belongs to the folder that holds them.
_INSIDE = re.compile(
    r"(timeline|summary|sqlite|host|data|analyze|device_\d+|PROF_\w+|ASCEND_PROFILER_OUTPUT|mindstudio_profiler_output)\Z"
)
_NUMBER = re.compile(r"\d+\Z")
_T = TypeVar("_T", Card, Split)
_CLUSTER = "cluster_profiler"
_Folders = tuple[str, ...]
_Ranks = Mapping[tuple[_Folders, str], Mapping[int, int]]
"""The rank of each card by its number, for the folder that holds `cluster_profiler`, and the alias of the node."""

_NO_TABLE = f"no rank table with a host_ips_mapping.txt beside {_CLUSTER} says which rank some cards had: they are shown without one"


@dataclass(frozen=True, slots=True)
class ReadFile:
    """One file that was read: the names of the folders that hold it, its own name, and its facts."""

    folders: tuple[str, ...]
    name: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class Member:
    """One device of one rank, as all its files together tell it. `begin_unix_ns` is known where a clock is, `job_ranks` is the size of its job."""

    device: Device
    tool: str
    formats: tuple[str, ...]
    clock: Clock = "none"
    begin_unix_ns: int | None = None
    end_unix_ns: int | None = None
    files: tuple[str, ...] = ()
    job_ranks: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """All that was read, by rank and card; `ranks` is the size of the job where a file tells it."""

    members: tuple[Member, ...]
    ranks: int | None
    links: tuple[Link, ...]
    calls: tuple[Call, ...]
    hints: tuple[Hint, ...]
    remarks: tuple[str, ...]
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Part:
    """One device of one file."""

    unit: tuple[str, ...]
    file: ReadFile
    device: Device


def combine(files: Sequence[ReadFile]) -> Profile:
    """The members in the order of rank and card. Of what several files tell of one member, the most detailed wins."""
    ranks = _ranks_of_nodes(files)
    files = [_with_ranks(file, ranks) for file in files]
    remarks: list[str] = [remark for file in files for remark in file.facts.remarks]
    parts = [_Part(_unit(file), file, device) for file in files for device in file.facts.devices]
    _give_ranks(parts)
    members = [_member(run, remarks) for group in _grouped(parts) for run in _recordings(group)]
    shown = [member for member in members if _says_something(member.device)]
    sizes = [file.facts.ranks for file in files if file.facts.ranks]
    return Profile(
        members=tuple(sorted(shown, key=_order)),
        ranks=max(sizes, default=None),
        links=_links(files, parts),
        calls=tuple(call for file in files for call in file.facts.calls),
        hints=tuple(dict.fromkeys(hint for file in files for hint in file.facts.hints)),
        remarks=tuple(dict.fromkeys(remarks)),
        problems=tuple(
            Problem(f"{file.name}: {problem.where}".rstrip(": "), problem.text)
            for file in files
            for problem in file.facts.problems
        ),
    )


def _order(member: Member) -> tuple[bool, int, bool, int, int]:
    rank, index = member.device.rank, member.device.card.index
    return rank is None, rank or 0, index is None, index or 0, member.device.begin_ns or 0


def _says_something(device: Device) -> bool:
    """Whether there is more than the name of a card."""
    return bool(device.split != Split() or device.steps or device.kernels or device.flops)


def _links(files: Iterable[ReadFile], parts: Iterable[_Part]) -> tuple[Link, ...]:
    """All links, those of a file that calls its rank `THIS_RANK` with that one's number. Two timelines of one run tell the same."""
    ranks = {id(part.file): part.device.rank for part in parts if part.device.rank is not None}
    return tuple(
        dict.fromkeys(
            replace(link, source=str(ranks.get(id(file), THIS_RANK))) if link.source == THIS_RANK else link
            for file in files
            for link in file.facts.links
        )
    )


def _grouped(parts: Sequence[_Part]) -> list[list[_Part]]:
    groups: dict[tuple[object, ...], list[_Part]] = {}
    indices: dict[tuple[object, ...], set[int]] = {}
    for part in parts:
        if part.device.card.index is not None:
            indices.setdefault(_place(part), set()).add(part.device.card.index)
    for part in parts:
        # A card that has no number in one file is the only one of its folder in another, or one of its own.
        place = _place(part)
        index = part.device.card.index if len(indices.get(place, ())) > 1 else None
        groups.setdefault((*place, index), []).append(part)
    return list(groups.values())


def _place(part: _Part) -> tuple[object, ...]:
    """What all parts of a card have in common, if it is the only card there."""
    return ("rank", part.device.rank) if part.device.rank is not None else ("in", part.unit)


def _recordings(group: list[_Part]) -> Iterator[list[_Part]]:
    """The latest recording of a card with all that tells no time, then the earlier ones, each on its own.

    What another format tells of no other time belongs to the latest. Files of one format in one folder that follow each other, and each
    tell other steps, are parts of one recording.
    """
    runs: list[list[_Part]] = []
    timed = [part for part in group if part.device.begin_ns is not None]
    for part in sorted(timed, key=lambda part: -(part.device.begin_ns or 0)):
        run = next(
            (run for run in runs if any(_overlaps(part, other) or _continues(part, other) for other in run)), None
        )
        if run is None and runs and part.file.facts.format not in {other.file.facts.format for other in runs[0]}:
            run = runs[0]
        if run is None:
            runs.append([part])
        else:
            run.append(part)
    untimed = [part for part in group if part.device.begin_ns is None]
    yield [*(_joined(runs[0]) if runs else ()), *untimed]
    yield from map(_joined, runs[1:])


def _overlaps(part: _Part, later: _Part) -> bool:
    return part.file.facts.clock == later.file.facts.clock and (later.device.begin_ns or 0) <= (part.device.end_ns or 0)


def _continues(part: _Part, later: _Part) -> bool:
    """Whether a file of the same folder and format tells the steps that follow those of this one."""
    device, after = part.device, later.device
    if part.file.facts.format != later.file.facts.format or part.file.folders != later.file.folders:
        return False
    apart = (after.begin_ns or 0) - (device.end_ns or 0)
    numbers = {_step_number(step.name) for step in device.steps}
    others = {_step_number(step.name) for step in after.steps}
    return bool(numbers and others) and apart <= (device.split.span_ns or 0) and numbers.isdisjoint(others)


def _joined(run: list[_Part]) -> list[_Part]:
    """The parts of one recording, those of one format that follow each other as one."""
    joined: dict[str, _Part] = {}
    others = []
    for part in sorted(run, key=lambda part: part.device.begin_ns or 0):
        known = joined.get(part.file.facts.format)
        if known is None:
            joined[part.file.facts.format] = part
        elif not _overlaps(known, part) and _continues(known, part):
            joined[part.file.facts.format] = replace(known, device=_followed(known.device, part.device))
        else:
            others.append(part)
    return [*joined.values(), *others]


def _followed(device: Device, later: Device) -> Device:
    """One device in two spans of time that follow each other, such as two iterations in files of their own."""
    sums: dict[tuple[str, str], Kernel] = {}
    for kernel in (*device.kernels, *later.kernels):
        known = sums.get((kernel.work, kernel.name))
        sums[kernel.work, kernel.name] = kernel if known is None else known.joined(kernel)
    between, split = (later.begin_ns or 0) - (device.end_ns or 0), device.split.joined(later.split)
    longer = {name: value + between for name in ("span_ns", "idle_ns") if (value := getattr(split, name)) is not None}
    return replace(
        device,
        end_ns=later.end_ns,
        split=replace(split, **longer),
        steps=(*device.steps, *later.steps),
        kernels=largest_first(sums.values()),
        first_collective=None,
        gaps=(),
        without_gaps=None,
    )


def _give_ranks(parts: Sequence[_Part]) -> None:
    """A folder whose files name one rank only is that rank's, with all that lies in it."""
    ranks: dict[tuple[str, ...], set[int]] = {}
    for part in parts:
        if part.device.rank is not None:
            ranks.setdefault(part.unit, set()).add(part.device.rank)
    for part in parts:
        found = ranks.get(part.unit, set())
        if part.device.rank is None and len(found) == 1:
            part.device = replace(part.device, rank=next(iter(found)))


def _unit(file: ReadFile) -> tuple[str, ...]:
    folders = list(file.folders)
    while folders and _INSIDE.match(folders[-1]):
        folders.pop()
    return tuple(folders)


def _member(parts: list[_Part], remarks: list[str]) -> Member:
    parts = _latest(sorted(parts, key=_detail, reverse=True), remarks)
    first = parts[0]
    device = first.device
    for part in parts[1:]:
        device = _filled(device, part.device)
    offsets = [part.file.facts.boot_to_unix_ns for part in parts if part.file.facts.boot_to_unix_ns is not None]
    begin, end = _unix(first, device.begin_ns, offsets), _unix(first, device.end_ns, offsets)
    formats = tuple(dict.fromkeys(part.file.facts.format for part in parts))
    sizes = [part.file.facts.ranks for part in parts if part.file.facts.ranks]
    # Folders may have the name of a host or a user.
    files = tuple(dict.fromkeys(part.file.name.rpartition("/")[2] for part in parts))
    return Member(
        device, first.file.facts.tool, formats, first.file.facts.clock, begin, end, files, max(sizes, default=None)
    )


def _latest(parts: list[_Part], remarks: list[str]) -> list[_Part]:
    """Without the earlier of several recordings that one format made of the same rank."""
    kept: dict[str, _Part] = {}
    for part in parts:
        if part.device.begin_ns is None:  # sums, of which each file has its own
            continue
        known = kept.setdefault(part.file.facts.format, part)
        if known is not part:
            remarks.append(_left_out(known, part))
            if (part.device.begin_ns or 0) > (known.device.begin_ns or 0):
                kept[part.file.facts.format] = part
    return [part for part in parts if part.device.begin_ns is None or kept[part.file.facts.format] is part]


def _left_out(first: _Part, other: _Part) -> str:
    whose = "a card" if first.device.rank is None else f"rank {first.device.rank}"
    return f"{whose} has several results of {other.file.facts.tool}: only the latest is shown"


def _detail(part: _Part) -> tuple[bool, bool, bool, int, int]:
    """By which the files of a member are ordered: intervals before steps, steps that state their length, steps before sums."""
    device = part.device
    is_stated = any(_states_span(step.split) for step in device.steps)
    return device.begin_ns is not None, bool(device.steps), is_stated, _told(device.split), len(device.kernels)


def _states_span(split: Split) -> bool:
    """Whether the length is more than the sum of its parts."""
    parts = (split.compute_ns, split.exposed_communication_ns, split.exposed_copy_ns, split.idle_ns)
    return split.span_ns is not None and split.span_ns != sum(part or 0 for part in parts)


def _told(split: Split) -> int:
    return sum(getattr(split, field.name) is not None for field in fields(split))


def _unix(part: _Part, time: int | None, offsets: Sequence[int]) -> int | None:
    if time is None:
        return None
    if part.file.facts.clock == "unix":
        return time
    return time + offsets[0] if part.file.facts.clock == "boot" and offsets else None


def _filled(device: Device, other: Device) -> Device:
    """The device with what only the other one tells."""
    return replace(
        device,
        card=_of_both(device.card, other.card),
        rank=other.rank if device.rank is None else device.rank,
        split=_of_both(device.split, other.split) if _same_span(device.split, other.split) else device.split,
        steps=_steps(device, other),
        kernels=_kernels(device, other),
        flops=device.flops or other.flops,
        dtype=device.dtype or other.dtype,
    )


def _kernels(device: Device, other: Device) -> tuple[Kernel, ...]:
    """The kernels of the first, and of a kind of work that it has none of the other's: copies are often in a file of their own."""
    works = {kernel.work for kernel in device.kernels}
    return (*device.kernels, *(kernel for kernel in other.kernels if kernel.work not in works))


def _same_span(split: Split, other: Split) -> bool:
    return split.span_ns is None or other.span_ns is None or abs(split.span_ns - other.span_ns) <= split.span_ns // 50


def _steps(device: Device, other: Device) -> tuple[Step, ...]:
    """The steps of the first, each with what the other tells of the step of that name."""
    if not device.steps:
        return other.steps
    theirs = {_step_number(step.name): step for step in other.steps}
    known = tuple(
        replace(step, split=_of_both(step.split, theirs[_step_number(step.name)].split))
        if _step_number(step.name) in theirs and _same_span(step.split, theirs[_step_number(step.name)].split)
        else step
        for step in device.steps
    )
    if device.begin_ns is None or other.begin_ns is None:
        return known
    ours = {_step_number(step.name) for step in device.steps}
    return known + tuple(step for step in other.steps if _step_number(step.name) not in ours)


def _step_number(name: str) -> str:
    """What tells steps apart in every format: `ProfilerStep#12` is `step 12`."""
    found = _NUMBER.search(name)
    return found[0] if found else name


def _of_both(first: _T, other: _T) -> _T:
    """The first, its unknown fields from the second."""
    added = {
        field.name: getattr(other, field.name) for field in fields(first) if getattr(first, field.name) in (None, "")
    }
    return replace(first, **added)


def _ranks_of_nodes(files: Iterable[ReadFile]) -> _Ranks:
    """What rank tables say of the nodes' folders that lie beside them."""
    tables: dict[tuple[_Folders, str], dict[int, int]] = {}
    for file in files:
        for place in file.facts.rank_places:
            tables.setdefault((file.folders, place.node), {})[place.index] = place.rank
    return {
        (file.folders, named.folder): tables.get((file.folders, named.node), {})
        for file in files
        for named in file.facts.node_folders
    }


def _with_ranks(file: ReadFile, ranks: _Ranks) -> ReadFile:
    """A file in a node's folder with the ranks that its cards had; any other file as it is."""
    folders, facts = file.folders, file.facts
    if _CLUSTER not in folders[:-1] or not facts.devices:
        return file
    place = len(folders) - 1 - folders[::-1].index(_CLUSTER)
    known = ranks.get((folders[:place], folders[place + 1]), {}) if place + 1 < len(folders) else {}
    devices = tuple(_with_rank(device, known) for device in facts.devices)
    remarks = facts.remarks if all(device.rank is not None for device in devices) else (*facts.remarks, _NO_TABLE)
    return replace(file, facts=replace(facts, devices=devices, remarks=remarks))


def _with_rank(device: Device, known: Mapping[int, int]) -> Device:
    number = device.rank if device.card.index is None else device.card.index
    if number is None:
        return device
    return replace(device, rank=known.get(number), card=replace(device.card, index=number))
