"""Finds the cause of a slow step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal, NamedTuple

from telemetry_exporters import human
from telemetry_profile.format_contract import Hint, Kernel
from telemetry_profile.verdict.combine import Profile
from telemetry_profile.verdict.slowest_rank import Straggler, straggler_of
from telemetry_profile.verdict.summary import CardTelemetry
from telemetry_profile.verdict.throttling import Throttling, worst_throttling
from telemetry_profile.verdict.usual_step import UsualStep, comparable_ranks

Cause = Literal[
    "throttled", "straggler", "data", "communication", "copy", "host", "gap", "parallelism", "compute", "unknown"
]

_MIN_SHARE, _MIN_DATA_SHARE = 0.10, 0.05  # causes with smaller shares of a step are not reported
_MIN_KERNELS = 10  # if fewer kernels ran, no cause is reported
_MIN_BLOCKS = 8  # a training card has at least 8 multiprocessors, and each needs a block to work
_MAJORITY = 0.5
ADDED_LATER = {"added_later": True}  # the first version of the document does not have these keys
_EQUAL_RATIO = 0.8  # causes are about equal if the ratio of their shares is at least this number


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible cause of a slow step. `share` is the part of a step that the cause explains. `text` is a sentence."""

    cause: Cause
    share: float | None
    text: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a step is slow: the cause, and a sentence with the measured numbers."""

    cause: Cause
    text: str
    share: float | None = None
    advice: str | None = field(default=None, metadata=ADDED_LATER)
    """A remedy to try."""
    candidates: tuple[Candidate, ...] = field(default=(), metadata=ADDED_LATER)
    """All causes that were found, the largest share first."""

    @property
    def is_slow(self) -> bool:
        """Return whether a cause other than computation was found."""
        return self.cause not in ("compute", "unknown")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The measured values by which the causes of a slow step are found."""

    rank_steps: Sequence[UsualStep]
    hints: Sequence[Hint]
    rank_names: str = ""  # names these ranks in sentences, if the files also contain other ranks

    def total(self, field_name: str) -> int | None:
        """Return the sum of a `Split` field over the ranks, or None if any value is unknown."""
        values = [getattr(rank_step.split, field_name) for rank_step in self.rank_steps]
        return sum(values) if values and None not in values else None

    def ratio(self, field_name: str) -> float | None:
        """Return the sum of a `Split` field as a share of the total step time, or None if unknown."""
        span, length = self.total("span_ns"), self.total(field_name)
        return length / span if span and length is not None else None

    def mean_text(self, field_name: str) -> str:
        """Return the mean of a `Split` field over the ranks, such as `1.2 ms`."""
        return human.short_duration(round((self.total(field_name) or 0) / len(self.rank_steps)))

    @property
    def data_wait_ratio(self) -> float | None:
        """Return the share of the step time in which the card idles and the host waits for data, or None if unknown."""
        waits, idle = self.ratio("data_wait_ns"), self.ratio("idle_ns")
        return waits if waits is None or idle is None else min(waits, idle)

    @property
    def share_suffix(self) -> str:
        """Return the words that follow a percentage in sentences, such as `of the step`."""
        gaps = [gap for rank_step in self.rank_steps for gap in rank_step.gaps]
        has_steps = any(rank_step.step_count for rank_step in self.rank_steps)
        span = f"{'of the step' if has_steps else 'of the time'}{self.rank_names and f' of {self.rank_names}'}"
        if has_steps or not gaps:
            return span
        longest = max(gaps, key=lambda gap: gap.length_ns)
        longest_text = f"{human.short_duration(longest.length_ns)} at {human.short_duration(longest.offset_ns)}"
        total_text = human.short_duration(sum(gap.length_ns for gap in gaps))
        gaps_text = f"{len(gaps)} idle gaps totalling {total_text} (the longest: {longest_text})"
        return f"{span} outside {gaps_text if len(gaps) > 1 else f'1 idle gap of {longest_text}'}"

    @property
    def kernels(self) -> list[Kernel]:
        """Return the kernels that compute or communicate, without copies and waits."""
        kernels = (kernel for rank_step in self.rank_steps for kernel in rank_step.member.device.kernels)
        return [kernel for kernel in kernels if kernel.work not in ("copy", "wait")]

    @property
    def copy_count(self) -> int:
        """Return the total number of copies on all cards."""
        kernels = (kernel for rank_step in self.rank_steps for kernel in rank_step.member.device.kernels)
        return sum(kernel.calls for kernel in kernels if kernel.work == "copy")

    @property
    def small_kernel_time_ratio(self) -> float | None:
        """Return the share of the steps in kernels with few blocks, or None if below half of the compute time."""
        compute, kernels = self.ratio("compute_ns"), [kernel for kernel in self.kernels if kernel.work == "compute"]
        total_ns = sum(kernel.total_ns for kernel in kernels)
        small_ns = sum(kernel.total_ns for kernel in kernels if _has_few_blocks(kernel))
        return compute * small_ns / total_ns if compute and total_ns and small_ns / total_ns >= _MAJORITY else None


