"""Computes the usual step of a rank."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from telemetry_exporters.text import first_names
from telemetry_profile.format_contract import Gap, Split, Step
from telemetry_profile.verdict.combine import Member

_MIN_STEPS_WITH_WARM_UP = 3  # if there are fewer complete steps, the first step is used, too


@dataclass(frozen=True, slots=True)
class UsualStep:
    """The mean of a rank's complete steps or, if there are none, the whole time."""

    member: Member
    step_count: int  # the number of steps in the mean, or 0 if the split covers the whole time
    split: Split
    compute_ns_of_steps: tuple[int, ...] = ()
    left_out: tuple[str, ...] = ()  # texts about excluded steps and collectives, with the reasons
    gaps: tuple[Gap, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the rank or card, such as `rank 3`."""
        device = self.member.device
        if device.rank is not None:
            return f"rank {device.rank}"
        return "a card without a number" if device.card.index is None else f"card {device.card.index}"

    @property
    def own_time_ns(self) -> int | None:
        """Return the time in which the rank does not wait for other ranks, or None if unknown."""
        split = self.split
        if split.compute_ns is None:
            return None
        return split.compute_ns + (split.idle_ns or 0) + (split.exposed_copy_ns or 0)

    @property
    def waiting_ns(self) -> int | None:
        """Return the time in which the card may wait for other ranks or the host, or None if unknown."""
        split = self.split
        if split.exposed_communication_ns is not None:
            return split.exposed_communication_ns
        if split.wait_ns is not None:
            return split.wait_ns
        if split.span_ns is None or split.compute_ns is None:
            return None
        return split.span_ns - split.compute_ns


def comparable_ranks(rank_steps: Sequence[UsualStep]) -> tuple[Sequence[UsualStep], str]:
    """Return the ranks whose times are known, and their names. If all or no times are known, return (all, "")."""
    timed = [step for step in rank_steps if step.split.span_ns and step.split.compute_ns is not None]
    if len(timed) in (0, len(rank_steps)):
        return rank_steps, ""
    return timed, first_names([rank_step.name for rank_step in timed], ", ", 3)


def usual_step_of(member: Member) -> UsualStep:
    """Return the mean of the complete steps or, if there are none, a step for the whole time."""
    device = member.device
    means = [step for step in device.steps if step.is_mean]
    steps, left_out = _usable_steps([step for step in device.steps if not step.is_mean])
    if not steps and means:
        return UsualStep(member, 1, _with_valid_wait(means[0].split), (), ("single steps (only their mean is known)",))
    if not steps:
        return _whole_time_step(member, left_out)
    step_names = [step.name for step in device.steps if step.split.compute_ns is not None]
    if step_names and len(step_names) < len(steps):
        names = first_names(step_names, ", ", 2)
        left_out.append(f"the card's work outside {names} (not in the files)")
    compute = tuple(step.split.compute_ns for step in steps if step.split.compute_ns is not None)
    return UsualStep(member, len(steps), mean_split([step.split for step in steps]), compute, tuple(left_out))


def _whole_time_step(member: Member, left_out: Sequence[str]) -> UsualStep:
    """Return a step that covers the whole time, except long gaps and a long first collective."""
    device, left_out_texts = member.device, list(left_out)
    split = device.split
    if (
        device.first_collective is not None
        and (without_collective := device.split_without_first_collective()) is not None
    ):
        split = without_collective
        length = device.first_collective.length_ns / 1e6
        left_out_texts.append(f"the first collective, {length:,.1f} ms (in which ranks wait until all profilers run)")
    if device.without_gaps is not None:
        launching_ns, without_gaps = device.split.launching_ns, device.known_values_of(device.without_gaps)
        # The result is a lower bound, because some gaps are not part of `launching_ns`.
        min_launching_ns = (launching_ns or 0) - sum(gap.length_ns for gap in device.gaps)
        split = replace(
            without_gaps,
            launches=device.split.launches,
            graph_launches=device.split.graph_launches,
            launching_ns=None if launching_ns is None else max(without_gaps.launching_ns or 0, min_launching_ns),
        )
    return UsualStep(member, 0, _with_valid_wait(split), (), tuple(left_out_texts), device.gaps)


def _usable_steps(steps: Sequence[Step]) -> tuple[list[Step], list[str]]:
    """Return the complete steps after the warm-up, and a text such as `step 9 (cut off)` for each other step."""
    complete_steps = [step for step in steps if not step.is_cut]
    left_out = [f"{step.name} (cut off)" for step in steps if step.is_cut]
    if len(complete_steps) >= _MIN_STEPS_WITH_WARM_UP:
        left_out.insert(0, f"{complete_steps[0].name} (warm-up of profiler and caches)")
        complete_steps = complete_steps[1:]
    return complete_steps, left_out


def mean_split(splits: Sequence[Split]) -> Split:
    """Return a split with the mean of each value that is known in all splits."""
    columns = list(zip(*(split.values() for split in splits), strict=True))
    numbers = [[value for value in column if value is not None] for column in columns]
    means = (round(statistics.fmean(values)) if len(values) == len(splits) else None for values in numbers)
    return _with_valid_wait(Split(*means))


def _with_valid_wait(split: Split) -> Split:
    """Return the split. If the wait time exceeds the span, set the wait time to None."""
    if split.wait_ns is not None and split.span_ns is not None and split.wait_ns > split.span_ns:
        return replace(split, wait_ns=None)  # the wait was summed over concurrent streams
    return split
