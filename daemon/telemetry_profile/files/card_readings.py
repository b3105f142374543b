"""Reads the telemetry of cards during a profile from a recording or from Prometheus."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from telemetry_parsers.metrics import OTHER_SENSORS
from telemetry_parsers.model import Absent, MergedDevice
from telemetry_profile.format_contract import Card
from telemetry_profile.verdict.summary import CardTelemetry, Match, MinMeanMax

if TYPE_CHECKING:  # this module is large, and only recordings need it
    from telemetry_daemon.recordings.recording_file import RecordingFile

# If there is no sample during a profile, the nearest sample is used if it is within this time.
_NEAREST_SECONDS = 15.0
_MAX_ERRORS = 10
_RESPONSE_SECONDS = 20.0
_MAX_BYTES = 64 << 20
_MAX_POINTS = 200
_COMPUTE_CLOCKS = 'domain=~"graphics|sm"'
_BY_CARD = "by (instance, id)"
_CARD_LABELS = ("instance", "device", "model", "uuid", "bus_id")
_Labels = Mapping[str, str]
_Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Sample:
    """The readings of a card at one time, in hertz, degrees Celsius and watts."""

    time: float
    clock: float | None = None
    temperature: float | None = None
    power: float | None = None
    reasons: frozenset[str] | None = None  # the active throttling reasons


@dataclass(slots=True)
class CardHistory:
    """The samples and the errors of one card. Each error is a pair of time and message."""

    node: str
    device: str
    model: str = ""
    uuid: str = ""
    bus_id: str = ""
    rank: str = ""
    clock_max: float | None = None
    power_cap: float | None = None
    samples: list[Sample] = field(default_factory=list)
    errors: list[tuple[float, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProfiledCard:
    """A card with its rank, and the start and end of its profile in Unix time."""

    card: Card
    rank: int | None
    begin: float
    end: float


def telemetry_of(profiled_card: ProfiledCard, histories: Sequence[CardHistory]) -> CardTelemetry | None:
    """Return the telemetry of the card. Return None if no history or more than one matches, or if there are no samples."""
    for match, matches_card in _MATCHERS:
        matches = [history for history in histories if matches_card(profiled_card, history)]
        if len(matches) == 1:
            return _create_telemetry(profiled_card, matches[0], match)
        if matches:  # several nodes have a card with this identity
            return None
    return None


def _has_same_index(profiled_card: ProfiledCard, history: CardHistory) -> bool:
    """Return whether the indices are the same. Cards with a UUID or an address are never found by their index."""
    card = profiled_card.card
    return not (card.uuid or card.bus_id) and card.index is not None and history.device == str(card.index)


def _has_same_uuid(profiled_card: ProfiledCard, history: CardHistory) -> bool:
    uuids = [uuid.lower().removeprefix("gpu-").removeprefix("mlu-") for uuid in (profiled_card.card.uuid, history.uuid)]
    return bool(profiled_card.card.uuid) and uuids[0] == uuids[1]


_MATCHERS: tuple[tuple[Match, Callable[[ProfiledCard, CardHistory], bool]], ...] = (
    ("uuid", _has_same_uuid),
    (
        "bus_id",
        lambda profiled_card, history: (
            bool(profiled_card.card.bus_id) and profiled_card.card.bus_id.lower()[-12:] == history.bus_id.lower()[-12:]
        ),
    ),
    ("rank", lambda profiled_card, history: profiled_card.rank is not None and history.rank == str(profiled_card.rank)),
    ("index", _has_same_index),
)


def _create_telemetry(profiled_card: ProfiledCard, history: CardHistory, match: Match) -> CardTelemetry | None:
    samples = _samples_during(profiled_card.begin, profiled_card.end, history.samples)
    if not samples:
        return None
    errors = [text for time, text in history.errors if profiled_card.begin - 1 <= time <= profiled_card.end + 1]
    return CardTelemetry(
        device=f"{history.node} {history.device}".strip(),
        model=history.model or None,
        matched_by=match,
        is_guess=match == "index",
        samples=len(samples),
        clock_hertz=_min_mean_max([sample.clock for sample in samples]),
        clock_max_hertz=history.clock_max,
        temperature_celsius=_min_mean_max([sample.temperature for sample in samples]),
        power_watts=_min_mean_max([sample.power for sample in samples]),
        power_cap_watts=history.power_cap,
        throttled_seconds=_throttled_seconds(samples, profiled_card.end - profiled_card.begin),
        errors=tuple(errors[:_MAX_ERRORS]),
    )


def _samples_during(begin: float, end: float, samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples from `begin` to `end` or, if there are none, the nearest sample within _NEAREST_SECONDS."""
    samples_inside = [sample for sample in samples if begin <= sample.time <= end]
    if samples_inside or not samples:
        return samples_inside
    nearest = min(samples, key=lambda sample: max(begin - sample.time, sample.time - end))
    return [nearest] if max(begin - nearest.time, nearest.time - end) <= _NEAREST_SECONDS else []


