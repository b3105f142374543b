"""The document `telemetry.history/1`: a node's last half hour for programs, as docs/history.schema.json describes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from json import JSONEncoder
from typing import Any

from telemetry_exporters.documents.snapshot_json import plain_number, utc_time
from telemetry_exporters.text import cleaned
from telemetry_parsers.past import Past, PastEvent, Series

SCHEMA = "telemetry.history/1"

_encoded = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_DIGITS = "%.7g"


def pieces(hostname: str, wall_time: float, window: Past, devices: Iterable[tuple[str, Past]]) -> Iterator[str]:
    """The document piece by piece, one for each device; `window` has the events, and no device."""
    head = {
        "schema": SCHEMA,
        "time": utc_time(wall_time),
        "hostname": hostname or None,
        "start": utc_time(window.start),
        "slot_seconds": window.slot_seconds,
        "slots": window.slots,
    }
    yield _encoded(cleaned_values(head))[:-1] + ',"devices":['
    comma = ""
    for device_id, past in devices:
        yield comma + device_text(device_id, past)
        comma = ","
    yield f'],"events":{_encoded([event(one) for one in window.events])}}}\n'


def device_text(device_id: str, past: Past) -> str:
    """One device's part of the document."""
    series = (f"{_encoded(metric)}:{_series(one)}" for metric, one in past.devices.get(device_id, {}).items())
    return f'{{"id":{_encoded(cleaned(device_id))},"series":{{{",".join(series)}}}}}'


def event(one: PastEvent) -> dict[str, Any]:
    """An event as plain data."""
    return cleaned_values({"time": utc_time(one.wall_time), "id": one.id, "code": one.code, "text": one.text or None})


def cleaned_values(values: dict[str, Any]) -> dict[str, Any]:
    """The same data; no text in it moves a cursor."""
    return {key: cleaned(value) for key, value in values.items()}


def _series(series: Series) -> str:
    gaps = [{"first": gap.first, "slots": gap.slots, "reason": cleaned(gap.reason)} for gap in series.gaps]
    return f'{{"last":{_numbers(series.last)},"highest":{_numbers(series.highest)},"gaps":{_encoded(gaps)}}}'


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
