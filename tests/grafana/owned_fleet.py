"""A made-up fleet of cards with owners, as series, and the expected sums of its owners."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from grafana.promtool import Series

NODES, CARDS_OF_NODE = 10, 8
STEP_SECONDS, STEPS = 60, 20
RANGE_SECONDS = 900
# Later than the five minutes in which Prometheus still shows a series that has ended.
ENDED_STEPS_AGO = 6
GIB = float(1 << 30)


@dataclass(frozen=True)
class Card:
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
        location = {"job": "telemetry", "instance": self.node, "vendor": "nvidia", "device": device}
        return {**location, "id": f"GPU-{self.number}", "model": "m"}


@dataclass(frozen=True)
class Had:
    """An owner's share of a card, current or past; `seconds` is the time in the shown range times the share."""

    card: Card
    who: Mapping[str, str]
    share: float
    basis: str = "whole"
    has_ended: bool = False

    @property
    def is_whole_of_living_job(self) -> bool:
        """Return whether the recording rule of jobs includes the share."""
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
    """Return the labels of a job; its account depends on its user."""
    name = str(number)
    return {"owner_kind": "job", "owner": name, "job_id": name, "user": user, "account": f"of-{user[0]}"}


def pod(namespace: str, name: str) -> dict[str, str]:
    owner = {"owner_kind": "pod", "owner": f"{namespace}/{name}/main"}
    return {**owner, "pod_namespace": namespace, "pod_name": name, "container_name": "main"}


def card(number: int) -> Card:
    """Return the card with this number: every tenth is idle, and a few have processes of non-owners."""
    busy = 0.0 if number % 10 == 5 else 0.15 * (1 + number % 5)
    return Card(number, 100.0 + 50.0 * (number % 7), busy, 3 * GIB if number % 40 == 6 else 0.0)


def owners(owned: Card) -> Sequence[Had]:
    """Return the owners of a card by its last digit: none, two jobs, two pods on partitions, a pod, a job that has ended, an idle job."""
    number, wide = owned.number, owned.number // 20
    kinds: Mapping[int, Sequence[Had]] = {
        0: (),
        1: (
            Had(owned, job(f"a{number}", "anna"), 0.25, "utilization"),
            Had(owned, job(f"b{number}", "bert"), 0.75, "utilization"),
        ),
        2: (
            Had(owned, pod("lab", f"small-{number}"), 1 / 7, "partition"),
            Had(owned, pod("lab", f"large-{number}"), 3 / 7, "partition"),
        ),
        3: (Had(owned, pod("web", f"serve-{number}"), 1.0),),
        4: (Had(owned, job(f"e{number}", "gone"), 1.0, has_ended=True),),
        5: (Had(owned, job(f"i{number}", "idle"), 1.0),),
    }
    return kinds.get(number % 10, (Had(owned, job(wide, f"user{wide % 3}"), 1.0),))


CARDS = tuple(card(number) for number in range(NODES * CARDS_OF_NODE))
HAD = tuple(had for device in CARDS for had in owners(device))
HAVE = tuple(had for had in HAD if not had.has_ended)
OF_JOBS = tuple(had for had in HAVE if had.is_whole_of_living_job)

Key = tuple[str, ...]


def summed(had: Sequence[Had], labels: Sequence[str], value: Callable[[Had], float]) -> dict[Key, float]:
    sums: dict[Key, float] = defaultdict(float)
    for item in had:
        sums[grouped(item, labels)] += value(item)
    return dict(sums)


def grouped(had: Had, labels: Sequence[str]) -> Key:
    labels_of_owner = {**had.card.labels, **had.who}
    return tuple(labels_of_owner.get(label, "") for label in labels)


@dataclass(frozen=True)
class Served:
    """An inference server in a pod with a card: its values in the recording rules."""

    had: Had

    @property
    def labels(self) -> dict[str, str]:
        model = f"llm-{self.had.card.number // 10 % 2}"
        return {"namespace": "web", "pod": self.had.who["pod_name"], "model_name": model}

    @property
    def tokens(self) -> float:
        return 10.0 + self.had.card.number

    @property
    def watts(self) -> float:
        return self.had.share * self.had.card.watts


SERVED = tuple(Served(had) for had in HAVE if had.who.get("pod_namespace") == "web")
# Jobs with steps: tokens per second, and the energy in the recording rules.
STEP_TOKENS, STEP_JOULES = {"0": 50.0, "1": 80.0}, {"0": 6.0, "1": 2.5}


