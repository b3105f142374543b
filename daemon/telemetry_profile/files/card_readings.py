"""The readings of cards over time, from a recording or a Prometheus, and those within the seconds of a profile."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from telemetry_parsers.metrics import OTHER_SENSORS
from telemetry_parsers.model import Absent, MergedDevice
from telemetry_profile.format_contract import Card
from telemetry_profile.verdict.summary import Match, Spread, Then

if TYPE_CHECKING:  # for recordings only, and large
    from telemetry_daemon.recordings.recording_file import RecordingFile

# A step is shorter than the time between two polls: then the nearest sample tells.
_NEAREST_SECONDS = 15.0
_MOST_ERRORS = 10
_ANSWER_SECONDS = 20.0
_MOST_BYTES = 64 << 20
_MOST_POINTS = 200
_COMPUTING = 'domain=~"graphics|sm"'
_BY_CARD = "by (instance, id)"
_CARD_LABELS = ("instance", "device", "model", "uuid", "bus_id")
_Labels = Mapping[str, str]
_Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Moment:
    """A card at one time; None for missing readings. `throttled` has the reasons that held at that time."""

    time: float
    clock: float | None = None
    temperature: float | None = None
    power: float | None = None
    throttled: frozenset[str] | None = None


@dataclass(slots=True)
class Track:
    """One card of one node. `errors` are times with sentences."""

    node: str
    device: str
    model: str = ""
    uuid: str = ""
    bus_id: str = ""
    rank: str = ""
    clock_max: float | None = None
    power_cap: float | None = None
    moments: list[Moment] = field(default_factory=list)
    errors: list[tuple[float, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A card of the profile, and its seconds; times are Unix seconds."""

    card: Card
    rank: int | None
    begin: float
    end: float


def then_of(wanted: Wanted, tracks: Sequence[Track]) -> Then | None:
    """What telemetry reported of the card in these seconds; None where no card fits, or nothing was reported."""
    for match, fits in _WAYS:
        found = [track for track in tracks if fits(wanted, track)]
        if len(found) == 1:
            return _told(wanted, found[0], match)
        if found:  # several nodes have such a card: it is unknown which is meant
            return None
    return None


def _same_uuid(wanted: Wanted, track: Track) -> bool:
    return bool(wanted.card.uuid) and _bare(wanted.card.uuid) == _bare(track.uuid)


def _same_bus_id(wanted: Wanted, track: Track) -> bool:
    return bool(wanted.card.bus_id) and wanted.card.bus_id.lower()[-12:] == track.bus_id.lower()[-12:]


def _same_rank(wanted: Wanted, track: Track) -> bool:
    return wanted.rank is not None and track.rank == str(wanted.rank)


def _same_index(wanted: Wanted, track: Track) -> bool:
    """The number of the card among those of the job, which may be another's among those of the node."""
    known = wanted.card.uuid or wanted.card.bus_id  # then it is known that none of these cards is meant
    return not known and wanted.card.index is not None and track.device == str(wanted.card.index)


_WAYS: tuple[tuple[Match, Callable[[Wanted, Track], bool]], ...] = (
    ("uuid", _same_uuid),
    ("bus_id", _same_bus_id),
    ("rank", _same_rank),
    ("index", _same_index),
)


