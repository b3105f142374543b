"""The document `telemetry.history/1`: a node's last half hour for programs. docs/history.schema.json is made of its classes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from telemetry_exporters.documents.json_values import encoded, plain_number, utc_time
from telemetry_exporters.text import cleaned
from telemetry_parsers import bounds
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.codec.json_types import AtMost, Count, LongTextOrNull, Schema, TextOrNull, Time, Word
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.past import KEPT, MOST_EVENTS, SLOTS, Past, PastEvent, Series

_DIGITS = "%.7g"

Seconds = Annotated[float, Schema({"exclusiveMinimum": 0})]
Slots = Annotated[tuple[float | None, ...], Schema({"maxItems": SLOTS}), AtMost(SLOTS)]


@dataclass(frozen=True, slots=True)
class GapJson:
    """Slots without a number."""

    first: Count
    """The place of its first slot in the arrays."""
    slots: Annotated[int, Schema({"minimum": 1})]
    reason: Word
    """A reason of `absent` in telemetry.snapshot/1; `lost`; `asleep`; `SOURCE: REASON` of the source that gave the number before; `no source gives it`; `not seen yet`; `machine slept`; `daemon was held up`; `no longer kept` for a reader that took minutes. There may be more later."""


@dataclass(frozen=True, slots=True)
class SeriesJson:
    """The slots of one metric: in base units, with 7 significant digits at most; null where there was no number in the whole slot."""

    last: Slots
    """The last number of each slot."""
    highest: Slots
    """The highest number of each slot."""
    gaps: Annotated[tuple[GapJson, ...], AtMost(SLOTS)]
    """Why slots have no number; each slot that has none is in one gap."""


SeriesByMetric = Annotated[Mapping[str, SeriesJson], Schema({"propertyNames": {"enum": list(KEPT)}})]


@dataclass(frozen=True, slots=True)
class DeviceSeriesJson:
    """The series of one device."""

    id: Word
    """As in `telemetry.snapshot/1`."""
    series: SeriesByMetric
    """By metric. A metric of which the device reported no number in the half hour has no series."""


@dataclass(frozen=True, slots=True)
class EventJson:
    """Something that happened to a device."""

    time: Time
    """A moment in UTC, by the node's clock."""
    id: Word
    """The device's."""
    code: Word
    """Such as `xid_79`; `lost`, `returned` and `removed` tell what became of the device."""
    text: LongTextOrNull


@dataclass(frozen=True, slots=True)
class HistoryJson:
    """The last half hour of one node, in slots of equal length. Only slots that have ended are in it.

    Later versions of `/1` may have more keys: ignore those that you do not know.
    """

    schema: Literal["telemetry.history/1"]
    time: Time
    """When the document was asked for."""
    hostname: TextOrNull
    start: Time
    """When the first slot began. A slot belongs to the time since the node was started: after the clock was set, all slots move with it."""
    slot_seconds: Seconds
    """How long a slot is."""
    slots: Annotated[int, Schema({"minimum": 0, "maximum": SLOTS})]
    """How many slots there are; every array of numbers has as many places, oldest first."""
    devices: Annotated[tuple[DeviceSeriesJson, ...], AtMost(4 * bounds.MOST_DEVICES)]
    events: Annotated[tuple[EventJson, ...], Schema({"maxItems": MOST_EVENTS}), AtMost(MOST_EVENTS)]
    """The last events, in the order in which they were reported; with `since` those from then on."""


def pieces(hostname: str, wall_time: float, window: Past, devices: Iterable[tuple[str, Past]]) -> Iterator[str]:
    """The document piece by piece, one for each device; `window` has the events, and no device."""
    around = HistoryJson(
        schema="telemetry.history/1",
        time=utc_time(wall_time),
        hostname=cleaned(hostname) or None,
        start=utc_time(window.start),
        slot_seconds=window.slot_seconds,
        slots=window.slots,
        devices=(),
        events=tuple([_event(one) for one in window.events]),
    )
    # No text has this key in it: there its quotation marks are escaped.
    before, key, after = encoded(to_plain(HistoryJson, around)).partition('"devices":[')
    yield before + key
    comma = ""
    for device_id, past in devices:
        yield comma + device_text(device_id, past)
        comma = ","
    yield after + "\n"


def device_text(device_id: str, past: Past) -> str:
    """One device's part of the document, written by hand: it has thousands of numbers."""
    series = (f"{encoded(metric)}:{_series(one)}" for metric, one in past.devices.get(device_id, {}).items())
    return f'{{"id":{encoded(cleaned(device_id))},"series":{{{",".join(series)}}}}}'


def event(one: PastEvent) -> dict[str, Any]:
    """An event as plain data."""
    return to_plain(EventJson, _event(one))


def _event(one: PastEvent) -> EventJson:
    return EventJson(utc_time(one.wall_time), cleaned(one.id), cleaned(one.code), cleaned(one.text) or None)


def _series(series: Series) -> str:
    gaps = [to_plain(GapJson, GapJson(gap.first, gap.slots, cleaned(gap.reason))) for gap in series.gaps]
    return f'{{"last":{_numbers(series.last)},"highest":{_numbers(series.highest)},"gaps":{encoded(gaps)}}}'


def _numbers(values: Sequence[float]) -> str:
    """The numbers with as many digits as a slot keeps; null where there is none."""
    texts: dict[float, str] = {}  # many slots have the same number
    return f"[{','.join(texts.get(value) or _text(value, texts) for value in values)}]"


def _text(value: float, texts: dict[float, str]) -> str:
    if not math.isfinite(value):
        return "null"
    text = _DIGITS % value
    texts[value] = found = plain_number(float(text)).removesuffix(".0") if "e" in text else text
    return found
