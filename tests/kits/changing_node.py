"""A node whose sources give random answers, mostly with new numbers only; anything may change between two polls."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_parsers.model import Absent, Command, Device, Event, Form, Poll, Process, Reading, Report, Value

REQUEST = Command((("tool",),))
_SECONDS = (0.0, 0.2, 0.5, 1.0, 1.0, 1.0, 2.0, 2.0)
_PAUSES = (5.0, 13.0, 40.0)
_DAYS = 8 * 24 * 3600.0
_METRICS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("power_watts", ("",)),
    ("temperature_celsius", ("edge", "hotspot")),
    ("utilization_ratio", ("",)),
    ("memory_used_bytes", ("",)),
    ("memory_total_bytes", ("",)),
    ("memory_used_ratio", ("",)),
    ("energy_joules_total", ("",)),
    ("ecc_uncorrected_total", ("all", "hbm")),
    ("clock_hertz", ("sm",)),
    ("no_such_metric", ("",)),
)
_FAILURES = (
    PollResult("failed", "timeout", "it took too long"),
    PollResult("failed", "driver_gone", "no driver"),
    PollResult("missing"),
    PollResult("stuck"),
)


@dataclass(frozen=True)
class FakeSource:
    """A source with its polls and the metrics that it reports."""

    name: str
    vendor: str
    form: Form
    polls: tuple[Poll, ...]
    identifiers: tuple[str, ...]
    space: str = ""
    gives: tuple[str, ...] = ("power_watts", "fan_ratio", "memory_used_ratio")


def _poll(name: str, *, lists: bool = True, tier: str = "fast", interval: float = 1.0) -> Poll:
    return Poll(name, REQUEST, tier=tier, interval=interval, lists_devices=lists)  # type: ignore[arg-type]  # one of three


FAKE_SOURCES = (
    FakeSource(
        "nvml",
        "nvidia",
        "data",
        (_poll("fast"), _poll("slow", lists=False, tier="slow"), _poll("inventory", tier="inventory", interval=30.0)),
        ("index", "uuid", "bus_id"),
    ),
    FakeSource("nvidia-smi", "nvidia", "text", (_poll("readings", interval=15.0),), ("index",)),
    FakeSource("sysfs", "amd", "json", (_poll("fast"), _poll("list", tier="inventory")), ("bus_id",)),
    FakeSource("rocm-smi", "amd", "text", (_poll("readings"), _poll("ids", tier="slow")), ("index", "bus_id"), "amd"),
    FakeSource("ports", "amd", "text", (_poll("ports", lists=False),), ("index",), "amd"),
    FakeSource("host", "", "data", (_poll("host", lists=False),), ()),
)


FACTS = tuple(
    SourceFacts(source.name, source.vendor, source.gives, any(poll.lists_devices for poll in source.polls))
    for source in FAKE_SOURCES
)


@dataclass
class _Answer:
    """The newest answer of a poll; the next answer differs little from it."""

    devices: tuple[Device, ...] = ()
    names: list[tuple[int | None, str, str]] = field(default_factory=list)
    absent: dict[tuple[int | None, str, str], Absent] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """An attempt at a poll, some seconds after the previous attempt."""

    seconds: float
    source: FakeSource
    poll: Poll
    report: Report | None
    result: PollResult
    days: float = 0.0
    forgets: bool = False


def steps(seed: int, count: int) -> Iterator[Step]:
    node = _Node(random.Random(seed))
    for _ in range(count):
        yield node.step()


class _Node:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        # On a quiet node only numbers change for minutes.
        self._restless = chance.choice((0.0, 0.03, 0.03, 1.0))
        self._asked = [(source, poll) for source in chance.sample(FAKE_SOURCES, 3) for poll in source.polls]
        self._cards = {vendor: self._some_cards(vendor) for vendor in ("nvidia", "amd")}
        self._answers: dict[tuple[str, str], _Answer] = {}

    def step(self) -> Step:
        chance = self._chance
        source, poll = self._asked[0] if chance.random() < 0.5 else chance.choice(self._asked)
        if self._happens(0.06):
            self._change_cards()
        fails = self._happens(0.06)
        return Step(
            chance.choice(_PAUSES if self._happens(0.2) else _SECONDS),
            source,
            poll,
            None if fails else self._report(source, poll),
            chance.choice(_FAILURES) if fails else PollResult("ok"),
            _DAYS if self._happens(0.01) else 0.0,
            self._happens(0.02),
        )

    def _happens(self, rate: float) -> bool:
        """Draw whether an event happens; `rate` is its probability on a restless node."""
        return self._chance.random() < rate * self._restless

    def _some_cards(self, vendor: str) -> list[Device]:
        cards = [
            Device(vendor, index, f"Model {vendor}", f"UUID-{vendor}-{index}", f"0000:{0x10 + index:02x}:00.0")
            for index in range(self._chance.randint(0, 3))
        ]
        if cards and self._chance.random() < 0.3:
            part = replace(cards[0], uuid=f"PART-{vendor}", partition="1", parent=0)
            cards.append(part)
        return cards

    def _change_cards(self) -> None:
        vendor = self._chance.choice(("nvidia", "amd"))
        cards = self._cards[vendor]
        what = self._chance.random()
        if what < 0.4 or not cards:
            self._cards[vendor] = self._some_cards(vendor)
        elif what < 0.6:
            cards.pop()
        elif what < 0.8:
            cards[0] = replace(cards[0], uuid=f"UUID-other-{self._chance.randint(0, 3)}")
        else:
            cards[0] = replace(cards[0], up=not cards[0].up, facts=(("power_kind", self._chance.choice("ab")),))

    def _report(self, source: FakeSource, poll: Poll) -> Report:
        answer = self._answers.setdefault((source.name, poll.name), _Answer())
        devices = tuple(
            Device(
                card.vendor,
                partition=card.partition,
                parent=card.parent,
                up=card.up,
                facts=card.facts,
                model=card.model,
                **{name: getattr(card, name) for name in source.identifiers},
            )
            for card in self._cards.get(source.vendor, ())
        )
        if devices != answer.devices or not answer.names or self._happens(0.1):
            answer.devices, answer.names = devices, self._names(source, len(devices))
            answer.absent = {}
        if self._happens(0.15):
            answer.absent = {
                name: self._chance.choice(list(Absent)) for name in answer.names if self._chance.random() < 0.2
            }
        readings = tuple(Reading(*name[:2], self._value(name, answer), name[2]) for name in answer.names)
        return Report(
            outcome="ok" if devices or source.name == "host" else "no_devices",
            devices=devices,
            readings=readings,
            events=self._events(len(devices)),
            processes=self._processes(len(devices)),
            form=source.form,
            index_space=source.space,
            is_cut=self._happens(0.02),
        )

    def _names(self, source: FakeSource, count: int) -> list[tuple[int | None, str, str]]:
        if source.name == "host":
            return [(None, "host_cpu_utilization_ratio", ""), (None, "host_memory_used_bytes", "")]
        kept = [metric for metric in _METRICS if self._chance.random() < 0.7]
        names = [(device, metric, label) for device in range(count) for metric, labels in kept for label in labels]
        return [name for name in names if self._chance.random() < 0.95]

    def _value(self, name: tuple[int | None, str, str], answer: _Answer) -> Value:
        if name in answer.absent:
            return answer.absent[name]
        if self._chance.random() < 0.3:
            return 0.25
        if self._happens(0.01):
            return self._chance.choice((-1.0, 0.0, -0.0, float("nan"), float("inf"), 2.0**32 - 1, 1e22))
        ratio = round(self._chance.random(), 3)
        if name[1] == "memory_total_bytes":
            return 2e9 if self._restless < 1.0 else ratio * 1e9
        return ratio if name[1].endswith("_ratio") else ratio * 1e9 if name[1].endswith("_bytes") else ratio * 90.0

    def _events(self, count: int) -> tuple[Event, ...]:
        if not count or not self._happens(0.05):
            return ()
        code = self._chance.choice(("xid 79", "xid 48"))
        return (Event(self._chance.randrange(count), code, is_ongoing=self._chance.random() < 0.5),)

    def _processes(self, count: int) -> tuple[Process, ...]:
        if not count or self._chance.random() < 0.8:
            return ()
        return (
            Process(self._chance.randrange(count), self._chance.randint(1, 9), "python", self._chance.random() * 1e9),
        )
