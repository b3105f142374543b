"""A daemon whose cards a test controls: `python -m kits.staged_node STAGE serve`, with the flags of `serve`.

STAGE is a JSON file, which is read again before each poll:

- `cards`: the simulated cards of the node, in the syntax of `--demo`;
- `lasting`: `[act, positions]`, repeated as long as the file contains it;
- `once`: `[act, positions]`, done once for each added entry;
- `readings`: `[position, metric, label, value]`, replaces the simulator's reading; a word is the reason of an absence;
- `models`: a card's model by its position; `problems`: `[where, text]`; `events`: `[position, code, text]`, reported at each poll;
- `owners`: `[position, kind, name, user]`, the owner of a card, shown if `attribution.enabled` is set.

The cards are not marked as simulated, so that the daemon remembers them as real ones.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from telemetry_daemon.commands import options
from telemetry_daemon.config import file
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.plugins.loading import ParserSet
from telemetry_daemon.polling.node_sources import Node, empty_pci_view, ignore_capture
from telemetry_daemon.polling.source import OnCapture, Source
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.host import HostReader
from telemetry_daemon.recordings.last_minutes import CaptureFeed
from telemetry_daemon.service.daemon import Service, ServiceArguments
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_daemon.simulate.simulation import NO_FAULTS, Simulation
from telemetry_daemon.simulate.source import DEFAULT_SEED, SimulatedReader, parser_of
from telemetry_daemon.simulate.workload import PATTERNS, Job
from telemetry_daemon.terminal import log
from telemetry_daemon.times import Clock
from telemetry_parsers import host
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Absent, Capture, Event, Failure, Poll, Problem, Reading, Report
from telemetry_parsers.ownership import Claim, DeviceName, Owner
from telemetry_parsers.vendors import VENDOR_BY_WORD

# A lasting act is repeated at every poll, and lasts longer than a poll interval.
_WHILE_SECONDS = 10.0
_FOR_EVER = 1e9
_TRAINING = PATTERNS[0]


def _act(simulation: Simulation, position: int, act: str) -> None:
    """Apply an act to a card; an unknown word is the code of an event."""
    card, until = simulation.cards[position], simulation.now + _WHILE_SECONDS
    match act:
        case "lost":
            card.lost_from, card.lost_until = simulation.now, until
        case "hot":
            card.hot_until = until
        case "link down":
            card.links_down[0] = until
        case "slow":
            card.slow_until = until
        case "uncorrected error":
            card.uncorrected_errors += 1
        case "reset":
            card.reset()
        case _:
            _act_on_work(simulation, position, act)


def _act_on_work(simulation: Simulation, position: int, act: str) -> None:
    match act:
        case "hung":
            simulation.workload.hang((position,), simulation.now + _WHILE_SECONDS)
        case "idle":
            simulation.workload.jobs[position] = None
        case "training":  # for ever, also on a card that was lost
            if simulation.cards[position].is_lost(simulation.now):
                simulation.cards[position].reset()
            simulation.workload.jobs[position] = Job(_TRAINING, (position,), simulation.now, _FOR_EVER, 0.8, 4711)
        case "hung tool":  # done by the reader
            pass
        case _:
            simulation.events.append((simulation.now, position, act))


@dataclass
class StagedReader:
    """Performs the acts of the stage, then answers as the simulator does; the poll `hung tool` fails."""

    stage: Path
    simulation: Simulation
    reader: SimulatedReader
    done: int = 0

    def read(self, poll: Poll, targets: Targets) -> Capture:
        stage = read_stage(self.stage)
        for act, positions in (*stage["once"][self.done :], *stage["lasting"]):
            for position in positions:
                _act(self.simulation, position, act)
        self.done = len(stage["once"])
        capture = self.reader.read(poll, targets)
        if any(act == "hung tool" for act, _ in stage["lasting"]):
            return replace(capture, outputs=(), failure=Failure("failed", "timeout", "no answer in time (staged)"))
        return capture

    def close(self) -> None:
        self.reader.close()

    def leftover_pids(self) -> tuple[int, ...]:
        return ()


def read_stage(path: Path) -> Any:
    empty = {"once": [], "lasting": [], "readings": [], "models": {}, "problems": [], "events": [], "owners": []}
    return {**empty, **json.loads(path.read_text())}


class StagedNode(Node):
    """The simulated cards of a stage, and this machine's host."""

    def __init__(self, stage: Path, clock: Clock, tap: OnCapture = ignore_capture) -> None:
        super().__init__(ParserSet(), clock)
        self._tap = tap
        self._staged: dict[str, tuple[Parser, StagedReader]] = {}
        for slot, (word, count) in enumerate(parse_demo(read_stage(stage)["cards"])):
            vendor = VENDOR_BY_WORD[word]
            simulation = Simulation(vendor, count, DEFAULT_SEED, NO_FAULTS)
            reader = SimulatedReader(vendor, simulation, clock, first_slot=100 * slot)
            parser = parser_of(vendor)
            self._staged[parser.name] = (
                replace(parser, parse=_as_staged(parser, stage)),
                StagedReader(stage, simulation, reader),
            )

    def names(self) -> tuple[str, ...]:
        return (*self._staged, host.PARSER.name)

    def source(self, name: str, settings: Settings) -> Source:
        parser, reader = self._staged.get(name, (host.PARSER, HostReader()))
        readers = {poll.name: reader for poll in parser.polls}
        return Source(parser, readers, settings.source(name), empty_pci_view, self._clock, self._tap)


