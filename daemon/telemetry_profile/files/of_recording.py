"""The cards of a recording over time: its captures go through their parsers and the merge, as they do in the daemon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from telemetry_daemon.plugins.loading import load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.replay.places import Survey, placed
from telemetry_daemon.replay.stage import Stage, parsers_of
from telemetry_daemon.replay.tape import Tape
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.metrics import OTHER_SENSORS
from telemetry_parsers.model import Absent, MergedDevice
from telemetry_profile.files.tracks import NEAREST_SECONDS, Moment, Track, Wanted


def tracks_of(tape: Tape, wanted: Sequence[Wanted]) -> list[Track]:
    """Each card with its moments near the wanted seconds. Raises RecordingError, and CommandError if no parser reads it."""
    begin = min((one.begin for one in wanted), default=0.0) - NEAREST_SECONDS
    end = max((one.end for one in wanted), default=0.0) + NEAREST_SECONDS
    tracks: dict[str, Track] = {}
    survey = Survey.of(tape)
    monotonic = wall = 0.0
    clock = Clock(lambda: monotonic, lambda: wall)
    store = Store("", clock)
    with load(find(())) as loaded:
        stage = Stage(store, clock, parsers_of(survey, loaded), survey.intervals())
        stage.set()
        for one in placed(tape):
            monotonic, wall = one.place, one.capture.wall_time + one.capture.seconds
            if one.capture.wall_time > end:
                continue
            stage.put(one.capture, one.age)
            if one.capture.wall_time >= begin:
                for device in store.snapshot().devices:
                    _note(device, one.capture.wall_time, tracks)
    return list(tracks.values())


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
