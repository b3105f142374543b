"""The summary of a profile, which the screen and the JSON document show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from telemetry_parsers.card_peaks import peak_of
from telemetry_profile.format_contract import Kernel
from telemetry_profile.verdict.combine import Member, Profile
from telemetry_profile.verdict.runs import runs_of
from telemetry_profile.verdict.usual_step import UsualStep

# How a card's telemetry was found. A match by index is a guess, because each job numbers its cards itself.
Match = Literal["uuid", "bus_id", "rank", "index"]
# "given" FLOPs are from the command line. FLOPs from a file have a `FlopsBasis`.
AchievedBasis = Literal["given", "told", "shapes"]


@dataclass(frozen=True, slots=True)
class MinMeanMax:
    """The smallest, mean and largest value of a reading's samples."""

    min: float
    mean: float
    max: float


@dataclass(frozen=True, slots=True)
class CardTelemetry:
    """The telemetry of a card during the profile."""

    device: str
    model: str | None
    matched_by: Match
    is_guess: bool
    samples: int
    clock_hertz: MinMeanMax | None = None
    clock_max_hertz: float | None = None
    temperature_celsius: MinMeanMax | None = None
    power_watts: MinMeanMax | None = None
    power_cap_watts: float | None = None
    throttled_seconds: Mapping[str, float] = field(default_factory=dict)
    """How many seconds each throttling reason was active, the longest time first."""
    errors: tuple[str, ...] = ()
    """Errors such as "Xid 79 at 08:57:04"."""


@dataclass(frozen=True, slots=True)
class AchievedFlops:
    """The FLOP/s that a card achieved, and their share of its peak."""

    flops_per_second: float
    basis: AchievedBasis
    is_lower_bound: bool
    dtype: str | None
    peak_flops_per_second: float | None
    peak_share_ratio: float | None


@dataclass(frozen=True, slots=True)
class ProfileSummary:
    """The data that `telemetry profile` shows. Each tuple has an item for each member of the profile."""

    profile: Profile
    rank_steps: tuple[UsualStep, ...]
    achieved: tuple[AchievedFlops | None, ...]
    card_telemetry: tuple[CardTelemetry | None, ...]
    telemetry: str = ""  # the source of `card_telemetry`

    @property
    def runs(self) -> tuple[ProfileSummary, ...]:
        """Return a summary for each run of a program."""
        runs = runs_of(self.profile.members)
        return (self,) if len(runs) < 2 else tuple(self._summary_of_run(run) for run in runs)

    def _summary_of_run(self, run: Sequence[int]) -> ProfileSummary:
        members = tuple(self.profile.members[index] for index in run)
        job_sizes = [member.job_ranks for member in members if member.job_ranks]
        profile = replace(self.profile, members=members, job_ranks=max(job_sizes, default=None), links=(), hints=())
        rank_steps, achieved, card_telemetry = (
            tuple(items[index] for index in run) for items in (self.rank_steps, self.achieved, self.card_telemetry)
        )
        return ProfileSummary(profile, rank_steps, achieved, card_telemetry, self.telemetry)  # type: ignore[arg-type]  # the types of items are those of the fields


def achieved_flops(rank_step: UsualStep, flops_per_step: float | None, dtype: str) -> AchievedFlops | None:
    """Return the FLOP/s of a rank, or None if the FLOPs or the time are unknown."""
    device = rank_step.member.device
    dtype = dtype or device.dtype
    rate, basis = _flops_rate(rank_step, flops_per_step)
    if rate is None or basis is None:
        return None
    peaks = peak_of(device.card.model)
    if dtype == "float":  # the card may use tf32 for fp32
        dtype = "" if peaks and peaks.flops("tf32") else "fp32"
    peak = peaks.flops(dtype) if peaks and dtype else None
    return AchievedFlops(rate, basis, basis == "shapes", dtype or None, peak, rate / peak if peak else None)


def _flops_rate(rank_step: UsualStep, flops_per_step: float | None) -> tuple[float | None, AchievedBasis | None]:
    span, flops = rank_step.split.span_ns, rank_step.member.device.flops
    if flops_per_step is not None:
        return (flops_per_step * 1e9 / span, "given") if span and rank_step.step_count else (None, None)
    if flops is None:
        return None, None
    if flops.per_second is not None:
        return flops.per_second, flops.basis
    if flops.per_step is not None and span and rank_step.step_count:
        return flops.per_step * 1e9 / span, flops.basis
    total_ns = rank_step.member.device.split.span_ns
    return (flops.total * 1e9 / total_ns, flops.basis) if flops.total is not None and total_ns else (None, None)


@dataclass(frozen=True, slots=True)
class KernelSum:
    """The totals of one kernel over all cards. `longest` is the kernel on the card with the longest execution."""

    longest: Kernel
    calls: int
    total_ns: int


def kernel_sums(members: Sequence[Member]) -> list[KernelSum]:
    """Return the totals of each kernel over all cards, in descending order of the total time."""
    kernels_by_name: dict[tuple[str, str], list[Kernel]] = {}
    for member in members:
        for kernel in member.device.kernels:
            kernels_by_name.setdefault((kernel.work, kernel.name), []).append(kernel)
    sums = [
        KernelSum(
            max(kernels, key=lambda kernel: kernel.longest_ns or 0),
            sum(kernel.calls for kernel in kernels),
            sum(kernel.total_ns for kernel in kernels),
        )
        for kernels in kernels_by_name.values()
    ]
    return sorted(sums, key=lambda kernel_sum: (-kernel_sum.total_ns, kernel_sum.longest.name))
