"""All that is known of a profile at the end, which the screen and the JSON document show.

That is what was read, what was achieved of each card's peak, and the cards' readings in these seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from telemetry_profile.format_contract import Kernel
from telemetry_profile.verdict.combine import Member, Profile
from telemetry_profile.verdict.runs import runs_of
from telemetry_profile.verdict.usual_step import Usual

Match = Literal["uuid", "bus_id", "rank", "index"]
"""How the profile's card was found among the node's; by its index it is a guess, since jobs see cards under numbers of their own."""

AchievedBasis = Literal["given", "told", "shapes"]
"""Where FLOPs come from: the user states them, or the file as `Basis` says."""

FindPeak = Callable[[str, str], float | None]
"""The peak in FLOP/s of a model and a dtype, None where no table has it."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The samples of one reading: least, mean and most."""

    min: float
    mean: float
    max: float


@dataclass(frozen=True, slots=True)
class Then:
    """What telemetry reported of the card in the same seconds."""

    device: str
    model: str | None
    matched_by: Match
    is_guess: bool
    samples: int
    clock_hertz: Spread | None = None
    clock_max_hertz: float | None = None
    temperature_celsius: Spread | None = None
    power_watts: Spread | None = None
    power_cap_watts: float | None = None
    throttled_seconds: Mapping[str, float] = field(default_factory=dict)
    """Of each reason, the longest first."""
    errors: tuple[str, ...] = ()
    """Sentences such as "Xid 79 at 08:57:04"."""


@dataclass(frozen=True, slots=True)
class Achieved:
    """FLOP/s of one rank. From shapes of matrix operators it is a lower bound; `peak` and `share` are None for an unknown card."""

    flops_per_second: float
    basis: AchievedBasis
    dtype: str
    peak: float | None
    model: str = ""

    @property
    def unknown(self) -> str:
        """Why there is no share of a peak."""
        if not self.dtype:
            return "of an unknown data type (--dtype), so that the peak is not known"
        return f"the {self.dtype} peak of {self.model or 'the card'} is not known"

    @property
    def share(self) -> float | None:
        """The part of the peak, as a ratio."""
        return self.flops_per_second / self.peak if self.peak else None


@dataclass(frozen=True, slots=True)
class Answer:
    """`ranks`, `achieved` and `then` have an item for each member of the profile, `runs` the places of those that belong together.

    `telemetry` names what was asked for `then`, "" if nothing was.
    """

    profile: Profile
    ranks: tuple[Usual, ...]
    achieved: tuple[Achieved | None, ...]
    then: tuple[Then | None, ...]
    telemetry: str = ""

    @property
    def runs(self) -> tuple[Answer, ...]:
        """The answer for each run of a program; what the files say of no card is that of all."""
        runs = runs_of(self.profile.members)
        return (self,) if len(runs) < 2 else tuple(self._of(run) for run in runs)

    def _of(self, run: Sequence[int]) -> Answer:
        members = tuple(self.profile.members[place] for place in run)
        sizes = [member.job_ranks for member in members if member.job_ranks]
        profile = replace(self.profile, members=members, ranks=max(sizes, default=None), links=(), hints=())
        ranks, achieved, then = (
            tuple(items[place] for place in run) for items in (self.ranks, self.achieved, self.then)
        )
        return Answer(profile, ranks, achieved, then, self.telemetry)  # type: ignore[arg-type]  # the kinds of items are those above


def achieved_of(rank: Usual, flops_per_step: float | None, dtype: str, find_peak: FindPeak) -> Achieved | None:
    """What the rank achieved; None where neither the file nor the user says how much there was to do."""
    device = rank.member.device
    named = dtype or device.dtype
    rate, basis = _rate(rank, flops_per_step)
    if rate is None or basis is None:
        return None
    peak = find_peak(device.card.model, named)
    # Where a card has no tf32, float is fp32.
    if named == "float":
        named = "" if find_peak(device.card.model, "tf32") else "fp32"
        peak = find_peak(device.card.model, named) if named else None
    return Achieved(rate, basis, named, peak, device.card.model)


def _rate(rank: Usual, flops_per_step: float | None) -> tuple[float | None, AchievedBasis | None]:
    span, flops = rank.split.span_ns, rank.member.device.flops
    if flops_per_step is not None:
        return (flops_per_step * 1e9 / span, "given") if span and rank.steps else (None, None)
    if flops is None:
        return None, None
    if flops.per_second is not None:
        return flops.per_second, flops.basis
    if flops.per_step is not None and span and rank.steps:
        return flops.per_step * 1e9 / span, flops.basis
    whole = rank.member.device.split.span_ns
    return (flops.total * 1e9 / whole, flops.basis) if flops.total is not None and whole else (None, None)


@dataclass(frozen=True, slots=True)
class KernelSum:
    """The runs of one kernel on all cards; `longest` is the kernel of the card with the longest run."""

    longest: Kernel
    calls: int
    total_ns: int


def kernel_sums(members: Sequence[Member]) -> list[KernelSum]:
    """The kernels of all cards together, the largest total first."""
    by_name: dict[tuple[str, str], list[Kernel]] = {}
    for member in members:
        for kernel in member.device.kernels:
            by_name.setdefault((kernel.work, kernel.name), []).append(kernel)
    sums = [
        KernelSum(
            max(kernels, key=lambda kernel: kernel.longest_ns or 0),
            sum(kernel.calls for kernel in kernels),
            sum(kernel.total_ns for kernel in kernels),
        )
        for kernels in by_name.values()
    ]
    return sorted(sums, key=lambda kernel_sum: (-kernel_sum.total_ns, kernel_sum.longest.name))
