"""Groups the cards by run of a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from telemetry_profile.verdict.combine import Member

_MAX_RUNS = 50  # a card is compared with this many latest runs; earlier runs rarely match
_MAX_GAP_NS = 600 * 10**9  # ranks of one job are profiled within minutes of each other


def runs_of(members: Sequence[Member]) -> tuple[tuple[int, ...], ...]:
    """Return the indices of the members, grouped by run of a program."""
    members = _with_job_folders(members)
    runs: list[list[int]] = []
    run_by_files: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for index in sorted(range(len(members)), key=lambda index: members[index].device.begin_ns or 0):
        member = members[index]
        run = run_by_files.get((member.folder, member.files))
        if run is None:
            matching_runs = (
                run for run in runs[-_MAX_RUNS:] if all(_may_match(members[end], member) for end in {run[0], run[-1]})
            )
            run = next(matching_runs, None)
        if run is None:
            run = []
            runs.append(run)
        run.append(index)
        run_by_files.setdefault((member.folder, member.files), run)
    return tuple(sorted(tuple(sorted(run)) for run in runs))


def _with_job_folders(members: Sequence[Member]) -> list[Member]:
    """Replace each member's folder with the topmost folder above it that may contain only one job."""
    folders = [[member.folder[:depth] for depth in range(len(member.folder) + 1)] for member in members]
    members_below: dict[tuple[str, ...], list[Member]] = {}
    for member, own_folders in zip(members, folders, strict=True):
        for folder in own_folders:
            members_below.setdefault(folder, []).append(member)
    jobs = {folder for folder, members_of_job in members_below.items() if _may_be_one_job(members_of_job)}
    return [
        replace(member, folder=next((folder for folder in own_folders if folder in jobs), member.folder))
        for member, own_folders in zip(members, folders, strict=True)
    ]


def _may_be_one_job(members: Iterable[Member]) -> bool:
    """Return whether each rank, and each card that has no rank, is in only one folder."""
    places = {
        (member.device.rank, member.device.card.index if member.device.rank is None else None, member.folder)
        for member in members
    }
    unranked = [index for rank, index, _ in places if rank is None]
    is_ambiguous = None in unranked and len(unranked) > 1  # a card without an index may be any of the cards
    return not is_ambiguous and len({place[:2] for place in places}) == len(places)


def _may_match(member: Member, other: Member) -> bool:
    """Return whether both members may be from the same run."""
    device, other_device = member.device, other.device
    have_different_sizes = None not in (member.job_ranks, other.job_ranks) and member.job_ranks != other.job_ranks
    if (device.rank is None) != (other_device.rank is None) or have_different_sizes:
        return False
    time_between = _time_between(member, other)
    if time_between is None:  # a file contains no time, or the files use different clocks
        is_same_card = (device.rank, device.card.index) == (other_device.rank, other_device.card.index)
        return member.folder == other.folder and not is_same_card
    if device.rank is not None and device.rank != other_device.rank:
        return time_between < _MAX_GAP_NS
    return time_between < 0 and device.card.index != other_device.card.index


def _time_between(member: Member, other: Member) -> int | None:
    """Return the nanoseconds between two members. The number is negative if they overlap, and None if unknown."""
    begin, end = member.device.begin_ns, member.device.end_ns
    other_begin, other_end = other.device.begin_ns, other.device.end_ns
    if member.clock != other.clock or begin is None or end is None or other_begin is None or other_end is None:
        return None
    return max(other_begin - end, begin - other_end)