def _min_mean_max(values: Sequence[float | None]) -> MinMeanMax | None:
    numbers = [value for value in values if value is not None]
    return MinMeanMax(min(numbers), sum(numbers) / len(numbers), max(numbers)) if numbers else None


def _throttled_seconds(samples: Sequence[Sample], seconds: float) -> dict[str, float]:
    """Return the seconds for which each throttling reason was active, the longest first."""
    reason_sets = [sample.reasons for sample in samples if sample.reasons is not None]
    sample_counts = Counter(reason for reasons in reason_sets for reason in reasons)
    reasons_and_seconds = ((reason, seconds * count / len(reason_sets)) for reason, count in sample_counts.items())
    return dict(sorted(reasons_and_seconds, key=lambda pair: (-pair[1], pair[0])))


def _profiled_period(profiled_cards: Sequence[ProfiledCard]) -> tuple[float, float]:
    """Return the start and end of all profiles, with a margin for the nearest samples."""
    begin, end = min(card.begin for card in profiled_cards), max(card.end for card in profiled_cards)
    return begin - _NEAREST_SECONDS, end + _NEAREST_SECONDS


def histories_from_recording(recording: RecordingFile, profiled_cards: Sequence[ProfiledCard]) -> list[CardHistory]:
    """Return the history of each card in a recording. Raise RecordingError or CommandError if it cannot be read."""
    from telemetry_daemon.plugins.loading import load_parsers
    from telemetry_daemon.plugins.sources import find_parsers
    from telemetry_daemon.recordings.parsed_captures import StoreFeed, parsers_by_source
    from telemetry_daemon.recordings.survey import Survey, placed_captures
    from telemetry_daemon.state.store import Store
    from telemetry_daemon.times import Clock

    begin, end = _profiled_period(profiled_cards)
    histories: dict[str, CardHistory] = {}
    survey = Survey.from_captures(recording)
    monotonic = wall_time = 0.0
    clock = Clock(lambda: monotonic, lambda: wall_time)
    store = Store("", clock)
    with load_parsers(find_parsers(())) as parser_set:
        store_feed = StoreFeed(store, clock, parsers_by_source(survey, parser_set), survey.intervals())
        store_feed.add_sources()
        for placed in placed_captures(recording):
            monotonic, wall_time = placed.position, placed.capture.wall_time + placed.capture.seconds
            if placed.capture.wall_time > end:
                continue
            store_feed.put(placed.capture, placed.age)
            if placed.capture.wall_time >= begin:
                for device in store.snapshot().devices:
                    _add_sample(device, placed.capture.wall_time, histories)
    return list(histories.values())


