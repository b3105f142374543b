"""The cause of a slow step, from a table of causes. Causes outside the program take precedence: a throttled card, a straggler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal, NamedTuple

from telemetry_exporters import human
from telemetry_profile.format_contract import Hint, Kernel
from telemetry_profile.verdict.combine import Profile
from telemetry_profile.verdict.held_back import HeldBack, most_held_back
from telemetry_profile.verdict.slowest_rank import Straggler, straggler_of
from telemetry_profile.verdict.summary import Then
from telemetry_profile.verdict.usual_step import Usual

Cause = Literal[
    "throttled", "straggler", "data", "communication", "copy", "host", "gap", "parallelism", "compute", "unknown"
]

_LEAST_PART, _LEAST_DATA = 0.10, 0.05  # the smallest shares of a step that are reported
_FEW_KERNELS = 10  # fewer kernels allow no conclusion
_FEW_BLOCKS = 8  # no card for training has fewer multiprocessors
_MOSTLY = 0.5
ADDED_LATER = {"added_later": True}  # keys that the first version of the document did not have
_ABOUT_EQUAL = 0.8


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cause that the evidence shows: its share of a step, a sentence, and a remedy."""

    cause: Cause
    share: float | None
    text: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a step is slow: the cause, and a sentence with its numbers."""

    cause: Cause
    text: str
    share: float | None = None
    advice: str | None = field(default=None, metadata=ADDED_LATER)
    """A remedy to try."""
    candidates: tuple[Candidate, ...] = field(default=(), metadata=ADDED_LATER)
    """All causes that the evidence shows, the largest first."""

    @property
    def is_slow(self) -> bool:
        """Return whether there is another cause than the work itself."""
        return self.cause not in ("compute", "unknown")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The work of the ranks, as sums over all ranks."""

    ranks: Sequence[Usual]
    hints: Sequence[Hint]

    def total(self, part: str) -> int | None:
        """Return the sum over the ranks; None if it is unknown for any rank."""
        values = [getattr(rank.split, part) for rank in self.ranks]
        return sum(values) if values and None not in values else None

    def ratio(self, part: str) -> float | None:
        """Return the share of a part in a step; None if it is unknown."""
        span, length = self.total("span_ns"), self.total(part)
        return length / span if span and length is not None else None

    def mean(self, part: str) -> str:
        """Return the mean length of a part in words."""
        return human.short_duration(round((self.total(part) or 0) / len(self.ranks)))

    @property
    def data_ratio(self) -> float | None:
        """Return the share of a step in which the card waits for data, at most the share in which it is idle."""
        waits, idle = self.ratio("data_wait_ns"), self.ratio("idle_ns")
        return waits if waits is None or idle is None else min(waits, idle)

    @property
    def of_span(self) -> str:
        """Return the words for the time of which shares are."""
        gaps = [gap for rank in self.ranks for gap in rank.gaps]
        if any(rank.steps for rank in self.ranks) or not gaps:
            return "of the step" if any(rank.steps for rank in self.ranks) else "of the time"
        longest = max(gaps, key=lambda gap: gap.length_ns)
        length = f"of {human.short_duration(longest.length_ns)} at {human.short_duration(longest.since_ns)}"
        together = human.short_duration(sum(gap.length_ns for gap in gaps))
        which = f"{len(gaps)} idle gaps totalling {together} (the longest {length})"
        return f"of the time outside {which if len(gaps) > 1 else f'1 idle gap {length}'}"

    @property
    def kernels(self) -> list[Kernel]:
        """Return the kernels without copies and waits."""
        works = ("compute", "communication", "fused")
        return [kernel for rank in self.ranks for kernel in rank.member.device.kernels if kernel.work in works]

    @property
    def copies(self) -> int:
        """Return the number of copies."""
        kernels = (kernel for rank in self.ranks for kernel in rank.member.device.kernels)
        return sum(kernel.calls for kernel in kernels if kernel.work == "copy")

    @property
    def small_ratio(self) -> float | None:
        """Return the share of a step of kernels with few blocks; None if that is not most of the computation."""
        compute, kernels = self.ratio("compute_ns"), [kernel for kernel in self.kernels if kernel.work == "compute"]
        whole = sum(kernel.total_ns for kernel in kernels)
        small = sum(kernel.total_ns for kernel in kernels if _is_small(kernel))
        return compute * small / whole if compute and whole and small / whole >= _MOSTLY else None