def _as_staged(parser: Parser, stage: Path) -> Callable[[Capture], Report]:
    def parse(capture: Capture) -> Report:
        staged, report = read_stage(stage), parser.parse(capture)
        # Positions by card, because the tool lists no lost card.
        positions = {device.index: position for position, device in enumerate(report.devices)}
        replaced = {(positions.get(card), metric) for card, metric, *_ in staged["readings"]}
        others = [reading for reading in report.readings if (reading.device, reading.metric) not in replaced]
        devices = (
            replace(device, simulated=False, model=staged["models"].get(str(device.index), device.model))
            for device in report.devices
        )
        report = replace(report, devices=tuple(devices), readings=tuple(others))
        return (
            _with_staged_values(report, staged, capture.wall_time, positions) if capture.poll == "readings" else report
        )

    return parse


def _with_staged_values(
    report: Report, staged: Mapping[str, Any], now: float, positions: Mapping[int | None, int]
) -> Report:
    readings = (
        Reading(positions[card], metric, Absent(value) if isinstance(value, str) else float(value), label)
        for card, metric, label, value in staged["readings"]
        if card in positions
    )
    events = (Event(positions[card], code, text, now) for card, code, text in staged["events"] if card in positions)
    return replace(
        report,
        readings=(*report.readings, *readings),
        problems=tuple(Problem(where, text) for where, text in staged["problems"]) if positions else report.problems,
        events=(*report.events, *events),
        claims=tuple(
            Claim(Owner(kind, name, user=user), names=(DeviceName(str(card), "index", str(card)),))
            for card, kind, name, user in staged["owners"]
        ),
    )


def main() -> None:
    stage, arguments = Path(sys.argv[1]), argparse.ArgumentParser()
    options.add_config(arguments)
    options.add_setting_flags(arguments)
    inputs = options.settings_inputs(arguments.parse_args(sys.argv[3:]))
    settings = file.load(inputs)
    log.setup(settings.log.level, settings.log.format)
    clock = Clock()
    tap = CaptureFeed()
    service = Service(
        ServiceArguments(settings, lambda: file.load(inputs), capture_feed=tap), StagedNode(stage, clock, tap), clock
    )

    async def serve() -> None:
        log.exit_at_once(await service.run())

    asyncio.run(serve())


if __name__ == "__main__":
    main()
