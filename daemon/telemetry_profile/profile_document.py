"""The document `telemetry.profile/1`: times in seconds, sizes in bytes, and null for unknown values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeVar, get_type_hints

from telemetry_exporters.text import deep_clean
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.model import Problem
from telemetry_profile.format_contract import Flops, Hint, Kernel, Split, Work
from telemetry_profile.verdict.cause import ADDED_LATER, Verdict, verdict_of
from telemetry_profile.verdict.slowest_rank import Reason, rank_spread_of, slow_links, straggler_of
from telemetry_profile.verdict.summary import AchievedFlops, CardTelemetry, KernelSum, ProfileSummary, kernel_sums
from telemetry_profile.verdict.usual_step import UsualStep

_MAX_KERNELS = 100
_SECOND_NS = 1e9
_NO_COMMON_VERDICT = "the files are from {} unrelated runs, whose verdicts are in `runs`"
_MISSING = object()
_T = TypeVar("_T")


@dataclass(frozen=True)
class MemberJson:
    """A rank, or a card that has no rank."""

    rank: int | None
    card: int | None


@dataclass(frozen=True)
class StragglerJson:
    """The rank that the other ranks wait for."""

    rank: int
    excess_ratio: float
    reason: Reason = field(metadata=ADDED_LATER)
    """`compute`: the card computes longer than the others. `host`: the card is idle longer, because its host is slow."""


@dataclass(frozen=True)
class RanksJson:
    """How the lengths of the ranks' steps differ."""

    median_seconds: float
    slowest: MemberJson
    fastest: MemberJson
    skew_ratio: float
    straggler: StragglerJson | None


@dataclass(frozen=True)
class CardJson:
    """The card as the profiler identifies it."""

    index: int | None
    model: str | None
    uuid: str | None
    bus_id: str | None


@dataclass(frozen=True)
class SplitJson:
    """How one card spent a span of time."""

    span_seconds: float | None
    compute_seconds: float | None
    communication_seconds: float | None
    exposed_communication_seconds: float | None
    copy_seconds: float | None
    exposed_copy_seconds: float | None
    idle_seconds: float | None
    wait_seconds: float | None
    data_wait_seconds: float | None
    launches: int | None
    graph_launches: int | None = field(metadata=ADDED_LATER)
    """How many of the launches are graphs."""
    launching_seconds: float | None = field(metadata=ADDED_LATER)
    """The time from the first launch to the last."""
    gaps: int | None = field(metadata=ADDED_LATER)
    """The number of long gaps in which nothing ran."""
    gap_seconds: float | None = field(metadata=ADDED_LATER)
    fused_seconds: float | None = field(metadata=ADDED_LATER)
    """The time of kernels that both compute and communicate. It is included in compute time and in communication time."""


@dataclass(frozen=True)
class _StepHead:
    """The fields of a step that are not in `SplitJson`."""

    name: str
    begin_seconds: float | None
    is_cut: bool
    is_mean: bool


@dataclass(frozen=True)
class StepJson(SplitJson, _StepHead):
    """One training step."""


@dataclass(frozen=True)
class KernelJson:
    """All executions of one kernel, copy or collective."""

    name: str
    work: Work
    calls: int
    total_seconds: float
    mean_seconds: float | None
    longest_seconds: float | None
    grid: str | None
    block: str | None
    estimated_occupancy_ratio: float | None


@dataclass(frozen=True)
class GapJson:
    """A long time in which nothing ran."""

    begin_seconds: float
    """The start of the gap, relative to the start of the card's first work."""
    seconds: float


