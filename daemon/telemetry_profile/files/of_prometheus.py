"""The cards of all nodes that a Prometheus scrapes, over the seconds of a profile."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from telemetry_parsers.metrics import OTHER_SENSORS
from telemetry_profile.files.tracks import NEAREST_SECONDS, Moment, Track, Wanted

_SECONDS = 20.0
_MOST_BYTES = 64 << 20
_MOST_POINTS = 200
_COMPUTING = 'domain=~"graphics|sm"'
_BY_CARD = "by (instance, id)"
_KEY = ("instance", "id")


class PrometheusError(Exception):
    """A Prometheus that gave no answer; says why, and what to do."""


@dataclass(frozen=True, slots=True)
class _Span:
    begin: float
    end: float

    @property
    def step(self) -> float:
        """So that there are not too many points."""
        return max(1.0, (self.end - self.begin) / _MOST_POINTS)


def tracks_of(url: str, wanted: Sequence[Wanted]) -> list[Track]:
    """Each card that was scraped then, with its moments. Raises PrometheusError."""
    span = _Span(
        min((one.begin for one in wanted), default=0.0) - NEAREST_SECONDS,
        max((one.end for one in wanted), default=0.0) + NEAREST_SECONDS,
    )
    tracks = dict(_cards(url, span))
    for labels, points in _range(url, f"max {_BY_CARD} (accelerator_clock_max_hertz{{{_COMPUTING}}})", span):
        if track := tracks.get(_key(labels)):
            track.clock_max = points[-1][1]
    for labels, points in _range(url, f"max {_BY_CARD} (accelerator_power_cap_watts)", span):
        if track := tracks.get(_key(labels)):
            track.power_cap = points[-1][1]
    for labels, points in _range(url, "accelerator_rank_info", span):
        if points and (track := tracks.get(_key(labels))):
            track.rank = labels.get("rank", "")
    _fill(url, span, tracks)
    return list(tracks.values())


def _cards(url: str, span: _Span) -> Iterator[tuple[tuple[str, str], Track]]:
    for labels, _ in _range(url, 'accelerator_info{parent=""}', span):
        yield (
            _key(labels),
            Track(
                labels.get("instance", ""),
                labels.get("device", ""),
                labels.get("model", ""),
                labels.get("uuid", ""),
                labels.get("bus_id", ""),
            ),
        )


# How a moment takes up the value of each query.
_READINGS: tuple[tuple[str, Callable[[Moment, Mapping[str, str], float], Moment]], ...] = (
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


def _fill(url: str, span: _Span, tracks: Mapping[tuple[str, str], Track]) -> None:
    moments: dict[tuple[str, str], dict[float, Moment]] = {}
    for text, take in _READINGS:
        for labels, points in _range(url, text, span):
            of_card = moments.setdefault(_key(labels), {})
            for time, value in points:
                of_card[time] = take(of_card.get(time, Moment(time)), labels, value)
    for key, of_card in moments.items():
        if key in tracks:
            tracks[key].moments = [of_card[time] for time in sorted(of_card)]
    for labels, points in _range(url, "increase(accelerator_events_total[1m]) > 0", span):
        if points and (track := tracks.get(_key(labels))):
            track.errors.append((points[0][0], f"event {labels.get('code', '')}"))


def _key(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get(_KEY[0], ""), labels.get(_KEY[1], "")


def _range(url: str, query: str, span: _Span) -> Iterator[tuple[Mapping[str, str], list[tuple[float, float]]]]:
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
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer:  # noqa: S310  # http or https, as the user said
            told = json.loads(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise PrometheusError(
            f"{url} refused the query with status {error.code}; does it want a password, or a longer path?"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise PrometheusError(f"{url} did not answer ({reason}); check the address") from None
    if not isinstance(told, dict) or told.get("status") != "success":
        raise PrometheusError(f"{url} does not answer as Prometheus does; give the address of its web page")
    return told
