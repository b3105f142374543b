"""Which cards of a folder belong to one run of one program: what does not is reported on its own."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry_profile.verdict.combine import Member

_RECENT = 50  # of many files, what lies far apart in time is not compared
_APART_NS = 600 * 10**9  # ranks of one job are profiled within minutes of each other


def runs_of(members: Sequence[Member]) -> tuple[tuple[int, ...], ...]:
    """The places of the members of each run, in the order of the first ones; what one file tells is one run."""
    runs: list[list[int]] = []
    of_files: dict[tuple[str, ...], list[int]] = {}
    for place in sorted(range(len(members)), key=lambda place: members[place].device.begin_ns or 0):
        member = members[place]
        run = of_files.get(member.files)
        if run is None:
            recent = (
                run for run in runs[-_RECENT:] if all(_belong(members[other], member) for other in {run[0], run[-1]})
            )
            run = next(recent, None)
        if run is None:
            run = []
            runs.append(run)
        run.append(place)
        of_files.setdefault(member.files, run)
    return tuple(sorted(tuple(sorted(run)) for run in runs))


def _belong(member: Member, other: Member) -> bool:
    """Whether two cards may have worked on one program at one time, as far as the files tell."""
    device, other_device = member.device, other.device
    if (device.rank is None) != (other_device.rank is None) or (member.job_ranks or other.job_ranks) != (
        other.job_ranks or member.job_ranks
    ):
        return False
    apart = _apart(member, other)
    if apart is None:  # no file tells when it was
        return True
    if device.rank is not None and device.rank != other_device.rank:
        return apart < _APART_NS
    return apart < 0 and device.card.index != other_device.card.index


def _apart(member: Member, other: Member) -> int | None:
    """The time between the two, below 0 where they overlap; None where it is unknown."""
    device, other_device = member.device, other.device
    if member.clock != other.clock or None in (
        device.begin_ns,
        device.end_ns,
        other_device.begin_ns,
        other_device.end_ns,
    ):
        return None
    return max((other_device.begin_ns or 0) - (device.end_ns or 0), (device.begin_ns or 0) - (other_device.end_ns or 0))