@dataclass(frozen=True)
class ProfiledJson:
    """The results of one rank and its card."""

    rank: int | None
    card: CardJson
    tool: str
    formats: tuple[str, ...]
    begin_timestamp_seconds: float | None
    end_timestamp_seconds: float | None
    steps: int
    """The number of steps in the mean `step`; 0 if the files mark no complete steps."""
    left_out: tuple[str, ...]
    """The steps and collectives that are excluded, with the reasons."""
    step: SplitJson | None
    """The mean step; null if the files mark no complete steps."""
    whole: SplitJson
    without_first_collective: SplitJson | None
    """The whole profile without its first collective, if that is far longer than the others. Otherwise null."""
    every_step: tuple[StepJson, ...]
    kernels: tuple[KernelJson, ...]
    flops: Flops | None
    achieved: AchievedFlops | None
    telemetry: CardTelemetry | None
    step_basis: Literal["launch", "host"] | None = field(metadata=ADDED_LATER)
    """How kernels were assigned to steps: by their launches, or by the host's clock. Null if the tool assigned them."""
    gaps: tuple[GapJson, ...] = field(metadata=ADDED_LATER)
    """Long gaps in the whole profile."""
    without_gaps: SplitJson | None = field(metadata=ADDED_LATER)
    """The whole profile without `gaps` and the first collective. Null if there are no gaps."""
    files: tuple[str, ...] = field(metadata=ADDED_LATER)


@dataclass(frozen=True)
class LinkJson:
    """The sum of the transfers over one link."""

    kind: str
    source: str
    target: str
    bytes: int
    seconds: float


@dataclass(frozen=True)
class SlowLinkJson:
    """A link that is slow for its kind."""

    kind: str
    source: str
    target: str
    bytes_per_second: float
    median_bytes_per_second: float


@dataclass(frozen=True)
class RunJson:
    """One run of a program."""

    devices: tuple[int, ...]
    """The indices of the run's cards in the document's `devices`."""
    verdict: Verdict
    ranks: RanksJson | None


@dataclass(frozen=True)
class ProfileJson:
    """The output of `telemetry profile --format json`. Times are seconds, sizes bytes; null means that the files do not contain the value. Later versions may have more keys."""

    schema: Literal["telemetry.profile/1"]
    verdict: Verdict
    job_ranks: int | None
    """The number of ranks in the job. The files of some ranks may be missing."""
    ranks: RanksJson | None
    """A comparison of the ranks; null for a single card, and for several runs."""
    devices: tuple[ProfiledJson, ...]
    """The cards of each rank."""
    kernels: tuple[KernelJson, ...]
    """At most 100 kernels, summed over all cards, the longest total time first."""
    links: tuple[LinkJson, ...]
    slow_links: tuple[SlowLinkJson, ...]
    hints: tuple[Hint, ...]
    telemetry: str | None
    remarks: tuple[str, ...]
    problems: tuple[Problem, ...]
    runs: tuple[RunJson, ...] = field(metadata=ADDED_LATER)
    """The unrelated runs that the files are from; usually only one."""