def _bare(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").removeprefix("mlu-")


def _told(wanted: Wanted, track: Track, match: Match) -> Then | None:
    moments = _within(wanted, track.moments)
    if not moments:
        return None
    return Then(
        device=f"{track.node} {track.device}".strip(),
        model=track.model or None,
        matched_by=match,
        is_guess=match == "index",
        samples=len(moments),
        clock_hertz=_spread([moment.clock for moment in moments]),
        clock_max_hertz=track.clock_max,
        temperature_celsius=_spread([moment.temperature for moment in moments]),
        power_watts=_spread([moment.power for moment in moments]),
        power_cap_watts=track.power_cap,
        throttled_seconds=_throttled(moments, wanted.end - wanted.begin),
        errors=tuple(text for time, text in track.errors if wanted.begin - 1 <= time <= wanted.end + 1)[:_MOST_ERRORS],
    )


def _within(wanted: Wanted, moments: Sequence[Moment]) -> list[Moment]:
    """The moments in the seconds; where there is none, the nearest one that is near enough."""
    inside = [moment for moment in moments if wanted.begin <= moment.time <= wanted.end]
    if inside or not moments:
        return inside
    nearest = min(moments, key=lambda moment: max(wanted.begin - moment.time, moment.time - wanted.end))
    return [nearest] if max(wanted.begin - nearest.time, nearest.time - wanted.end) <= _NEAREST_SECONDS else []


def _spread(values: Sequence[float | None]) -> Spread | None:
    known = [value for value in values if value is not None]
    return Spread(min(known), sum(known) / len(known), max(known)) if known else None


def _throttled(moments: Sequence[Moment], seconds: float) -> dict[str, float]:
    """Each reason with its part of the seconds, the longest first."""
    at_moments = [moment.throttled for moment in moments if moment.throttled is not None]
    reasons = {reason for held in at_moments for reason in held}
    parts = ((reason, seconds * sum(reason in held for held in at_moments) / len(at_moments)) for reason in reasons)
    return dict(sorted(parts, key=lambda part: (-part[1], part[0])))


@dataclass(frozen=True, slots=True)
class _Span:
    begin: float
    end: float

    @property
    def step(self) -> float:
        """So that there are not too many points."""
        return max(1.0, (self.end - self.begin) / _MOST_POINTS)


def _span(wanted: Sequence[Wanted]) -> _Span:
    """The seconds that matter."""
    return _Span(
        min((card.begin for card in wanted), default=0.0) - _NEAREST_SECONDS,
        max((card.end for card in wanted), default=0.0) + _NEAREST_SECONDS,
    )


def tracks_of_recording(tape: RecordingFile, wanted: Sequence[Wanted]) -> list[Track]:
    """Each card with its moments near the wanted seconds. Raises RecordingError, and CommandError if no parser reads it.

    The captures go through their parsers and the merge, as they do in the daemon.
    """
    from telemetry_daemon.plugins.loading import load
    from telemetry_daemon.plugins.sources import find
    from telemetry_daemon.recordings.parsed_captures import StoreFeed, parsers_of
    from telemetry_daemon.recordings.survey import Survey, placed_captures
    from telemetry_daemon.state.store import Store
    from telemetry_daemon.times import Clock

    span = _span(wanted)
    tracks: dict[str, Track] = {}
    survey = Survey.of(tape)
    monotonic = wall = 0.0
    clock = Clock(lambda: monotonic, lambda: wall)
    store = Store("", clock)
    with load(find(())) as loaded:
        stage = StoreFeed(store, clock, parsers_of(survey, loaded), survey.intervals())
        stage.set()
        for placed in placed_captures(tape):
            monotonic, wall = placed.position, placed.capture.wall_time + placed.capture.seconds
            if placed.capture.wall_time > span.end:
                continue
            stage.put(placed.capture, placed.age)
            if placed.capture.wall_time >= span.begin:
                for device in store.snapshot().devices:
                    _note_device(device, placed.capture.wall_time, tracks)
    return list(tracks.values())


def _note_device(device: MergedDevice, time: float, tracks: dict[str, Track]) -> None:
    if device.parent is not None:
        return
    track = tracks.setdefault(
        device.id, Track("", device.device, device.model or "", device.uuid or "", device.bus_id or "")
    )
    readings = {
        (reading.metric, reading.label): reading.value
        for reading in device.readings
        if not isinstance(reading.value, Absent)
    }
    track.clock_max = _highest(readings, "clock_max_hertz", ("graphics", "sm")) or track.clock_max
    track.power_cap = readings.get(("power_cap_watts", ""), track.power_cap)
    reasons = {label: value for (metric, label), value in readings.items() if metric == "throttled"}
    sensors = [
        value
        for (metric, label), value in readings.items()
        if metric == "temperature_celsius" and not label.startswith(OTHER_SENSORS)
    ]
    track.moments.append(
        Moment(
            time,
            _highest(readings, "clock_hertz", ("graphics", "sm")),
            max(sensors, default=None),
            readings.get(("power_watts", "")),
            frozenset(reason for reason, value in reasons.items() if value) if reasons else None,
        )
    )


def _highest(readings: Mapping[tuple[str, str], float], metric: str, labels: Sequence[str]) -> float | None:
    return max((readings[metric, label] for label in labels if (metric, label) in readings), default=None)


class PrometheusError(Exception):
    """A Prometheus that gave no answer; says why, and what to do."""


def tracks_of_prometheus(url: str, wanted: Sequence[Wanted]) -> list[Track]:
    """Each card that was scraped then, with its moments. Raises PrometheusError."""
    span = _span(wanted)
    cards = _range(url, 'accelerator_info{parent=""}', span)
    tracks = {_key(labels): _card(labels) for labels, _ in cards}
    query = partial(_of_cards, url, span, tracks)
    for track, _, points in query(f"max {_BY_CARD} (accelerator_clock_max_hertz{{{_COMPUTING}}})"):
        track.clock_max = points[-1][1]
    for track, _, points in query(f"max {_BY_CARD} (accelerator_power_cap_watts)"):
        track.power_cap = points[-1][1]
    for track, labels, _ in query("accelerator_rank_info"):
        track.rank = labels.get("rank", "")
    for track, labels, points in query("increase(accelerator_events_total[1m]) > 0"):
        track.errors.append((points[0][0], f"event {labels.get('code', '')}"))
    for text, take in _READINGS:
        for track, labels, points in query(text):
            at_times = {moment.time: moment for moment in track.moments}
            at_times |= {time: take(at_times.get(time, Moment(time)), labels, value) for time, value in points}
            track.moments = [at_times[time] for time in sorted(at_times)]
    return list(tracks.values())


# How a moment takes up the value of each query.
_READINGS: tuple[tuple[str, Callable[[Moment, _Labels, float], Moment]], ...] = (
    (
        f"max {_BY_CARD} (accelerator_clock_hertz{{{_COMPUTING}}})",
        lambda moment, _, value: replace(moment, clock=value),
    ),
    (
        f'max {_BY_CARD} (accelerator_temperature_celsius{{sensor!~"({"|".join(OTHER_SENSORS)}).*"}})',
        lambda moment, _, value: replace(moment, temperature=value),
    ),
    (f"max {_BY_CARD} (accelerator_power_watts)", lambda moment, _, value: replace(moment, power=value)),
    (
        "max by (instance, id, reason) (accelerator_throttled)",
        lambda moment, labels, value: replace(
            moment, throttled=(moment.throttled or frozenset()) | ({labels.get("reason", "")} if value else set())
        ),
    ),
)


def _card(labels: _Labels) -> Track:
    node, device, model, uuid, bus_id = (labels.get(name, "") for name in _CARD_LABELS)
    return Track(node, device, model, uuid, bus_id)


def _of_cards(
    url: str, span: _Span, tracks: Mapping[tuple[str, str], Track], query: str
) -> Iterator[tuple[Track, _Labels, _Points]]:
    """Each series of a known card, with its labels and points."""
    for labels, points in _range(url, query, span):
        if points and (track := tracks.get(_key(labels))):
            yield track, labels, points


def _key(labels: _Labels) -> tuple[str, str]:
    return labels.get("instance", ""), labels.get("id", "")


def _range(url: str, query: str, span: _Span) -> Iterator[tuple[_Labels, _Points]]:
    """Each series with its points."""
    asked = urllib.parse.urlencode(
        {"query": query, "start": f"{span.begin:.3f}", "end": f"{span.end:.3f}", "step": f"{span.step:.3f}"}
    )
    answer = _get(url, f"{url.rstrip('/')}/api/v1/query_range?{asked}")
    try:
        for series in answer["data"]["result"]:
            points = [(float(time), float(value)) for time, value in series["values"]]
            yield {str(name): str(text) for name, text in series["metric"].items()}, points
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PrometheusError(f"{url} does not answer as Prometheus does; give the address of its web page") from None


def _get(url: str, address: str) -> Any:  # JSON of any shape
    if not address.startswith(("http://", "https://")):
        raise PrometheusError(f"'{url}' is no address of a Prometheus, such as http://prometheus:9090")
    try:
        with urllib.request.urlopen(address, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310  # http or https, as the user said
            document = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise PrometheusError(
            f"{url} refused the query with status {error.code}; does it want a password, or a longer path?"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise PrometheusError(f"{url} did not answer ({reason}); check the address") from None
    if not isinstance(document, dict) or document.get("status") != "success":
        raise PrometheusError(f"{url} does not answer as Prometheus does; give the address of its web page")
    return document
