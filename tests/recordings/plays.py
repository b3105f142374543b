"""Recordings of an invented tool, and the temperatures that a player shows."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kits.waiting import comes_true
from telemetry_daemon.plugins.loading import LoadedParser, ParserSet
from telemetry_daemon.recordings.playback import PlaybackOptions
from telemetry_daemon.recordings.recorder import Recorder
from telemetry_daemon.recordings.replay_node import ReplayNode
from telemetry_daemon.recordings.survey import parse_time
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.events import Events
from telemetry_daemon.state.history import History
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Device, Event, Failure, Library, Output, Poll, Reading, Report

AS_IT_WAS = PlaybackOptions()
BEGUN = 1_795_000_000.0
POLLS = (Poll("fast", Library("x"), "fast", 1.0), Poll("slow", Library("x"), "slow", 60.0, lists_devices=False))


def parse(capture: Capture) -> Report:
    """Parse `41 55 lost xid`: the temperature of each card; a lost card is not listed; the last may have an event."""
    words = capture.outputs[0].text.split()
    if "bug" in words:
        raise ValueError("a bug of the parser")
    cards = [index for index, word in enumerate(words) if word not in ("lost", "xid")]
    devices = tuple(Device("acme", index, uuid=f"ACME-{index}", model="A1") for index in cards)
    readings = tuple(
        Reading(position, "temperature_celsius", float(words[index]), "core") for position, index in enumerate(cards)
    )
    events = (Event(len(cards) - 1, "xid_79"),) if "xid" in words else ()
    lists = devices if capture.poll == "fast" else ()
    return Report(devices=lists, readings=readings if lists else (), events=events if lists else ())


PARSER = SourceParser("smi", "acme", ("temperature_celsius",), POLLS, parse)
LOADED = ParserSet((LoadedParser(PARSER, "tests", is_isolated=False),))


def capture(at: float, text: str, poll: str = "fast", failure: Failure | None = None, source: str = "smi") -> Capture:
    request = POLLS[0].request
    return Capture(source, poll, request, (Output(text=text),), failure, 0.1, 0.0, BEGUN + at - 0.1, 5000.0 + at - 0.1)


@dataclass
class Played:
    node: ReplayNode
    store: Store
    history: History

    def temperatures(self) -> list[float | None]:
        return [
            next(
                (
                    reading.value
                    for reading in device.readings
                    if (reading.metric, reading.label) == ("temperature_celsius", "core")
                ),
                None,
            )
            for device in self.store.snapshot().devices
        ]

    def comes(self, *temperatures: float | None) -> bool:
        return comes_true(lambda: self.temperatures() == list(temperatures))

    def events(self) -> float:
        return sum(
            reading.value
            for device in self.store.snapshot().devices
            for reading in device.readings
            if reading.metric == "events_total"
        )


def made(tmp_path: Path, captures: list[Capture], playing: PlaybackOptions = AS_IT_WAS, at: str = "") -> Played:
    path = tmp_path / "recording.jsonl.gz"
    with Recorder.to_file(path) as recorder:
        for capture in captures:
            recorder.add(capture)
    return made_of(path, playing, at)


def made_of(path: Path, playing: PlaybackOptions, at: str = "") -> Played:
    node = ReplayNode(path, LOADED, Clock(), playing, parse_time(at) if at else None)
    history = History(node.clock)
    return Played(node, Store("", node.clock, (), Accumulator(Events(), history), node.replay_info), history)


@contextmanager
def played(
    tmp_path: Path, captures: list[Capture], playing: PlaybackOptions = AS_IT_WAS, at: str = ""
) -> Iterator[Played]:
    it = made(tmp_path, captures, playing, at)
    it.node.start_filling(it.store, it.history)
    try:
        yield it
    finally:
        it.node.close()


def shown(tmp_path: Path, captures: list[Capture], at: str = "end") -> Played:
    it = made(tmp_path, captures, at=at)
    it.node.fill(it.store, it.history)
    return it


MINUTE = [capture(0, "40 50", "slow"), *(capture(at, f"{40 + at} 50") for at in range(60)), capture(60, "99 lost")]
