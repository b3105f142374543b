"""The usual step of a rank, or the whole time if no steps are marked."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from telemetry_exporters.text import first_names
from telemetry_profile.format_contract import Gap, Split, Step
from telemetry_profile.verdict.combine import Member

_FEWEST_FOR_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Usual:
    """The usual step of a member, the mean of `steps` steps; 0 means that the split is of the whole time without `gaps`."""

    member: Member
    steps: int
    split: Split
    compute_ns: tuple[int, ...] = ()  # of each step
    left_out: tuple[str, ...] = ()  # the steps that were not counted, and why
    gaps: tuple[Gap, ...] = ()

    @property
    def own_time_ns(self) -> int | None:
        """Return the time that the rank does not spend waiting for other ranks: its compute, idle and exposed copy time."""
        split = self.split
        if split.compute_ns is None:
            return None
        return split.compute_ns + (split.idle_ns or 0) + (split.exposed_copy_ns or 0)

    @property
    def waiting_ns(self) -> int | None:
        """Return the time in which the card waits for other ranks or its host."""
        split = self.split
        if split.exposed_communication_ns is not None:
            return split.exposed_communication_ns
        if split.wait_ns is not None:
            return split.wait_ns
        if split.span_ns is None or split.compute_ns is None:
            return None
        return split.span_ns - split.compute_ns


def usual_of(member: Member) -> Usual:
    """Return the mean of the complete steps after the warm-up."""
    device = member.device
    means = [step for step in device.steps if step.is_mean]
    kept, left_out = _counted([step for step in device.steps if not step.is_mean])
    if not kept and means:
        return Usual(member, 1, _possible(means[0].split), (), ("only the tool's own mean is in the file",))
    if not kept:
        return _whole(member, left_out)
    measured = [step.name for step in device.steps if step.split.compute_ns is not None]
    if measured and len(measured) < len(kept):
        names = first_names(measured, ", ", 2)
        left_out.append(f"what the card did in other steps than {names}, of which the files say nothing")
    compute = tuple(step.split.compute_ns for step in kept if step.split.compute_ns is not None)
    return Usual(member, len(kept), mean([step.split for step in kept]), compute, tuple(left_out))


def _whole(member: Member, left_out: Sequence[str]) -> Usual:
    """Return the whole time without long gaps and without a first collective that waits for other profilers."""
    device, sentences = member.device, list(left_out)
    split = device.split
    if device.first_collective is not None and (rest := device.without_first_collective()) is not None:
        split = rest
        length = device.first_collective.length_ns / 1e6
        sentences.append(f"the first collective, {length:,.1f} ms (ranks wait in it for each other's profiler)")
    if device.without_gaps is not None:
        launching, rest = device.split.launching_ns, device.limited(device.without_gaps)
        # Not all gaps lie between the first launch and the last.
        least = (launching or 0) - sum(gap.length_ns for gap in device.gaps)
        split = replace(
            rest,
            launches=device.split.launches,
            graph_launches=device.split.graph_launches,
            launching_ns=None if launching is None else max(rest.launching_ns or 0, least),
        )
    return Usual(member, 0, _possible(split), (), tuple(sentences), device.gaps)


def _counted(steps: Sequence[Step]) -> tuple[list[Step], list[str]]:
    """Return the steps that count, and the reasons why others do not."""
    whole = [step for step in steps if not step.is_cut]
    left_out = [f"{step.name} (cut off)" for step in steps if step.is_cut]
    if len(whole) >= _FEWEST_FOR_WARM_UP:
        left_out.insert(0, f"{whole[0].name} (the first: profiler and caches begin)")
        whole = whole[1:]
    return whole, left_out


def mean(splits: Sequence[Split]) -> Split:
    """Return the mean of each part that all splits contain."""
    columns = list(zip(*(split.values() for split in splits), strict=True))
    numbers = [[value for value in column if value is not None] for column in columns]
    means = (round(statistics.fmean(values)) if len(values) == len(splits) else None for values in numbers)
    return _possible(Split(*means))


def _possible(split: Split) -> Split:
    """Return the split without a wait that exceeds the span, which is a sum over streams that wait at the same time."""
    if split.wait_ns is not None and split.span_ns is not None and split.wait_ns > split.span_ns:
        return replace(split, wait_ns=None)
    return split
