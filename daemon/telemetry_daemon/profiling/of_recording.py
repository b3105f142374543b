"""The cards of a recording over time: its captures go through their parsers and the merge, as they do in the daemon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from telemetry_daemon.plugins.loading import load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.profiling.tracks import NEAREST_SECONDS, Moment, Track, Wanted
from telemetry_daemon.replay.tape import Tape
from telemetry_daemon.simulate.source import simulated_parser
from telemetry_daemon.state.health import SourceFacts, judge
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import Parser
from telemetry_parsers.metrics import OTHER_SENSORS
from telemetry_parsers.model import Absent, Capture, MergedDevice

# A slow poll is that far apart; what it told holds until the next.
_LONGEST_INTERVAL = 600.0


class _Played:
    """The clock of what is played."""

    def __init__(self) -> None:
        self.monotonic = self.wall = 0.0

    def clock(self) -> Clock:
        """What the store reads."""
        return Clock(lambda: self.monotonic, lambda: self.wall)


def tracks_of(tape: Tape, wanted: Sequence[Wanted]) -> list[Track]:
    """Each card with its moments near the wanted seconds. Raises RecordingError."""
    begin = min((one.begin for one in wanted), default=0.0) - NEAREST_SECONDS
    end = max((one.end for one in wanted), default=0.0) + NEAREST_SECONDS
    tracks: dict[str, Track] = {}
    played = _Played()
    store = Store("", played.clock())
    with load(find(())) as loaded:
        parsers: Mapping[str, Parser] = {item.parser.name: item.parser for item in loaded.parsers}
        known: set[str] = set()
        for capture in tape:
            parser = simulated_parser(capture) or parsers.get(capture.source)
            if parser is None or capture.wall_time > end:
                continue
            _play(capture, parser, store, known, played)
            if capture.wall_time >= begin:
                for device in store.snapshot().devices:
                    _note(device, capture.wall_time, tracks)
    return list(tracks.values())


def _play(capture: Capture, parser: Parser, store: Store, known: set[str], played: _Played) -> None:
    poll = next((one for one in parser.polls if one.name == capture.poll), None)
    if poll is None:
        return
    played.monotonic, played.wall = capture.monotonic_time, capture.wall_time
    if parser.name not in known:
        known.add(parser.name)
        store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives), parser.metrics)
    report = None if capture.failure is not None else parser.parse(capture)
    store.put(parser.name, poll, capture, report, judge(capture, report, 0), min(poll.interval, _LONGEST_INTERVAL))


def _note(device: MergedDevice, time: float, tracks: dict[str, Track]) -> None:
    if device.parent is not None:
        return
    track = tracks.setdefault(
        device.id, Track("", device.device, device.model or "", device.uuid or "", device.bus_id or "")
    )
    told = {(one.metric, one.label): one.value for one in device.readings if not isinstance(one.value, Absent)}
    track.clock_max = _highest(told, "clock_max_hertz", ("graphics", "sm")) or track.clock_max
    track.power_cap = told.get(("power_cap_watts", ""), track.power_cap)
    reasons = {label: value for (metric, label), value in told.items() if metric == "throttled"}
    sensors = [
        value
        for (metric, label), value in told.items()
        if metric == "temperature_celsius" and not label.startswith(OTHER_SENSORS)
    ]
    track.moments.append(
        Moment(
            time,
            _highest(told, "clock_hertz", ("graphics", "sm")),
            max(sensors, default=None),
            told.get(("power_watts", "")),
            frozenset(reason for reason, value in reasons.items() if value) if reasons else None,
        )
    )


def _highest(told: Mapping[tuple[str, str], float], metric: str, labels: Sequence[str]) -> float | None:
    return max((told[metric, label] for label in labels if (metric, label) in told), default=None)