def served_by(labels: Sequence[str], value: Callable[[Served], float]) -> dict[Key, float]:
    sums: dict[Key, float] = defaultdict(float)
    for server in SERVED:
        sums[tuple(server.labels[label] for label in labels)] += value(server)
    return dict(sums)


def tokens_and_energy() -> dict[tuple[str, Key], float]:
    found: dict[tuple[str, Key], float] = {}
    for scope, labels in (("pod", ("namespace", "pod", "model_name")), ("model_name", ("model_name",))):
        tokens, watts = served_by(labels, lambda server: server.tokens), served_by(labels, lambda server: server.watts)
        for key in tokens:
            found[f"{scope}:inference_joules_per_output_token:rate5m", key] = watts[key] / tokens[key]
            found[f"{scope}:inference_output_tokens_per_second_per_watt:rate5m", key] = tokens[key] / watts[key]
            if scope == "pod":
                found["pod:inference_output_tokens:rate5m", key] = tokens[key]
                found["pod:inference_power_watts:rate5m", key] = watts[key]
    for job_id, joules in STEP_JOULES.items():
        found["job_id:steps_joules_per_token:rate5m", (job_id,)] = joules
        found["job_id:steps_tokens_per_second_per_watt:rate5m", (job_id,)] = 1 / joules
    return found


def fleet() -> Series:
    series: dict[str, str] = {}

    def add(metric: str, labels: Mapping[str, str], value: float, growth: float = 0.0, steps: int = STEPS) -> None:
        name = ",".join(f'{label}="{text}"' for label, text in labels.items())
        series[f"{metric}{{{name}}}"] = f"{value!r}+{growth * STEP_SECONDS!r}x{steps}"

    def count(metric: str, labels: Mapping[str, str], a_second: float, steps: int = STEPS) -> None:
        # Starts above 0, because Prometheus does not extrapolate a counter below zero.
        add(metric, labels, a_second * 86_400, a_second, steps)

    for card in CARDS:
        for metric, value in {
            "accelerator_up": 1.0,
            "accelerator_power_watts": card.watts,
            "accelerator_utilization_ratio": card.busy,
            "accelerator_foreign_memory_bytes": card.foreign_bytes,
            "accelerator:utilization_ratio:rate5m": card.busy,
        }.items():
            add(metric, card.labels, value)
        count("accelerator_energy_estimated_joules_total", card.labels, card.watts)
        claims = {"job": "telemetry", "instance": card.node, "source": "kubelet"}
        add("telemetry_claims_unresolved", claims, 2.0 * (card.node == "node0"))
    for had in HAD:
        labels = {**had.card.labels, **had.who}
        steps = STEPS - (ENDED_STEPS_AGO if had.has_ended else 0)
        add("accelerator_allocation_ratio", {**labels, "basis": had.basis}, had.share, steps=steps)
        add("accelerator_allocation_memory_used_bytes", labels, had.memory_bytes, steps=steps)
        if had.is_whole_of_living_job:
            add("accelerator:allocation_utilization_ratio:rate5m", labels, had.card.busy)
        count("accelerator_allocation_seconds_total", labels, had.share, steps)
        count("accelerator_allocation_busy_seconds_total", labels, had.share * had.card.busy, steps)
        count("accelerator_allocation_energy_joules_total", labels, had.share * had.card.watts, steps)
    return {**series, **of_tokens()}


def of_tokens() -> Series:
    names = {"pod": ("namespace", "pod", "model_name"), "model_name": ("model_name",), "job_id": ("job_id",)}
    series: dict[str, str] = {}
    for (metric, key), value in tokens_and_energy().items():
        labels = zip(names[metric.partition(":")[0]], key, strict=True)
        texts = ",".join(f'{label}="{text}"' for label, text in labels)
        series[f"{metric}{{{texts}}}"] = f"{value!r}x{STEPS}"
    for job_id, tokens in STEP_TOKENS.items():
        for rank in "01":
            labels_of_rank = f'job="telemetry",instance="node0",id="GPU-{rank}",job_id="{job_id}",rank="{rank}"'
            series[f"telemetry_steps_tokens_total{{{labels_of_rank}}}"] = f"9e6+{tokens / 2 * STEP_SECONDS!r}x{STEPS}"
    return series