class _Row(NamedTuple):
    """A cause: its smallest reported share, its share, its sentence and its remedy."""

    cause: Cause
    least: float
    share: Callable[[Evidence], float | None]
    words: Callable[[Evidence, float], str]
    advice: Callable[[Evidence], str]


def _idle_without_data(evidence: Evidence, *, in_gaps: bool) -> float | None:
    idle, gap = evidence.ratio("idle_ns"), evidence.ratio("gap_ns") or 0.0
    if idle is None:
        return None
    # A wait for data is part of a long gap if there is one.
    gap, data = min(gap, idle), evidence.data_ratio or 0.0
    return max(0.0, gap - data) if in_gaps else idle - gap - max(0.0, data - gap)


def _data_words(evidence: Evidence, share: float) -> str:
    took = f"the data loader takes {evidence.mean('data_wait_ns')} of {evidence.mean('span_ns')}"
    idle = evidence.ratio("idle_ns")
    if idle is None:
        return f"{took}, {human.percent(share)} {evidence.of_span}"
    return f"the card waits {human.percent(idle)} {evidence.of_span}; {took}"


def _hinted(evidence: Evidence) -> Hint | None:
    """Return the largest hint of slow data; None if the wait for data was measured, which shows more."""
    if evidence.total("data_wait_ns") is not None:
        return None
    hints = (hint for hint in evidence.hints if hint.cause == "data")
    return max(hints, key=lambda hint: hint.share or 0.0, default=None)


def _hint_share(evidence: Evidence) -> float | None:
    hint = _hinted(evidence)
    return None if hint is None else hint.share or _LEAST_DATA


def _hint_words(evidence: Evidence, _share: float) -> str:
    hint = _hinted(evidence)
    return hint.text if hint else ""


def _communication_words(evidence: Evidence, share: float) -> str:
    waiting = f", of which {evidence.mean('wait_ns')} are waiting for other ranks" if evidence.total("wait_ns") else ""
    return f"communication that nothing hides takes {human.percent(share)} {evidence.of_span}{waiting}"


def _communication_advice(evidence: Evidence) -> str:
    if len(evidence.ranks) > 1 or evidence.total("wait_ns"):
        return "communicate while something is computed, or less often: larger buckets, a larger batch"
    return "look at the other ranks, too: one alone does not show whether it transfers or waits for another"


def _launch_words(evidence: Evidence, share: float) -> str:
    launches, graphs = evidence.total("launches") or 0, evidence.total("graph_launches") or 0
    text = f"the card waits {human.percent(share)} {evidence.of_span} for the host"
    spans = evidence.total("launching_ns")
    if spans is None or launches < _FEW_KERNELS * len(evidence.ranks):
        return text
    apart = round(spans / (launches - len(evidence.ranks)))
    busy = round(((evidence.total("span_ns") or 0) - (evidence.total("idle_ns") or 0)) / launches)
    if apart <= busy:  # the host launches faster than the card works: the launches do not explain the waits
        return text
    of_graphs = f", {graphs:,} of them of graphs" if graphs else ""
    return f"{text}: {human.short_duration(apart)} between two launches{of_graphs}, of which each keeps it busy for {human.short_duration(busy)}"


