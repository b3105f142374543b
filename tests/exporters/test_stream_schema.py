"""The events of the stream are what docs/stream.schema.json says, whatever the node is like."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings

from kits import snapshots as kit
from telemetry_exporters.documents import stream_json
from telemetry_exporters.documents.json_values import encoded
from telemetry_exporters.judgement.verdict import judge
from telemetry_exporters.text import cleaned

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "stream.schema.json").read_text(encoding="utf-8"))


def validate(name: str, data: object) -> None:
    jsonschema.Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": f"#/$defs/{name}"}]}).validate(data)


def events(snapshot):
    """The data of all events that tell a snapshot, by their names."""
    found = judge(snapshot)
    state = stream_json.state(snapshot, found, "1.2.3", "abc")
    yield "state", encoded(state)
    yield from (("device", encoded(device)) for device in state["devices"])
    yield "troubles", encoded({"troubles": state["troubles"]})
    yield "readings", stream_json.readings(snapshot, stream_json.numbers(snapshot), snapshot.monotonic_time)


@given(snapshot=kit.snapshots())
@settings(max_examples=20)
def test_every_snapshot_gives_events_of_the_schema(snapshot):
    told = {name: json.loads(data) for name, data in events(snapshot)}
    for name, data in events(snapshot):
        assert "\n" not in data
        assert "\r" not in data
        validate(name, json.loads(data))
    state, readings = told["state"], told["readings"]
    assert len(readings["values"]) == len(state["devices"]) == len(snapshot.devices)
    assert all(row is None or len(row) == len(state["columns"]) == len(state["scales"]) for row in readings["values"])


def test_the_schema_is_one_and_wants_every_key_it_knows():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for name in ("state", "device", "source", "finding", "condition", "readings"):
        assert SCHEMA["$defs"][name]["required"] == list(SCHEMA["$defs"][name]["properties"])


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("state", lambda data: data.pop("columns")),
        ("state", lambda data: data["devices"][0].pop("findings")),
        ("state", lambda data: data["devices"][0].update(findings=[])),
        ("state", lambda data: data["sources"][0].update(severity="fine")),
        ("readings", lambda data: data.update(valid_seconds=-1.0)),
        ("readings", lambda data: data["values"][0].__setitem__(0, "80 W")),
    ],
)
def test_the_schema_refuses_what_is_no_such_event(name, spoil):
    data = json.loads(dict(events(kit.snapshot(kit.full_device(), sources=(kit.source(),))))[name])
    validate(name, data)
    spoil(data)
    with pytest.raises(jsonschema.ValidationError):
        validate(name, data)


def test_codes_and_reasons_are_cleaned_as_all_texts_are():
    hostile = "a\x00b\x1b[31m\u202egpj"
    states = (kit.reading(metric, 1.0, hostile) for metric in ("throttled", "event_open"))
    snapshot = kit.snapshot(kit.device(0, *states, model=hostile))
    (device,) = snapshot.devices
    entry = stream_json.device(device, judge(snapshot)[device.id])
    assert (entry["throttled_by"], entry["open_events"], entry["model"]) == (
        [cleaned(hostile)],
        [cleaned(hostile)],
        cleaned(hostile),
    )
    assert hostile not in str(entry)
