"""Combines the content of many files into one member per rank and card."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import takewhile
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
)

# Folders within the results of one profiler run. Their files belong to the results in the folder above.
_INNER_FOLDER = re.compile(
    r"(timeline|summary|sqlite|host|data|analyze|device_\d+|PROF_\w+|ASCEND_PROFILER_OUTPUT|mindstudio_profiler_output)\Z"
)
# rocprof's file names begin with a process name, as in `NAME_kernel_stats.csv` and `NAME.copy_stats.csv`.
_PROCESS = re.compile(r"(.+?)_(?:kernel|memory|domain|\w+_api|counter|results)[_.]|([^.]+)\.(?:\w*stats\.csv|json|db)")
_WHOLE_PROGRAM_FORMAT = "sums-csv"  # in this format, a single file contains all kernels of a program
_NUMBER = re.compile(r"\d+\Z")
_CardOrSplit = TypeVar("_CardOrSplit", Card, Split)
# MindSpore up to 1.3 numbers files in `cluster_profiler/ALIAS/profiler/…` by card, not by rank.
_CLUSTER = "cluster_profiler"
_Folders = tuple[str, ...]
# For each (folder above `cluster_profiler`, node alias): the node's ranks by card number.
_RanksByNode = Mapping[tuple[_Folders, str], Mapping[int, int]]
_NO_RANK_TABLE = f"some ranks are unknown, because there is no rank table or host_ips_mapping.txt next to {_CLUSTER}"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The content of a file, with the names of the file and its folders."""

    folders: tuple[str, ...]
    name: str
    facts: Facts


@dataclass(frozen=True, slots=True)
class Member:
    """One device of a rank, combined from all files about this device."""

    device: Device
    tool: str
    formats: tuple[str, ...]
    clock: Clock = "none"
    begin_unix_ns: int | None = None
    end_unix_ns: int | None = None
    files: tuple[str, ...] = ()
    job_ranks: int | None = None
    folder: tuple[str, ...] = ()  # not for documents, because folders may name a host or a user


@dataclass(frozen=True, slots=True)
class Profile:
    """The combined content of all files."""

    members: tuple[Member, ...]
    job_ranks: int | None
    links: tuple[Link, ...]
    calls: tuple[Call, ...]
    hints: tuple[Hint, ...]
    remarks: tuple[str, ...]
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _DeviceInFile:
    """The results that one file contains about one device."""

    result_folder: tuple[str, ...]
    file: FileFacts
    device: Device


