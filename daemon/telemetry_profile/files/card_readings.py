"""The readings of cards at the time of a profile, from a recording or from Prometheus."""

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

# A step may be shorter than the time between two polls: then the nearest sample counts.
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
    """The readings of a card at one time; `throttled` contains the active reasons."""

    time: float
    clock: float | None = None
    temperature: float | None = None
    power: float | None = None
    throttled: frozenset[str] | None = None


@dataclass(slots=True)
class Track:
    """The readings of one card of one node; `errors` are times with messages."""

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
    """A card of the profile, and the Unix times of the profile."""

    card: Card
    rank: int | None
    begin: float
    end: float


def then_of(wanted: Wanted, tracks: Sequence[Track]) -> Then | None:
    """Return the telemetry of the card at the time of the profile; None if no card matches or nothing was reported."""
    for match, fits in _WAYS:
        found = [track for track in tracks if fits(wanted, track)]
        if len(found) == 1:
            return _then(wanted, found[0], match)
        if found:  # several nodes have such a card
            return None
    return None


def _same_index(wanted: Wanted, track: Track) -> bool:
    """Return whether the indices are equal. This is a guess, only for a card that has neither a uuid nor a bus address."""
    card = wanted.card
    return not (card.uuid or card.bus_id) and card.index is not None and track.device == str(card.index)


_WAYS: tuple[tuple[Match, Callable[[Wanted, Track], bool]], ...] = (
    ("uuid", lambda wanted, track: bool(wanted.card.uuid) and _bare(wanted.card.uuid) == _bare(track.uuid)),
    (
        "bus_id",
        lambda wanted, track: (
            bool(wanted.card.bus_id) and wanted.card.bus_id.lower()[-12:] == track.bus_id.lower()[-12:]
        ),
    ),
    ("rank", lambda wanted, track: wanted.rank is not None and track.rank == str(wanted.rank)),
    ("index", _same_index),
)


def _bare(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").removeprefix("mlu-")


def _then(wanted: Wanted, track: Track, match: Match) -> Then | None:
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
    """Return the moments at the time of the profile; otherwise the nearest moment if it is near enough."""
    inside = [moment for moment in moments if wanted.begin <= moment.time <= wanted.end]
    if inside or not moments:
        return inside
    nearest = min(moments, key=lambda moment: max(wanted.begin - moment.time, moment.time - wanted.end))
    return [nearest] if max(wanted.begin - nearest.time, nearest.time - wanted.end) <= _NEAREST_SECONDS else []


def _spread(values: Sequence[float | None]) -> Spread | None:
    found = [value for value in values if value is not None]
    return Spread(min(found), sum(found) / len(found), max(found)) if found else None


def _throttled(moments: Sequence[Moment], seconds: float) -> dict[str, float]:
    """Return the seconds of each reason, the longest first."""
    at_moments = [moment.throttled for moment in moments if moment.throttled is not None]
    reasons = {reason for held in at_moments for reason in held}
    parts = ((reason, seconds * sum(reason in held for held in at_moments) / len(at_moments)) for reason in reasons)
    return dict(sorted(parts, key=lambda part: (-part[1], part[0])))


def _span(wanted: Sequence[Wanted]) -> tuple[float, float]:
    """Return the time of all cards, extended to the nearest samples."""
    begin, end = min(card.begin for card in wanted), max(card.end for card in wanted)
    return begin - _NEAREST_SECONDS, end + _NEAREST_SECONDS


def tracks_of_recording(tape: RecordingFile, wanted: Sequence[Wanted]) -> list[Track]:
    """Return the readings of each card, parsed and merged as in the daemon. Raise RecordingError, or CommandError without a parser."""
    from telemetry_daemon.plugins.loading import load
    from telemetry_daemon.plugins.sources import find
    from telemetry_daemon.recordings.parsed_captures import StoreFeed, parsers_of
    from telemetry_daemon.recordings.survey import Survey, placed_captures
    from telemetry_daemon.state.store import Store
    from telemetry_daemon.times import Clock

    begin, end = _span(wanted)
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
            if placed.capture.wall_time > end:
                continue
            stage.put(placed.capture, placed.age)
            if placed.capture.wall_time >= begin:
                for device in store.snapshot().devices:
                    _add_moment(device, placed.capture.wall_time, tracks)
    return list(tracks.values())


def _add_moment(device: MergedDevice, time: float, tracks: dict[str, Track]) -> None:
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
    """Prometheus did not answer; the message states the reason and the remedy."""


def tracks_of_prometheus(url: str, wanted: Sequence[Wanted]) -> list[Track]:
    """Return the readings of each card that was scraped at that time. Raise PrometheusError."""
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
    for text, updated in _READINGS:
        for track, labels, points in query(text):
            at_times = {moment.time: moment for moment in track.moments}
            at_times |= {time: updated(at_times.get(time, Moment(time)), labels, value) for time, value in points}
            track.moments = [at_times[time] for time in sorted(at_times)]
    return list(tracks.values())


# The queries, and how their values update a moment.
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
    url: str, span: tuple[float, float], tracks: Mapping[tuple[str, str], Track], query: str
) -> Iterator[tuple[Track, _Labels, _Points]]:
    """Yield each series of a listed card with its labels and points."""
    for labels, points in _range(url, query, span):
        if points and (track := tracks.get(_key(labels))):
            yield track, labels, points


def _key(labels: _Labels) -> tuple[str, str]:
    return labels.get("instance", ""), labels.get("id", "")


def _range(url: str, query: str, span: tuple[float, float]) -> Iterator[tuple[_Labels, _Points]]:
    """Yield the labels and points of each series."""
    step = max(1.0, (span[1] - span[0]) / _MOST_POINTS)
    times = {"start": f"{span[0]:.3f}", "end": f"{span[1]:.3f}", "step": f"{step:.3f}"}
    answer = _get(url, f"{url.rstrip('/')}/api/v1/query_range?{urllib.parse.urlencode({'query': query, **times})}")
    try:
        for series in answer["data"]["result"]:
            points = [(float(time), float(value)) for time, value in series["values"]]
            yield {str(name): str(text) for name, text in series["metric"].items()}, points
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PrometheusError(f"{url} does not answer as Prometheus does; give the address of its web page") from None


def _get(url: str, address: str) -> Any:  # JSON of any shape
    if not address.startswith(("http://", "https://")):
        raise PrometheusError(f"'{url}' is not an address of Prometheus, such as http://prometheus:9090")
    try:
        with urllib.request.urlopen(address, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310  # http or https, as the user said
            document = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise PrometheusError(
            f"{url} refused the query with status {error.code}; check the password and the path in the address"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise PrometheusError(f"{url} did not answer ({reason}); check the address") from None
    if not isinstance(document, dict) or document.get("status") != "success":
        raise PrometheusError(f"{url} does not answer as Prometheus does; give the address of its web page")
    return document
