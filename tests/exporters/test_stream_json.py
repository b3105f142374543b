"""What a live page is told has no text that could harm whoever shows it."""

from __future__ import annotations

from kits import snapshots as kit
from telemetry_exporters import stream_json
from telemetry_exporters.text import cleaned
from telemetry_exporters.verdict import judge

HOSTILE = "a\x00b\x1b[31m\u202egpj"


def test_codes_and_reasons_are_cleaned_as_all_texts_are():
    states = (kit.reading(metric, 1.0, HOSTILE) for metric in ("throttled", "event_open"))
    snapshot = kit.snapshot(kit.device(0, *states, model=HOSTILE))
    (device,) = snapshot.devices
    entry = stream_json.device(device, judge(snapshot)[device.id])
    assert (entry["throttled_by"], entry["open_events"], entry["model"]) == (
        [cleaned(HOSTILE)],
        [cleaned(HOSTILE)],
        cleaned(HOSTILE),
    )
    assert HOSTILE not in str(entry)
