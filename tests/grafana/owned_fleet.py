"""A made-up fleet of 2,000 cards with owners, as OpenMetrics, and what its owners had by plain sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

NODES, CARDS_OF_NODE = 250, 8
STEP_SECONDS, STEPS = 60, 20
RANGE_SECONDS = 900
# Later than the five minutes in which Prometheus still shows a series that has ended.
ENDED_STEPS_AGO = 6
GIB = float(1 << 30)


@dataclass(frozen=True)
class Card:
    """A card that does the same all the time."""

    number: int
    watts: float
    busy: float
    foreign_bytes: float

    @property
    def node(self) -> str:
        return f"node{self.number // CARDS_OF_NODE}"

    @property
    def labels(self) -> dict[str, str]:
        device = str(self.number % CARDS_OF_NODE)
        place = {"job": "telemetry", "instance": self.node, "vendor": "nvidia", "device": device}
        return {**place, "id": f"GPU-{self.number}", "model": "m"}


@dataclass(frozen=True)
class Had:
    """What an owner has, or had, of a card; `seconds` are those of the range shown, times the share."""

    card: Card
    who: Mapping[str, str]
    share: float
    basis: str = "whole"
    has_ended: bool = False

    @property
    def is_whole_of_living_job(self) -> bool:
        """Whether the recording rule of jobs keeps it."""
        return "job_id" in self.who and self.basis == "whole" and not self.has_ended

    @property
    def memory_bytes(self) -> float:
        return (1 + self.card.number % 60) * GIB * self.share

    @property
    def seconds(self) -> float:
        # Prometheus adds half a step to a counter that ends within the range.
        had = RANGE_SECONDS - (ENDED_STEPS_AGO - 0.5) * STEP_SECONDS if self.has_ended else RANGE_SECONDS
        return had * self.share


def job(number: object, user: str) -> dict[str, str]:
    """The labels of a job; its account goes by its user."""
    name = str(number)
    return {"owner_kind": "job", "owner": name, "job_id": name, "user": user, "account": f"of-{user[0]}"}


def pod(namespace: str, name: str) -> dict[str, str]:
    owner = {"owner_kind": "pod", "owner": f"{namespace}/{name}/main"}
    return {**owner, "pod_namespace": namespace, "pod_name": name, "container_name": "main"}


def card(number: int) -> Card:
    """The card with that number of the fleet: each tenth is idle, and strangers are on a few."""
    busy = 0.0 if number % 10 == 5 else 0.15 * (1 + number % 5)
    return Card(number, 100.0 + 50.0 * (number % 7), busy, 3 * GIB if number % 400 == 6 else 0.0)


def owners(one: Card) -> Sequence[Had]:
    """Who has a card, by its last digit: nobody, two jobs, two pods on partitions, a pod, a job that has ended, an idle job."""
    number, wide = one.number, one.number // 200
    kinds: Mapping[int, Sequence[Had]] = {
        0: (),
        1: (
            Had(one, job(f"a{number}", "anna"), 0.25, "utilization"),
            Had(one, job(f"b{number}", "bert"), 0.75, "utilization"),
        ),
        2: (
            Had(one, pod("lab", f"small-{number}"), 1 / 7, "partition"),
            Had(one, pod("lab", f"large-{number}"), 3 / 7, "partition"),
        ),
        3: (Had(one, pod("web", f"serve-{number}"), 1.0),),
        4: (Had(one, job(f"e{number}", "gone"), 1.0, has_ended=True),),
        5: (Had(one, job(f"i{number}", "idle"), 1.0),),
    }
    return kinds.get(number % 10, (Had(one, job(wide, f"user{wide % 3}"), 1.0),))


CARDS = tuple(card(number) for number in range(NODES * CARDS_OF_NODE))
HAD = tuple(had for one in CARDS for had in owners(one))
HAVE = tuple(had for had in HAD if not had.has_ended)
OF_JOBS = tuple(had for had in HAVE if had.is_whole_of_living_job)

Key = tuple[str, ...]


def summed(had: Sequence[Had], labels: Sequence[str], value: Callable[[Had], float]) -> dict[Key, float]:
    """The sum over what each group has; an empty word stands for a label that it lacks."""
    sums: dict[Key, float] = defaultdict(float)
    for one in had:
        sums[grouped(one, labels)] += value(one)
    return dict(sums)


def grouped(had: Had, labels: Sequence[str]) -> Key:
    told = {**had.card.labels, **had.who}
    return tuple(told.get(label, "") for label in labels)


@dataclass(frozen=True)
class Series:
    """A series that is the same, or grows, all the time; `until` is the step after its last."""

    labels: Mapping[str, str]
    value: float = 0.0
    a_second: float = 0.0
    until: int = STEPS + 1


@dataclass
class Exposition:
    """The whole course of the fleet up to a moment, in OpenMetrics."""

    end: int
    families: dict[str, list[Series]] = field(default_factory=lambda: defaultdict(list))

    def lines(self) -> Iterator[str]:
        for one in CARDS:
            self._card(one)
        for had in HAD:
            self._owner(had)
        begin = self.end - STEPS * STEP_SECONDS
        for metric, family in self.families.items():
            for series in family:
                labels = ",".join(f'{name}="{value}"' for name, value in series.labels.items())
                for step in range(series.until):
                    value = series.value + series.a_second * step * STEP_SECONDS
                    yield f"{metric}{{{labels}}} {value!r} {begin + step * STEP_SECONDS}\n"
        yield "# EOF\n"

    def _card(self, one: Card) -> None:
        told = {
            "accelerator_up": 1.0,
            "accelerator_power_watts": one.watts,
            "accelerator_utilization_ratio": one.busy,
            "accelerator_foreign_memory_bytes": one.foreign_bytes,
            "accelerator:utilization_ratio:rate5m": one.busy,
        }
        for metric, value in told.items():
            self.families[metric].append(Series(one.labels, value))
        self._grows("accelerator_energy_estimated_joules_total", one.labels, one.watts)
        if one.number % CARDS_OF_NODE == 0:
            claims = {"job": "telemetry", "instance": one.node, "source": "kubelet"}
            unresolved = float(one.number == 0) * 2
            self.families["telemetry_claims_unresolved"].append(Series(claims, unresolved))

    def _owner(self, had: Had) -> None:
        labels = {**had.card.labels, **had.who}
        until = STEPS + 1 - (ENDED_STEPS_AGO if had.has_ended else 0)
        now = {
            "accelerator_allocation_ratio": ({**labels, "basis": had.basis}, had.share),
            "accelerator_allocation_memory_used_bytes": (labels, had.memory_bytes),
        }
        for metric, (named, value) in now.items():
            self.families[metric].append(Series(named, value, until=until))
        if had.is_whole_of_living_job:
            self.families["accelerator:allocation_utilization_ratio:rate5m"].append(Series(labels, had.card.busy))
        self._grows("accelerator_allocation_seconds_total", labels, had.share, until)
        self._grows("accelerator_allocation_busy_seconds_total", labels, had.share * had.card.busy, until)
        self._grows("accelerator_allocation_energy_joules_total", labels, had.share * had.card.watts, until)

    def _grows(self, metric: str, labels: Mapping[str, str], a_second: float, until: int = STEPS + 1) -> None:
        # As if it had begun long before: Prometheus does not extrapolate a counter below zero.
        self.families[metric].append(Series(labels, a_second * 86_400, a_second, until))