class _CauseRule(NamedTuple):
    """A rule that finds a cause. The cause is a candidate if its share of the step is at least `min_share`."""

    cause: Cause
    min_share: float
    share: Callable[[Evidence], float | None]
    sentence: Callable[[Evidence, float], str]
    advice: Callable[[Evidence], str]


def _idle_ratio_without_data_wait(evidence: Evidence, *, in_gaps: bool) -> float | None:
    """Return the share of idle time without a wait for data. `in_gaps` selects long gaps or the time outside of them."""
    idle = evidence.ratio("idle_ns")
    if idle is None:
        return None
    gap, data_wait = min(evidence.ratio("gap_ns") or 0.0, idle), evidence.data_wait_ratio or 0.0
    return max(0.0, gap - data_wait) if in_gaps else idle - gap - max(0.0, data_wait - gap)


def _data_sentence(evidence: Evidence, share: float) -> str:
    loader_text = f"the data loader takes {evidence.mean_text('data_wait_ns')} of {evidence.mean_text('span_ns')}"
    idle = evidence.ratio("idle_ns")
    if idle is None:
        return f"{loader_text}, {human.percent(share)} {evidence.share_suffix}"
    return f"the card waits for {human.percent(idle)} {evidence.share_suffix}; {loader_text}"


def _largest_data_hint(evidence: Evidence) -> Hint | None:
    """Return the data hint with the largest share, or None if the wait for data was measured."""
    if evidence.total("data_wait_ns") is not None:
        return None
    hints = (hint for hint in evidence.hints if hint.cause == "data")
    return max(hints, key=lambda hint: hint.share or 0.0, default=None)


def _data_hint_share(evidence: Evidence) -> float | None:
    hint = _largest_data_hint(evidence)
    return None if hint is None else hint.share or _MIN_DATA_SHARE


def _data_hint_sentence(evidence: Evidence, _share: float) -> str:
    hint = _largest_data_hint(evidence)
    return hint.text if hint else ""


def _communication_sentence(evidence: Evidence, share: float) -> str:
    waiting = f", including {evidence.mean_text('wait_ns')} of waiting for ranks" if evidence.total("wait_ns") else ""
    return f"communication without overlapping compute takes {human.percent(share)} {evidence.share_suffix}{waiting}"


def _communication_advice(evidence: Evidence) -> str:
    if len(evidence.rank_steps) > 1 or evidence.total("wait_ns"):
        return "overlap communication with compute, or communicate less often with larger buckets or a larger batch"
    return "profile the other ranks, too: a single rank does not show whether it transfers data or waits for others"


def _host_sentence(evidence: Evidence, share: float) -> str:
    launches, graphs = evidence.total("launches") or 0, evidence.total("graph_launches") or 0
    text = f"the host keeps the card waiting for {human.percent(share)} {evidence.share_suffix}"
    launching_ns = evidence.total("launching_ns")
    if launching_ns is None or launches < _MIN_KERNELS * len(evidence.rank_steps):
        return text
    interval_ns = round(launching_ns / (launches - len(evidence.rank_steps)))
    busy_ns = round(((evidence.total("span_ns") or 0) - (evidence.total("idle_ns") or 0)) / launches)
    if interval_ns <= busy_ns:  # launches keep up with the card
        return text
    of_graphs = f" ({graphs:,} are graphs)" if graphs else ""
    return f"{text}: launches are {human.short_duration(interval_ns)} apart{of_graphs}, but each keeps the card busy for only {human.short_duration(busy_ns)}"