def render(summary: ProfileSummary) -> str:
    """Return the document as JSON."""
    return json.dumps(document(deep_clean(summary)), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(summary: ProfileSummary) -> dict[str, Any]:
    """Return the document as JSON types: dictionaries, lists, strings and numbers."""
    profile, runs = summary.profile, _runs_to_json(summary)
    members = zip(summary.rank_steps, summary.achieved, summary.card_telemetry, strict=True)
    profile_json = _build(
        ProfileJson,
        profile,
        schema="telemetry.profile/1",
        verdict=runs[0].verdict if len(runs) == 1 else Verdict("unknown", _NO_COMMON_VERDICT.format(len(runs))),
        ranks=runs[0].ranks if len(runs) == 1 else None,
        devices=tuple(_device_to_json(rank_step, achieved, telemetry) for rank_step, achieved, telemetry in members),
        kernels=tuple(_kernel_to_json(sums.longest, sums) for sums in kernel_sums(profile.members)[:_MAX_KERNELS]),
        links=tuple(
            _build(LinkJson, link, bytes=link.bytes_moved, seconds=link.busy_ns / _SECOND_NS) for link in profile.links
        ),
        slow_links=tuple(
            _build(SlowLinkJson, slow.link, bytes_per_second=slow.rate, median_bytes_per_second=slow.median_rate)
            for slow in slow_links(profile.links)
        ),
        telemetry=summary.telemetry or None,
        runs=runs,
    )
    return to_plain(ProfileJson, profile_json)


def _build(cls: type[_T], source: object, **values: Any) -> _T:
    """Build an object of `cls` from the attributes of `source`. `values` take precedence over these attributes."""
    return cls(**{name: values[name] if name in values else _value_of(source, name) for name in _field_names(cls)})  # type: ignore[arg-type]  # a class is hashable


@cache
def _field_names(cls: object) -> tuple[str, ...]:
    return tuple(get_type_hints(cls))  # slow, so the result is cached


def _value_of(source: object, name: str) -> Any:
    """Return the value of a JSON field: the attribute with this name, or a field in nanoseconds, converted to seconds."""
    if (value := getattr(source, name, _MISSING)) is _MISSING:
        value = getattr(source, name.removesuffix("seconds") + "ns")
        return None if value is None else value / _SECOND_NS
    return None if value == "" else value


def _runs_to_json(summary: ProfileSummary) -> tuple[RunJson, ...]:
    member_indices = {id(member): index for index, member in enumerate(summary.profile.members)}
    return tuple(
        RunJson(
            tuple(member_indices[id(member)] for member in run.profile.members),
            verdict_of(run.profile, run.rank_steps, run.card_telemetry),
            _ranks_to_json(run.rank_steps),
        )
        for run in summary.runs
    )


def _ranks_to_json(rank_steps: Sequence[UsualStep]) -> RanksJson | None:
    spread, straggler = rank_spread_of(rank_steps), straggler_of(rank_steps)
    if spread is None:
        return None
    straggler_json = None if straggler is None else StragglerJson(straggler.rank, straggler.excess, straggler.reason)
    slowest, fastest = (
        MemberJson(step.member.device.rank, step.member.device.card.index) for step in (spread.slowest, spread.fastest)
    )
    return RanksJson(spread.median_ns / _SECOND_NS, slowest, fastest, spread.skew, straggler_json)


def _device_to_json(usual: UsualStep, achieved: AchievedFlops | None, telemetry: CardTelemetry | None) -> ProfiledJson:
    member, device = usual.member, usual.member.device
    return _build(
        ProfiledJson,
        device,
        card=_build(CardJson, device.card),
        tool=member.tool,
        formats=member.formats,
        begin_timestamp_seconds=_to_seconds(member.begin_unix_ns),
        end_timestamp_seconds=_to_seconds(member.end_unix_ns),
        steps=usual.step_count,
        left_out=usual.left_out,
        step=_split_to_json(usual.split if usual.step_count else None),
        whole=_split_to_json(device.split),
        without_first_collective=_split_to_json(device.split_without_first_collective()),
        every_step=tuple(_build(StepJson, step, **vars(_build(SplitJson, step.split))) for step in device.steps),
        kernels=tuple(_kernel_to_json(kernel, kernel) for kernel in device.kernels[:_MAX_KERNELS]),
        achieved=achieved,
        telemetry=telemetry,
        gaps=tuple(GapJson(gap.offset_ns / _SECOND_NS, gap.length_ns / _SECOND_NS) for gap in device.gaps),
        without_gaps=_split_to_json(device.without_gaps and device.known_values_of(device.without_gaps)),
        files=member.files,
    )


def _split_to_json(split: Split | None) -> SplitJson | None:
    return None if split is None else _build(SplitJson, split)


def _kernel_to_json(kernel: Kernel, sums: Kernel | KernelSum) -> KernelJson:
    return _build(
        KernelJson,
        kernel,
        calls=sums.calls,
        total_seconds=sums.total_ns / _SECOND_NS,
        mean_seconds=sums.total_ns / sums.calls / _SECOND_NS if sums.calls else None,
        estimated_occupancy_ratio=kernel.occupancy_ratio,
    )


def _to_seconds(nanoseconds: int | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / _SECOND_NS