def _gap_words(evidence: Evidence, share: float) -> str:
    gaps = max(1, round((evidence.total("gaps") or 0) / len(evidence.ranks)))
    which = "1 gap" if gaps == 1 else f"{gaps} gaps, together"
    return f"nothing runs for {human.percent(share)} {evidence.of_span}, in {which} of {evidence.mean('gap_ns')}"


def _small_words(evidence: Evidence, share: float) -> str:
    largest = max((kernel for kernel in evidence.kernels if _is_small(kernel)), key=lambda kernel: kernel.total_ns)
    blocks = _blocks(largest) or 1
    which = "1 block" if blocks == 1 else f"{blocks} blocks"
    return (
        f"{human.percent(share)} {evidence.of_span} the card is busy with kernels of few blocks, which use a small part of it: "
        f"{largest.name[:60]} has {which}"
    )


_FUSED_WORDS = "kernels that communicate and compute at once take {share} {of_span}; the files do not say which of the two takes the time"

_ROWS = (
    _Row("parallelism", _LEAST_PART, lambda evidence: evidence.small_ratio, _small_words,
         lambda _: "launch more blocks, or more work at once"),
    _Row("data", _LEAST_DATA, lambda evidence: evidence.data_ratio, _data_words,
         lambda evidence: f"more loader workers: the loader takes {evidence.mean('data_wait_ns')} of {evidence.mean('span_ns')}"),
    _Row("data", _LEAST_DATA, _hint_share, _hint_words, lambda _: "try more workers for the data pipeline"),
    _Row("communication", _LEAST_PART, lambda evidence: evidence.ratio("exposed_communication_ns"), _communication_words,
         _communication_advice),
    _Row("communication", _LEAST_PART, lambda evidence: evidence.ratio("fused_ns"),
         lambda evidence, share: _FUSED_WORDS.format(share=human.percent(share), of_span=evidence.of_span),
         lambda _: "compare with the same step without fused kernels, or with the other ranks"),
    _Row("copy", _LEAST_PART, lambda evidence: evidence.ratio("exposed_copy_ns"),
         lambda evidence, share: f"copies that nothing hides take {human.percent(share)} {evidence.of_span}",
         lambda _: "pin the host's memory and copy asynchronously, or keep the data on the card"),
    _Row("gap", _LEAST_PART, lambda evidence: _idle_without_data(evidence, in_gaps=True), _gap_words,
         lambda _: "look at what the program does there: checkpoint, evaluation, logging, or a wait for a result"),
    _Row("host", _LEAST_PART, lambda evidence: _idle_without_data(evidence, in_gaps=False), _launch_words,
         lambda _: "launch less often: graphs, a compiled model, or a larger batch"),
)  # fmt: skip


def verdict_of(profile: Profile, ranks: Sequence[Usual], then: Sequence[Then | None]) -> Verdict:
    """Return the first cause outside the program, otherwise the largest cause in the program."""
    # If some files contain times, files with sums only add nothing.
    timed = [
        (rank, card)
        for rank, card in zip(ranks, then, strict=True)
        if rank.split.span_ns and rank.split.compute_ns is not None
    ]
    if timed:
        ranks, then = [rank for rank, _ in timed], [card for _, card in timed]
    slow_rank = straggler_of(ranks)
    throttled = most_held_back(ranks, then, slow_rank)
    evidence = Evidence(ranks, profile.hints)
    found = candidates_of(evidence)
    outside = _outside(throttled, slow_rank, found)
    if outside is not None:
        return Verdict(outside.cause, outside.text, outside.share, outside.advice, (outside, *found))
    if not found:
        return _unclear(evidence) or _working(evidence, profile)
    has_few_copies = found[0].cause == "copy" and not evidence.kernels and evidence.copies < _FEW_KERNELS
    is_unsure = found[0].cause in ("host", "gap") or has_few_copies
    return (_unclear(evidence) if is_unsure else None) or _largest(found)


