"""The document `telemetry.history/1`: the last half hour of a node. docs/history.schema.json is generated from these classes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from telemetry_exporters.documents.json_values import plain_number, to_json, utc_time
from telemetry_exporters.text import clean
from telemetry_parsers import bounds
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.codec.json_types import Count, LongTextOrNull, MaxSize, Schema, TextOrNull, Time, Word
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.past import KEPT, MAX_EVENTS, SLOTS, Past, PastEvent, Series

_SEVEN_DIGITS = "%.7g"

Seconds = Annotated[float, Schema({"exclusiveMinimum": 0})]
Slots = Annotated[tuple[float | None, ...], Schema({"maxItems": SLOTS}), MaxSize(SLOTS)]


@dataclass(frozen=True, slots=True)
class GapJson:
    """Consecutive slots that have no number, all for the same reason."""

    first: Count
    """The index of the gap's first slot in the arrays."""
    slots: Annotated[int, Schema({"minimum": 1})]
    reason: Word
    """A reason as in `absent` of telemetry.snapshot/1, or `SOURCE: REASON` if SOURCE reported the previous number. Other reasons are `lost`, `asleep`, `no source gives it`, `not seen yet`, `machine slept`, `daemon was held up`, and `no longer kept` (the client read the stream minutes too late). Later versions may add reasons."""


@dataclass(frozen=True, slots=True)
class SeriesJson:
    """The slots of one metric in base units, with at most 7 significant digits. A slot without a number is null."""

    last: Slots
    """The metric's last value in each slot."""
    highest: Slots
    """The metric's highest value in each slot."""
    gaps: Annotated[tuple[GapJson, ...], MaxSize(SLOTS)]
    """The reasons why slots have no number. Each slot without a number belongs to one gap."""


SeriesByMetric = Annotated[Mapping[str, SeriesJson], Schema({"propertyNames": {"enum": list(KEPT)}})]


@dataclass(frozen=True, slots=True)
class DeviceSeriesJson:
    """The series of one device."""

    id: Word
    """As in `telemetry.snapshot/1`."""
    series: SeriesByMetric
    """The series of each metric. Metrics without numbers in the half hour are missing."""


@dataclass(frozen=True, slots=True)
class EventJson:
    """Something that happened to a device."""

    time: Time
    """In UTC, by the node's clock."""
    id: Word
    """The id of the device."""
    code: Word
    """A code such as `xid_79`; or `lost`, `returned` or `removed` if the device itself changed."""
    text: LongTextOrNull


@dataclass(frozen=True, slots=True)
class HistoryJson:
    """The last half hour of one node, in slots of equal length. Only slots that have ended are included. New keys may be added without a new schema version: ignore unknown keys."""

    schema: Literal["telemetry.history/1"]
    time: Time
    """When the document was requested."""
    hostname: TextOrNull
    start: Time
    """When the first slot began. If the node's clock is set, the times of all slots change, because slots are counted from the node's boot."""
    slot_seconds: Seconds
    """The length of a slot."""
    slots: Annotated[int, Schema({"minimum": 0, "maximum": SLOTS})]
    """The number of slots, which is the length of every array of numbers. The oldest slot is first."""
    devices: Annotated[tuple[DeviceSeriesJson, ...], MaxSize(4 * bounds.MAX_DEVICES)]
    events: Annotated[tuple[EventJson, ...], Schema({"maxItems": MAX_EVENTS}), MaxSize(MAX_EVENTS)]
    """The latest events, in the order in which they were reported. With `since`, only later events."""


def json_pieces(hostname: str, wall_time: float, window: Past, devices: Iterable[tuple[str, Past]]) -> Iterator[str]:
    """Yield the document in pieces, to keep only one device in memory at a time."""
    without_devices = HistoryJson(
        schema="telemetry.history/1",
        time=utc_time(wall_time),
        hostname=clean(hostname) or None,
        start=utc_time(window.start),
        slot_seconds=window.slot_seconds,
        slots=window.slots,
        devices=(),
        events=tuple(map(_event_json, window.events)),
    )
    # No string can contain this key, because quotation marks in strings are escaped.
    head, key, tail = to_json(to_plain(HistoryJson, without_devices)).partition('"devices":[')
    yield head + key
    comma = ""
    for device_id, past in devices:
        yield comma + device_json(device_id, past)
        comma = ","
    yield tail + "\n"


def device_json(device_id: str, past: Past) -> str:
    """Return a device with its series as JSON."""
    series = (f"{to_json(metric)}:{_series_json(slots)}" for metric, slots in past.devices.get(device_id, {}).items())
    return f'{{"id":{to_json(clean(device_id))},"series":{{{",".join(series)}}}}}'


def event(past_event: PastEvent) -> dict[str, Any]:
    """Return the event as plain data for JSON."""
    return to_plain(EventJson, _event_json(past_event))


def _event_json(event: PastEvent) -> EventJson:
    return EventJson(utc_time(event.wall_time), clean(event.id), clean(event.code), clean(event.text) or None)


def _series_json(series: Series) -> str:
    gaps = [to_plain(GapJson, GapJson(gap.first, gap.slots, clean(gap.reason))) for gap in series.gaps]
    return f'{{"last":{_numbers_json(series.last)},"highest":{_numbers_json(series.highest)},"gaps":{to_json(gaps)}}}'


def _numbers_json(values: Sequence[float]) -> str:
    """Return the numbers as a JSON array, with null for NaN."""
    cache: dict[float, str] = {}  # each number is formatted once, because many slots are equal
    return f"[{','.join(cache.get(value) or _format_and_cache(value, cache) for value in values)}]"


def _format_and_cache(value: float, cache: dict[float, str]) -> str:
    if not math.isfinite(value):
        return "null"
    text = _SEVEN_DIGITS % value
    cache[value] = number_text = plain_number(float(text)).removesuffix(".0") if "e" in text else text
    return number_text