def combine(files: Sequence[FileFacts]) -> Profile:
    """Combine the files into a profile, with members sorted by rank and card."""
    ranks = _ranks_by_node(files)
    files = [_with_ranks(file, ranks) for file in files]
    remarks: list[str] = [remark for file in files for remark in file.facts.remarks]
    parts = [_DeviceInFile(_result_folder(file), file, device) for file in files for device in file.facts.devices]
    _set_missing_ranks(parts)
    members = [_merge_parts(session, remarks) for group in _group_by_card(parts) for session in _sessions(group)]
    members_with_content = [member for member in members if _has_content(member.device)]
    job_sizes = [file.facts.job_ranks for file in files if file.facts.job_ranks]
    return Profile(
        members=tuple(sorted(members_with_content, key=_member_sort_key)),
        job_ranks=max(job_sizes, default=None),
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


def _member_sort_key(member: Member) -> tuple[bool, int, bool, int, int]:
    rank, index = member.device.rank, member.device.card.index
    return rank is None, rank or 0, index is None, index or 0, member.device.begin_ns or 0


def _has_content(device: Device) -> bool:
    """Return whether a device has measured values, not just a card and a rank."""
    return bool(device.split != Split() or device.steps or device.kernels or device.flops)


def _links(files: Iterable[FileFacts], parts: Iterable[_DeviceInFile]) -> tuple[Link, ...]:
    """Return the links of all files without duplicates. THIS_RANK is replaced by the rank of the link's file."""
    ranks = {id(part.file): part.device.rank for part in parts if part.device.rank is not None}
    return tuple(
        dict.fromkeys(
            replace(link, source=str(ranks.get(id(file), THIS_RANK))) if link.source == THIS_RANK else link
            for file in files
            for link in file.facts.links
        )
    )


def _group_by_card(parts: Sequence[_DeviceInFile]) -> list[list[_DeviceInFile]]:
    groups: dict[tuple[object, ...], list[_DeviceInFile]] = {}
    indices_by_key: dict[tuple[object, ...], set[int]] = {}
    parts_and_keys = list(zip(parts, _rank_keys(parts), strict=True))
    for part, rank_key in parts_and_keys:
        if part.device.card.index is not None:
            indices_by_key.setdefault(rank_key, set()).add(part.device.card.index)
    for part, rank_key in parts_and_keys:
        # If a rank has at most one card number, the rank's parts without a card number belong to that card.
        index = part.device.card.index if len(indices_by_key.get(rank_key, ())) > 1 else None
        groups.setdefault((*rank_key, index), []).append(part)
    return list(groups.values())


def _rank_keys(parts: Iterable[_DeviceInFile]) -> Iterator[tuple[object, ...]]:
    """Yield a key for each part: the rank and, if several jobs may have this rank, the part's folder."""
    untimed = (part for part in parts if part.device.begin_ns is None and _has_content(part.device))
    results = {
        (part.device.rank, part.file.facts.format, work, part.result_folder)
        for part in untimed
        for work in [str(kernel.work) for kernel in part.device.kernels] or [""]
    }
    # If several folders have untimed results for the same rank, format and kind of work, these are separate jobs.
    counts = Counter(result[:3] for result in results)
    repeated_ranks = {None, *(rank for (rank, _, _), count in counts.items() if count > 1)}
    for part in parts:
        yield part.device.rank, part.result_folder if part.device.rank in repeated_ranks else ()


def _sessions(group: list[_DeviceInFile]) -> Iterator[list[_DeviceInFile]]:
    """Group the parts of a card by session. The latest session comes first."""
    sessions: list[list[_DeviceInFile]] = []
    timed = [part for part in group if part.device.begin_ns is not None]
    for part in sorted(timed, key=lambda part: -(part.device.begin_ns or 0)):
        session = next((session for session in sessions if _belongs_to(part, session)), None)
        # If the latest session has no file of the same format yet, the file belongs to that session.
        latest_formats = {other.file.facts.format for other in (sessions[0] if sessions else ())}
        if not session and sessions and part.file.facts.format not in latest_formats:
            session = sessions[0]
        if session is None:
            sessions.append([part])
        else:
            session.append(part)
    programs: list[list[_DeviceInFile]] = [[]]
    for part in (part for part in group if part.device.begin_ns is None):
        matching = (program for program in programs if not any(_is_of_other_program(part, other) for other in program))
        program = next(matching, None)
        if program is None:
            programs.append([part])
        else:
            program.append(part)
    yield [*(_join_consecutive(sessions[0]) if sessions else ()), *programs[0]]
    yield from map(_join_consecutive, sessions[1:])
    yield from programs[1:]


def _is_of_other_program(part: _DeviceInFile, other: _DeviceInFile) -> bool:
    """Return whether the parts are from different programs: files of the same kind with different totals."""
    totals = [sum(kernel.total_ns for kernel in item.device.kernels if kernel.work != "copy") for item in (part, other)]
    has_other_total = all(totals) and max(totals) - min(totals) > max(totals) // 50
    return has_other_total and _file_kind(part.file) == _file_kind(other.file)


def _file_kind(file: FileFacts) -> tuple[object, ...]:
    # Other formats spread a program over several files, such as `aicore_intermediate_0_type.csv` and `aicpu_…`.
    name = "" if file.facts.format == _WHOLE_PROGRAM_FORMAT else re.sub(r"\d+", "", file.name)
    return file.facts.format, file.folders, name


def _belongs_to(part: _DeviceInFile, session: Iterable[_DeviceInFile]) -> bool:
    return any(_overlaps(part, other) or _is_continued_by(part, other) for other in session)


def _overlaps(part: _DeviceInFile, later: _DeviceInFile) -> bool:
    return part.file.facts.clock == later.file.facts.clock and (later.device.begin_ns or 0) <= (part.device.end_ns or 0)


def _is_continued_by(part: _DeviceInFile, later: _DeviceInFile) -> bool:
    """Return whether `later` contains the next steps of the session that `part` is from."""
    device, later_device = part.device, later.device
    if part.file.facts.format != later.file.facts.format or part.file.folders != later.file.folders:
        return False
    is_near = (later_device.begin_ns or 0) - (device.end_ns or 0) <= (device.split.span_ns or 0)
    step_numbers = {_step_number(step.name) for step in device.steps}
    later_numbers = {_step_number(step.name) for step in later_device.steps}
    return bool(step_numbers and later_numbers) and is_near and step_numbers.isdisjoint(later_numbers)


def _join_consecutive(session: list[_DeviceInFile]) -> list[_DeviceInFile]:
    """Join those parts of a session that have the same format and follow each other in time."""
    joined: dict[str, _DeviceInFile] = {}
    others = []
    for part in sorted(session, key=lambda part: part.device.begin_ns or 0):
        previous = joined.get(part.file.facts.format)
        if previous is None:
            joined[part.file.facts.format] = part
        elif not _overlaps(previous, part) and _is_continued_by(previous, part):
            joined[part.file.facts.format] = replace(previous, device=previous.device.extended_by(part.device))
        else:
            others.append(part)
    return [*joined.values(), *others]


def _set_missing_ranks(parts: Sequence[_DeviceInFile]) -> None:
    """Set the missing ranks in folders with exactly one known rank."""
    ranks: dict[tuple[str, ...], set[int]] = {}
    for part in parts:
        if part.device.rank is not None:
            ranks.setdefault(part.result_folder, set()).add(part.device.rank)
    for part in parts:
        folder_ranks = ranks.get(part.result_folder, set())
        if part.device.rank is None and len(folder_ranks) == 1:
            part.device = replace(part.device, rank=next(iter(folder_ranks)))


def _result_folder(file: FileFacts) -> tuple[str, ...]:
    folders = list(file.folders)
    while folders and _INNER_FOLDER.match(folders[-1]):
        folders.pop()
    name = file.name.rpartition("/")[2]
    if (file.facts.format, file.facts.tool) == ("runs-csv", "rocprof"):  # `a.csv` belongs to `a.stats.csv`
        name = name.replace(".csv", ".stats.csv")
    match = _PROCESS.match(name) if file.facts.tool.startswith("rocprof") else None
    return (*folders, *filter(None, match.groups() if match else ()))


def _merge_parts(parts: list[_DeviceInFile], remarks: list[str]) -> Member:
    parts = _latest_parts(sorted(parts, key=_detail_key, reverse=True), remarks)
    best_part = parts[0]
    device = best_part.device
    for part in parts[1:]:
        device = _fill_device(device, part.device)
    offsets = [part.file.facts.boot_to_unix_ns for part in parts if part.file.facts.boot_to_unix_ns is not None]
    begin, end = _unix_time(best_part, device.begin_ns, offsets), _unix_time(best_part, device.end_ns, offsets)
    formats = tuple(dict.fromkeys(part.file.facts.format for part in parts))
    job_sizes = [part.file.facts.job_ranks for part in parts if part.file.facts.job_ranks]
    # Folders are left out, because their names may contain a host or a user.
    files = tuple(dict.fromkeys(part.file.name.rpartition("/")[2] for part in parts))
    facts = best_part.file.facts
    # The folders below `cluster_profiler` are nodes of one job.
    folder = tuple(takewhile(lambda name: name != _CLUSTER, best_part.result_folder))
    return Member(device, facts.tool, formats, facts.clock, begin, end, files, max(job_sizes, default=None), folder)


def _latest_parts(parts: list[_DeviceInFile], remarks: list[str]) -> list[_DeviceInFile]:
    """Return the latest part of each format, and the parts without times. Add a remark for each dropped part."""
    latest_by_format: dict[str, _DeviceInFile] = {}
    for part in (part for part in parts if part.device.begin_ns is not None):
        latest = latest_by_format.setdefault(part.file.facts.format, part)
        if latest is not part:
            name = "a card" if latest.device.rank is None else f"rank {latest.device.rank}"
            remarks.append(f"{part.file.facts.tool} wrote several results for {name}; only the latest is shown")
            if (part.device.begin_ns or 0) > (latest.device.begin_ns or 0):
                latest_by_format[part.file.facts.format] = part
    return [part for part in parts if part.device.begin_ns is None or latest_by_format[part.file.facts.format] is part]


def _detail_key(part: _DeviceInFile) -> tuple[bool, bool, bool, int, int]:
    """Return a sort key, which is greater for more detailed parts."""
    device = part.device
    known_values = sum(value is not None for value in device.split.values())
    has_stated_span = any(_is_span_stated(step.split) for step in device.steps)
    return device.begin_ns is not None, bool(device.steps), has_stated_span, known_values, len(device.kernels)


def _is_span_stated(split: Split) -> bool:
    """Return whether the file states the span, so that the span is not just the sum of its parts."""
    parts = (split.compute_ns, split.exposed_communication_ns, split.exposed_copy_ns, split.idle_ns)
    return split.span_ns is not None and split.span_ns != sum(part or 0 for part in parts)


def _unix_time(part: _DeviceInFile, time: int | None, offsets: Sequence[int]) -> int | None:
    usable_offsets = {"unix": [0], "boot": offsets, "none": []}[part.file.facts.clock]
    return time + usable_offsets[0] if time is not None and usable_offsets else None


def _fill_device(device: Device, other: Device) -> Device:
    return replace(
        device,
        card=_fill_unknown(device.card, other.card),
        rank=other.rank if device.rank is None else device.rank,
        split=_fill_unknown(device.split, other.split) if _spans_agree(device.split, other.split) else device.split,
        steps=_combined_steps(device, other),
        kernels=_combined_kernels(device, other),
        flops=device.flops or other.flops,
        dtype=device.dtype or other.dtype,
    )


def _combined_kernels(device: Device, other: Device) -> tuple[Kernel, ...]:
    """Return the kernels of `device`, and those kernels of `other` whose kind of work is missing in `device`."""
    covered_work = {kernel.work for kernel in device.kernels}
    return (*device.kernels, *(kernel for kernel in other.kernels if kernel.work not in covered_work))


def _spans_agree(split: Split, other: Split) -> bool:
    return split.span_ns is None or other.span_ns is None or abs(split.span_ns - other.span_ns) <= split.span_ns // 50


def _combined_steps(device: Device, other: Device) -> tuple[Step, ...]:
    """Return the steps of `device`, with unknown values filled from `other`."""
    if not device.steps:
        return other.steps
    other_splits = {_step_number(step.name): step.split for step in other.steps}
    filled = []
    for step in device.steps:
        other_split = other_splits.get(_step_number(step.name), step.split)
        agrees = _spans_agree(step.split, other_split)
        filled.append(replace(step, split=_fill_unknown(step.split, other_split)) if agrees else step)
    if device.begin_ns is None or other.begin_ns is None:
        return tuple(filled)
    own_numbers = {_step_number(step.name) for step in device.steps}
    return (*filled, *(step for step in other.steps if _step_number(step.name) not in own_numbers))


def _step_number(name: str) -> str:
    """Return the number at the end of a step name such as `step 12`."""
    match = _NUMBER.search(name)
    return match[0] if match else name


def _fill_unknown(base: _CardOrSplit, other: _CardOrSplit) -> _CardOrSplit:
    replacements = {
        field.name: getattr(other, field.name) for field in fields(base) if getattr(base, field.name) in (None, "")
    }
    return replace(base, **replacements)


def _ranks_by_node(files: Iterable[FileFacts]) -> _RanksByNode:
    """Return the ranks of each node's cards, found by the node's folder."""
    tables: dict[tuple[_Folders, str], dict[int, int]] = {}
    for file in files:
        for card in file.facts.rank_cards:
            tables.setdefault((file.folders, card.node), {})[card.index] = card.rank
    return {
        (file.folders, node_folder.folder): tables.get((file.folders, node_folder.node), {})
        for file in files
        for node_folder in file.facts.node_folders
    }


def _with_ranks(file: FileFacts, ranks: _RanksByNode) -> FileFacts:
    """Return the file with the ranks of its devices, which MindSpore's cluster files identify by card number."""
    folders, facts = file.folders, file.facts
    if _CLUSTER not in folders[:-1] or not facts.devices:
        return file
    index = len(folders) - 1 - folders[::-1].index(_CLUSTER)
    rank_by_card = ranks.get((folders[:index], folders[index + 1]), {}) if index + 1 < len(folders) else {}
    devices = tuple(_with_card_number_and_rank(device, rank_by_card) for device in facts.devices)
    remarks = facts.remarks if all(device.rank is not None for device in devices) else (*facts.remarks, _NO_RANK_TABLE)
    return replace(file, facts=replace(facts, devices=devices, remarks=remarks))


def _with_card_number_and_rank(device: Device, rank_by_card: Mapping[int, int]) -> Device:
    card_number = device.rank if device.card.index is None else device.card.index
    if card_number is None:
        return device
    return replace(device, rank=rank_by_card.get(card_number), card=replace(device.card, index=card_number))