def candidates_of(evidence: Evidence) -> tuple[Candidate, ...]:
    """Return all causes in the program that the evidence shows, the largest first."""
    shares = [(row, row.share(evidence)) for row in _ROWS]
    found = [
        Candidate(row.cause, share, row.words(evidence, share), row.advice(evidence))
        for row, share in shares
        if share is not None and share >= row.least
    ]
    return tuple(sorted(found, key=lambda candidate: -(candidate.share or 0.0)))


def _outside(throttled: HeldBack | None, slow: Straggler | None, found: Sequence[Candidate]) -> Candidate | None:
    """Return a cause outside the program; a card at its power limit explains no more than its loss."""
    held_back = throttled and Candidate("throttled", throttled.share, throttled.text, throttled.advice)
    largest = found[0].share or 0.0 if found else 0.0
    if throttled is not None and (not throttled.is_by_limit or slow is not None or throttled.lost >= largest):
        return held_back
    return None if slow is None else Candidate("straggler", slow.excess / (1.0 + slow.excess), slow.text, slow.advice)


def _largest(found: Sequence[Candidate]) -> Verdict:
    first = found[0]
    others = [other for other in found if other.cause != first.cause]
    rivals = [first, *(other for other in others if (other.share or 0.0) >= _ABOUT_EQUAL * (first.share or 0.0))]
    if len(rivals) == 1:
        return Verdict(first.cause, first.text, first.share, first.advice, tuple(found))
    text = f"the evidence does not decide: {'; or '.join(rival.text for rival in rivals)}"
    return Verdict(first.cause, text, first.share, first.advice, tuple(found))


def _unclear(evidence: Evidence) -> Verdict | None:
    """Return a verdict if the kernels are not a step of the program, or too few."""
    kernels, span = sum(kernel.calls for kernel in evidence.kernels), evidence.total("span_ns")
    launches = sum(rank.member.device.split.launches or 0 for rank in evidence.ranks)
    if not span or evidence.ratio("idle_ns") is None or (evidence.ratio("compute_ns") or 0.0) >= _MOSTLY:
        return None
    if launches >= _FEW_KERNELS and kernels < launches * _MOSTLY:
        text = f"only {kernels:,} of {launches:,} launched kernels ran: a graph is captured here, and nothing follows for its runs"
        return Verdict("unknown", text, None, "profile the replay of the graph")
    if kernels < _FEW_KERNELS:
        count, names = (kernels, ("kernel", "kernels")) if kernels else (evidence.copies, ("copy", "copies"))
        text = (
            f"only {count} {names[count != 1]} ran in {evidence.mean('span_ns')}: too few to say what holds the card up"
        )
        return Verdict("unknown", text)
    return None


def _working(evidence: Evidence, profile: Profile) -> Verdict:
    compute = evidence.ratio("compute_ns")
    if compute is not None:
        share = f"{human.percent(compute)} {evidence.of_span}"
        if evidence.total("idle_ns") is None:
            return Verdict("unknown", f"kernels run {share}; what else happened is not in the file", compute)
        return Verdict("compute", f"the card computes {share}", compute)
    if any(rank.member.device.kernels for rank in evidence.ranks):
        if evidence.total("span_ns"):
            return Verdict("unknown", "the files do not say for each step what the card did in it")
        return Verdict("unknown", "the file has sums of kernels, and nothing of the time between them")
    if profile.calls:
        return Verdict("unknown", "the file has calls of the host only, and nothing of a card")
    return Verdict("unknown", "nothing in the file is about a card")


def _blocks(kernel: Kernel) -> int | None:
    """Return the number of blocks of the launch; None if it is unknown."""
    sizes = kernel.grid.split("×")
    return prod(int(size[:9]) for size in sizes) if all(size.isdecimal() for size in sizes) else None


def _is_small(kernel: Kernel) -> bool:
    blocks = _blocks(kernel)
    return kernel.work == "compute" and blocks is not None and 0 < blocks < _FEW_BLOCKS