def _add_sample(device: MergedDevice, time: float, histories: dict[str, CardHistory]) -> None:
    if device.parent is not None:
        return
    history = histories.setdefault(
        device.id, CardHistory("", device.device, device.model or "", device.uuid or "", device.bus_id or "")
    )
    readings = {
        (reading.metric, reading.label): reading.value
        for reading in device.readings
        if not isinstance(reading.value, Absent)
    }
    history.clock_max = _highest(readings, "clock_max_hertz", ("graphics", "sm")) or history.clock_max
    history.power_cap = readings.get(("power_cap_watts", ""), history.power_cap)
    reasons = {label: value for (metric, label), value in readings.items() if metric == "throttled"}
    sensors = [
        value
        for (metric, label), value in readings.items()
        if metric == "temperature_celsius" and not label.startswith(OTHER_SENSORS)
    ]
    history.samples.append(
        Sample(
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
    """Prometheus did not answer, or refused the query."""


def histories_from_prometheus(url: str, profiled_cards: Sequence[ProfiledCard]) -> list[CardHistory]:
    """Return the history of each card that Prometheus knows. Raise PrometheusError if a query fails."""
    span = _profiled_period(profiled_cards)
    cards = _query_range(url, 'accelerator_info{parent=""}', span)
    histories = {_card_key(labels): _history_from_labels(labels) for labels, _ in cards}
    run_query = partial(_query_series, url, span, histories)
    for history, _, points in run_query(f"max {_BY_CARD} (accelerator_clock_max_hertz{{{_COMPUTE_CLOCKS}}})"):
        history.clock_max = points[-1][1]
    for history, _, points in run_query(f"max {_BY_CARD} (accelerator_power_cap_watts)"):
        history.power_cap = points[-1][1]
    for history, labels, _ in run_query("accelerator_rank_info"):
        history.rank = labels.get("rank", "")
    for history, labels, points in run_query("increase(accelerator_events_total[1m]) > 0"):
        history.errors.append((points[0][0], f"event {labels.get('code', '')}"))
    for query_text, update in _SAMPLE_QUERIES:
        for history, labels, points in run_query(query_text):
            by_time = {sample.time: sample for sample in history.samples}
            by_time |= {time: update(by_time.get(time, Sample(time)), labels, value) for time, value in points}
            history.samples = [by_time[time] for time in sorted(by_time)]
    return list(histories.values())


# Each row: (query, function that adds a value with these labels to a sample).
_SAMPLE_QUERIES: tuple[tuple[str, Callable[[Sample, _Labels, float], Sample]], ...] = (
    (
        f"max {_BY_CARD} (accelerator_clock_hertz{{{_COMPUTE_CLOCKS}}})",
        lambda sample, _, value: replace(sample, clock=value),
    ),
    (
        f'max {_BY_CARD} (accelerator_temperature_celsius{{sensor!~"({"|".join(OTHER_SENSORS)}).*"}})',
        lambda sample, _, value: replace(sample, temperature=value),
    ),
    (f"max {_BY_CARD} (accelerator_power_watts)", lambda sample, _, value: replace(sample, power=value)),
    (
        "max by (instance, id, reason) (accelerator_throttled)",
        lambda sample, labels, value: replace(
            sample, reasons=(sample.reasons or frozenset()) | ({labels.get("reason", "")} if value else set())
        ),
    ),
)


def _history_from_labels(labels: _Labels) -> CardHistory:
    node, device, model, uuid, bus_id = (labels.get(name, "") for name in _CARD_LABELS)
    return CardHistory(node, device, model, uuid, bus_id)


def _query_series(
    url: str, span: tuple[float, float], histories: Mapping[tuple[str, str], CardHistory], query: str
) -> Iterator[tuple[CardHistory, _Labels, _Points]]:
    """Query Prometheus, and yield (history, labels, points) for each series of a known card."""
    for labels, points in _query_range(url, query, span):
        if points and (history := histories.get(_card_key(labels))):
            yield history, labels, points


def _card_key(labels: _Labels) -> tuple[str, str]:
    return labels.get("instance", ""), labels.get("id", "")


def _query_range(url: str, query: str, span: tuple[float, float]) -> Iterator[tuple[_Labels, _Points]]:
    step = max(1.0, (span[1] - span[0]) / _MAX_POINTS)
    times = {"start": f"{span[0]:.3f}", "end": f"{span[1]:.3f}", "step": f"{step:.3f}"}
    parameters = urllib.parse.urlencode({"query": query, **times})
    document = _get_json(url, f"{url.rstrip('/')}/api/v1/query_range?{parameters}")
    try:
        for series in document["data"]["result"]:
            points = [(float(time), float(value)) for time, value in series["values"]]
            yield {str(name): str(text) for name, text in series["metric"].items()}, points
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PrometheusError(f"{url} returned no query result; pass the address of a Prometheus server") from None


def _get_json(server: str, url: str) -> Any:  # JSON of any shape
    if not url.startswith(("http://", "https://")):
        raise PrometheusError(f"'{server}' is not the address of a Prometheus server, such as http://prometheus:9090")
    try:
        with urllib.request.urlopen(url, timeout=_RESPONSE_SECONDS) as response:  # noqa: S310  # only http or https
            document = json.loads(response.read(_MAX_BYTES))
    except urllib.error.HTTPError as error:
        raise PrometheusError(
            f"{server} refused the query with status {error.code}; check the address and its password"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise PrometheusError(f"{server} did not answer ({reason}); check the address") from None
    if not isinstance(document, dict) or document.get("status") != "success":
        raise PrometheusError(f"{server} returned no query result; pass the address of a Prometheus server")
    return document
