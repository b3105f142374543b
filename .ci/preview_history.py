"""Hours of a simulated fleet, computed in a minute: the daemon's page at each scrape, as OpenMetrics with timestamps.

The daemon's own parts poll, merge, count and render simulated cards, with a clock that jumps from scrape to scrape.
The incidents are a hot, a lost and a slow card, two cards with errors and events, a lost link, a tool that times out and
a daemon that restarts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from random import Random

from telemetry_daemon.config.settings import ExpectSettings, Settings
from telemetry_daemon.readers.base import Reader, Targets
from telemetry_daemon.readers.host import Call, HostReader
from telemetry_daemon.service.daemon_metrics import DaemonMetrics
from telemetry_daemon.simulate.cards import CardState
from telemetry_daemon.simulate.demo import SIMULATED_VENDORS, counts_by_vendor
from telemetry_daemon.simulate.jobs import owners_parser, owners_reader, steps_reader
from telemetry_daemon.simulate.simulation import NO_FAULTS, WARM_UP_SECONDS, Simulation
from telemetry_daemon.simulate.source import SimulatedReader, parser_of
from telemetry_daemon.simulate.workload import PATTERNS, Job
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.attribution import Attribution
from telemetry_daemon.state.health import SourceFacts, result_of
from telemetry_daemon.state.ledger import Ledger
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters.prometheus.renderer import Renderer
from telemetry_parsers import host, steps
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.model import Capture, Failure, Poll
from telemetry_parsers.ownership import Owner

STEP_SECONDS = 60
# The pictures show six hours, but some panels look back another hour.
HOURS = 7.0
_MINUTE = 60.0
_HOST_BYTES = 2048 << 30
_VALUE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)\Z")

# A training job on a whole node, with occasional checkpoints.
_TRAINING = replace(PATTERNS[0], period_seconds=1800.0, pause_seconds=60.0)
_SLOWED = replace(_TRAINING, load=0.66)
_TRAINER = Owner("job", "48213", job_id="48213", user="alice", account="physics", partition="batch")
_SLOW_CLOCK = 0.55
_HOT_SPELL_SECONDS = 600 * _MINUTE
_CUT_LINK = 4
_ERROR_PROBABILITY = 0.1
# These values are assumed, because nothing is polled.
_LIBRARY_SECONDS, _TOOL_SECONDS = 0.02, 0.35
_DAEMON_CPU_SHARE_OF_CARD = 0.0007
_DAEMON_BYTES = 40 << 20


@dataclass(frozen=True)
class Incidents:
    """The incidents of a node: the card or source that each affects, and the second at which it begins."""

    training: bool = False
    hot: Mapping[int, float] = field(default_factory=dict)
    lost: Mapping[int, float] = field(default_factory=dict)
    slow: Mapping[int, float] = field(default_factory=dict)
    silent: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    events: Mapping[float, tuple[int, str]] = field(default_factory=dict)
    errors: Mapping[int, float] = field(default_factory=dict)
    links_cut: Mapping[int, float] = field(default_factory=dict)
    restarted: float = math.inf
    maintenance: tuple[float, float] = (math.inf, math.inf)


@dataclass(frozen=True)
class NodePlan:
    """A node: its name, its number of cards by vendor, and its incidents."""

    name: str
    cards: Mapping[str, int]
    incidents: Incidents = field(default_factory=Incidents)


def _ago(minutes: float) -> float:
    """Return the second of the simulation that is `minutes` before its end."""
    return HOURS * 3600 - minutes * _MINUTE


FLEET = (
    NodePlan("gpu-01", {"h100": 8}, Incidents(training=True, slow={5: _ago(170)})),
    NodePlan(
        "gpu-02",
        {"nvidia": 8},
        Incidents(
            training=True,
            hot={3: _ago(105)},
            events={_ago(230): (3, "xid_31"), _ago(64): (5, "xid_94")},
            errors={3: _ago(260), 5: _ago(70)},
            links_cut={3: _ago(40)},
            restarted=_ago(300),
        ),
    ),
    NodePlan("gpu-03", {"gb200": 4}, Incidents(maintenance=(_ago(35), _ago(-25)))),
    NodePlan("gpu-04", {"h100mig": 4}),
    NodePlan("gpu-11", {"amd": 8}, Incidents(lost={6: _ago(55)})),
    NodePlan("npu-01", {"ascend": 8}),
    NodePlan("dcu-01", {"hygon": 8}),
    NodePlan("mtt-01", {"moorethreads": 8}, Incidents(silent={"mthreads-gmi": (_ago(200), _ago(165))})),
)


class TrainingCard(CardState):
    """A card of the training job, which can become slow at a certain second."""

    slow_from = math.inf
    cards: tuple[int, ...] = (0,)

    def advance(self, now: float, job: Job | None, random: Random) -> None:
        """Advance by one second. The card trains, whatever job the simulation contains."""
        slow = now >= self.slow_from
        pattern, memory = _SLOWED if slow else _TRAINING, 0.82 + 0.01 * self.position
        job = Job(pattern, self.cards, 0.0, math.inf, memory, 4711, (_TRAINER,))
        super().advance(now, job, random)
        if slow:
            self.clock_share *= _SLOW_CLOCK
            self.is_capped = True


@dataclass
class _Time:
    """The shared clock of all simulated nodes."""

    begin: float
    seconds: float = 0.0

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.seconds, wall=lambda: self.begin + self.seconds)


@dataclass
class _Source:
    """A source, and the simulation of its cards if it has cards."""

    parser: SourceParser
    reader: Reader
    simulation: Simulation | None = None


class SimulatedNode:
    """A node whose daemon is scraped at every step."""

    def __init__(self, plan: NodePlan, time: _Time) -> None:
        self.plan = plan
        self._time = time
        clock = time.clock()
        ledger = Ledger(plan.name)
        self._store = Store(
            plan.name, clock, accumulator=Accumulator(ledger=ledger), attribution=Attribution(clock, ledger)
        )
        self._renderer = Renderer()
        self._cpu_seconds = 0.0
        self._random = Random(plan.name)  # noqa: S311  # a simulation, not a secret
        slots = accumulate(plan.cards.values(), initial=0)
        self._sources = [
            self._simulated_source(vendor, count, slot, clock)
            for (vendor, count), slot in zip(plan.cards.items(), slots, strict=False)
        ]
        readers = [source.reader for source in self._sources if isinstance(source.reader, SimulatedReader)]
        self._sources.append(_Source(host.PARSER, HostReader(self._host_calls())))
        self._sources.append(_Source(owners_parser(), owners_reader(readers, clock)))
        self._sources.append(_Source(steps.PARSER, steps_reader(readers, clock)))
        self._store.facts.set_maintenance(self._current_maintenance)
        daemon_metrics = DaemonMetrics(self._store)
        daemon_metrics.set_version()
        daemon_metrics.record_reload(succeeded=True)
        daemon_metrics.configure(Settings(expect=ExpectSettings(counts_by_vendor(tuple(plan.cards.items())))))
        daemon_metrics.set_plugin_failures(())
        daemon_metrics.set_pci(counts_by_vendor(tuple(plan.cards.items())))
        for source in self._sources:
            parser = source.parser
            lists_devices = any(poll.lists_devices for poll in parser.polls)
            self._store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives, lists_devices))

    def page(self) -> str:
        """Return the page that the daemon serves at this time."""
        self._begin_incidents()
        for source in self._sources:
            for poll in source.parser.polls:
                self._poll_source(source, poll)
        return self._renderer.text(self._store.snapshot()).decode()

    def process_series(self) -> list[str]:
        """Return the series that Prometheus adds to a scrape, and the metrics of the daemon's process."""
        cards = sum(self.plan.cards.values())
        noise = self._random.uniform(0.9, 1.1)
        self._cpu_seconds += STEP_SECONDS * _DAEMON_CPU_SHARE_OF_CARD * cards * noise
        return [
            "up 1",
            f"scrape_duration_seconds {0.0004 * cards * noise:.5f}",
            f"process_start_time_seconds {self._start_time():.0f}",
            f"telemetry_time_seconds {self._time.begin + self._time.seconds:.3f}",
            f"process_cpu_seconds_total {self._cpu_seconds:.3f}",
            f"process_resident_memory_bytes {_DAEMON_BYTES + int(300_000 * cards * noise)}",
            "process_open_fds 24",
        ]

    def _current_maintenance(self) -> Maintenance:
        begin, end = self.plan.incidents.maintenance
        return Maintenance(end - self._time.seconds, "new firmware") if self._time.seconds >= begin else Maintenance()

    def _start_time(self) -> float:
        restarted = self.plan.incidents.restarted
        return self._time.begin + (restarted if self._time.seconds >= restarted else -6.0e5)

    def _simulated_source(self, vendor: str, count: int, slot: int, clock: Clock) -> _Source:
        record = SIMULATED_VENDORS[vendor]
        seed = sum(map(ord, self.plan.name))
        simulation = Simulation(record, count, seed, NO_FAULTS)
        incidents = self.plan.incidents
        if incidents.training:
            simulation.cards[:] = [TrainingCard(record.demo, position, watts=400.0) for position in range(count)]
            TrainingCard.cards = tuple(range(count))
        for position, second in incidents.slow.items():
            card = simulation.cards[position]
            if isinstance(card, TrainingCard):
                card.slow_from = second + WARM_UP_SECONDS
        for position, second in incidents.lost.items():
            simulation.cards[position].lost_from = second + WARM_UP_SECONDS
            simulation.cards[position].lost_until = math.inf
        reader = SimulatedReader(record, simulation, clock, seed=seed, first_slot=slot)
        return _Source(parser_of(record), reader, simulation)

    def _begin_incidents(self) -> None:
        for simulation in (source.simulation for source in self._sources if source.simulation is not None):
            self._damage_cards(simulation)
            self._emit_events(simulation)

    def _damage_cards(self, simulation: Simulation) -> None:
        incidents = self.plan.incidents
        for position in self._due_cards(incidents.hot):
            simulation.cards[position].hot_until = simulation.now + _HOT_SPELL_SECONDS
        for position in self._due_cards(incidents.links_cut):
            simulation.cards[position].links_down[_CUT_LINK] = math.inf
        for position, second in incidents.errors.items():
            if second <= self._time.seconds and self._random.random() < _ERROR_PROBABILITY:
                card = simulation.cards[position]
                card.corrected_errors += 1
                card.pcie_replays += 1
                card.link_errors += 1

    def _emit_events(self, simulation: Simulation) -> None:
        for second, (position, code) in self.plan.incidents.events.items():
            if self._is_due(second):
                simulation.events.append((simulation.now, position, code))

    def _due_cards(self, begins: Mapping[int, float]) -> list[int]:
        return [position for position, second in begins.items() if self._is_due(second)]

    def _is_due(self, second: float) -> bool:
        return second <= self._time.seconds < second + STEP_SECONDS

    def _poll_source(self, source: _Source, poll: Poll) -> None:
        capture = self._read_capture(source, poll)
        report = source.parser.parse(capture) if capture.failure is None else None
        # With a shorter interval, readings would expire between two scrapes.
        interval = float(max(STEP_SECONDS, poll.interval))
        self._store.put(source.parser.name, poll, capture, report, result_of(capture, report, 0), interval)

    def _read_capture(self, source: _Source, poll: Poll) -> Capture:
        capture = source.reader.read(poll, Targets())
        begin, end = self.plan.incidents.silent.get(source.parser.name, (math.inf, math.inf))
        if begin <= self._time.seconds < end:
            failure = Failure("failed", "timeout", f"no answer within {poll.deadline:g} s")
            capture = replace(capture, failure=failure, outputs=(), seconds=poll.deadline)
        # A daemon would poll this often between two scrapes.
        poll_count = max(STEP_SECONDS / poll.interval, 1.0)
        return replace(
            capture,
            seconds=max(capture.seconds, self._poll_seconds(source.parser.name)),
            monotonic_time=self._time.seconds,
            wall_time=self._time.begin + self._time.seconds,
            cpu_seconds=capture.cpu_seconds * poll_count,
        )

    def _poll_seconds(self, source: str) -> float:
        usual = _LIBRARY_SECONDS if source in ("nvml", host.PARSER.name) else _TOOL_SECONDS
        return usual * self._random.uniform(0.8, 1.4)

    def _host_calls(self) -> dict[str, Call]:
        load = 22.0 if self.plan.incidents.training else 9.0

        def percent() -> float:
            return load + 3.0 * math.sin(self._time.seconds / 900.0) + self._random.uniform(-1.5, 1.5)

        return {
            "cpu": lambda: {"utilization_percent": percent()},
            "memory": lambda: {"total_bytes": _HOST_BYTES, "available_bytes": _HOST_BYTES * (1 - percent() / 60)},
            "load": lambda: {"load1": percent(), "load5": load, "load15": load},
            "uptime": lambda: {"seconds": self._time.seconds + 6.0e5},
        }


def history(begin: float) -> Iterator[str]:
    """Yield the lines of OpenMetrics from `begin` (Unix seconds) on, without HELP and TYPE lines. The last line is `# EOF`."""
    time = _Time(begin)
    nodes = [SimulatedNode(plan, time) for plan in FLEET]
    while time.seconds <= HOURS * 3600:
        for node in nodes:
            lines = [*_sample_lines(node.page()), *node.process_series()]
            labels = f'job="accelerators",instance="{node.plan.name}"'
            yield from (f"{_with_target_labels(line, labels)} {begin + time.seconds:.0f}\n" for line in lines)
        time.seconds += STEP_SECONDS
    yield "# EOF\n"


def _sample_lines(page: str) -> list[str]:
    return [line for line in page.splitlines() if not line.startswith("#")]


def _with_target_labels(line: str, labels: str) -> str:
    match = _VALUE.match(line)
    if match is None:
        raise ValueError(f"no sample: {line}")
    own_labels = f"{match['labels']}," if match["labels"] else ""
    return f"{match['name']}{{{own_labels}{labels}}} {match['value']}"