def _gap_sentence(evidence: Evidence, share: float) -> str:
    gap_count = max(1, round((evidence.total("gaps") or 0) / len(evidence.rank_steps)))
    count_text = "1 gap" if gap_count == 1 else f"{gap_count} gaps, together"
    return f"nothing runs for {human.percent(share)} {evidence.share_suffix}, in {count_text} of {evidence.mean_text('gap_ns')}"


def _small_kernels_sentence(evidence: Evidence, share: float) -> str:
    largest = max(filter(_has_few_blocks, evidence.kernels), key=lambda kernel: kernel.total_ns)
    block_count = _block_count(largest) or 1
    count_text = "1 block" if block_count == 1 else f"{block_count} blocks"
    return (
        f"kernels such as {largest.name[:60]} ({count_text}) have too few blocks to fill the card; "
        f"they take {human.percent(share)} {evidence.share_suffix}"
    )


_FUSED_SENTENCE = "kernels that communicate and compute at once take {share} {share_suffix}; the files do not show whether communication or computation takes longer"

_RULES = (
    _CauseRule("parallelism", _MIN_SHARE, lambda evidence: evidence.small_kernel_time_ratio, _small_kernels_sentence,
         lambda _: "launch more blocks, or more work at once"),
    _CauseRule("data", _MIN_DATA_SHARE, lambda evidence: evidence.data_wait_ratio, _data_sentence,
         lambda evidence: f"use more workers in the data loader, which takes {evidence.mean_text('data_wait_ns')} of {evidence.mean_text('span_ns')}"),
    _CauseRule("data", _MIN_DATA_SHARE, _data_hint_share, _data_hint_sentence, lambda _: "try more workers in the data pipeline"),
    _CauseRule("communication", _MIN_SHARE, lambda evidence: evidence.ratio("exposed_communication_ns"), _communication_sentence,
         _communication_advice),
    _CauseRule("communication", _MIN_SHARE, lambda evidence: evidence.ratio("fused_ns"),
         lambda evidence, share: _FUSED_SENTENCE.format(share=human.percent(share), share_suffix=evidence.share_suffix),
         lambda _: "compare this step with a step without fused kernels, or with the other ranks"),
    _CauseRule("copy", _MIN_SHARE, lambda evidence: evidence.ratio("exposed_copy_ns"),
         lambda evidence, share: f"copies without overlapping work take {human.percent(share)} {evidence.share_suffix}",
         lambda _: "pin the host's memory and copy asynchronously, or keep the data on the card"),
    _CauseRule("gap", _MIN_SHARE, lambda evidence: _idle_ratio_without_data_wait(evidence, in_gaps=True), _gap_sentence,
         lambda _: "check what the program does in these gaps, such as checkpoints, evaluation, logging, or waiting for a result"),
    _CauseRule("host", _MIN_SHARE, lambda evidence: _idle_ratio_without_data_wait(evidence, in_gaps=False), _host_sentence,
         lambda _: "launch less often, for example with graphs, a compiled model, or a larger batch"),
)  # fmt: skip


def verdict_of(profile: Profile, rank_steps: Sequence[UsualStep], telemetry: Sequence[CardTelemetry | None]) -> Verdict:
    """Return the verdict. Causes outside of the program, such as a straggler, take precedence."""
    compared, names = comparable_ranks(rank_steps)
    straggler = straggler_of(compared)
    telemetry_by_id = {id(rank_step): card for rank_step, card in zip(rank_steps, telemetry, strict=True)}
    throttling = worst_throttling(compared, [telemetry_by_id[id(rank_step)] for rank_step in compared], straggler)
    evidence = Evidence(compared, profile.hints, names)
    candidates = candidates_of(evidence)
    external = _external_cause(throttling, straggler, candidates)
    if external is not None:
        return Verdict(external.cause, external.text, external.share, external.advice, (external, *candidates))
    if not candidates:
        return _unclear_verdict(evidence) or _verdict_without_cause(evidence, profile)
    has_few_copies = candidates[0].cause == "copy" and not evidence.kernels and evidence.copy_count < _MIN_KERNELS
    is_unsure = candidates[0].cause in ("host", "gap") or has_few_copies
    return (_unclear_verdict(evidence) if is_unsure else None) or _largest_cause_verdict(candidates)


def candidates_of(evidence: Evidence) -> tuple[Candidate, ...]:
    """Return all causes within the program that the evidence supports, the largest share first."""
    shares = [(rule, rule.share(evidence)) for rule in _RULES]
    candidates = [
        Candidate(rule.cause, share, rule.sentence(evidence, share), rule.advice(evidence))
        for rule, share in shares
        if share is not None and share >= rule.min_share
    ]
    return tuple(sorted(candidates, key=lambda candidate: -(candidate.share or 0.0)))


def _external_cause(
    throttling: Throttling | None, straggler: Straggler | None, candidates: Sequence[Candidate]
) -> Candidate | None:
    """Return a throttled card or a straggler as the cause, or None if there is neither."""
    largest_share = max((candidate.share or 0.0 for candidate in candidates), default=0.0)
    if throttling and (not throttling.is_by_power_limit or straggler or throttling.loss >= largest_share):
        return Candidate("throttled", throttling.share, throttling.text, throttling.advice)
    if straggler is None:
        return None
    return Candidate("straggler", straggler.excess / (1.0 + straggler.excess), straggler.text, straggler.advice)


def _largest_cause_verdict(candidates: Sequence[Candidate]) -> Verdict:
    """Return a verdict for the largest cause, which also names other causes of about the same size."""
    largest = candidates[0]
    min_share = _EQUAL_RATIO * (largest.share or 0.0)
    others = [other for other in candidates if other.cause != largest.cause and (other.share or 0.0) >= min_share]
    if not others:
        return Verdict(largest.cause, largest.text, largest.share, largest.advice, tuple(candidates))
    text = f"several causes take about the same time: {'; '.join(cause.text for cause in (largest, *others))}"
    return Verdict(largest.cause, text, largest.share, largest.advice, tuple(candidates))


def _unclear_verdict(evidence: Evidence) -> Verdict | None:
    """Return an "unknown" verdict if too few kernels ran to find a cause."""
    kernels, span = sum(kernel.calls for kernel in evidence.kernels), evidence.total("span_ns")
    launches = sum(rank_step.member.device.split.launches or 0 for rank_step in evidence.rank_steps)
    if not span or evidence.ratio("idle_ns") is None or (evidence.ratio("compute_ns") or 0.0) >= _MAJORITY:
        return None
    if launches >= _MIN_KERNELS and kernels < launches * _MAJORITY:
        text = f"only {kernels:,} of {launches:,} launched kernels ran, so the files probably show the capture of a graph, but not its execution"
        return Verdict("unknown", text, None, "profile the replay of the graph")
    if kernels < _MIN_KERNELS:
        count, names = (kernels, ("kernel", "kernels")) if kernels else (evidence.copy_count, ("copy", "copies"))
        text = f"only {count} {names[count != 1]} ran in {evidence.mean_text('span_ns')}: too few to find a cause"
        return Verdict("unknown", text)
    return None


def _verdict_without_cause(evidence: Evidence, profile: Profile) -> Verdict:
    compute = evidence.ratio("compute_ns")
    if compute is not None:
        share = f"{human.percent(compute)} {evidence.share_suffix}"
        if evidence.total("idle_ns") is None:
            return Verdict("unknown", f"kernels run for {share}; the files contain no other activity", compute)
        return Verdict("compute", f"the card computes for {share}", compute)
    if any(rank_step.member.device.kernels for rank_step in evidence.rank_steps):
        if evidence.total("span_ns"):
            return Verdict("unknown", "the files do not show what the card did in each step")
        return Verdict("unknown", "the files contain only each kernel's total time, and not the time between kernels")
    if profile.calls:
        return Verdict("unknown", "the files contain only host calls, and no card activity")
    return Verdict("unknown", "the files contain no card activity")


def _block_count(kernel: Kernel) -> int | None:
    sizes = kernel.grid.split("×")
    return prod(int(size[:9]) for size in sizes) if all(size.isdecimal() for size in sizes) else None


def _has_few_blocks(kernel: Kernel) -> bool:
    blocks = _block_count(kernel)
    return kernel.work == "compute" and blocks is not None and 0 < blocks < _MIN_BLOCKS
