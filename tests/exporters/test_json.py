"""The JSON document and the events of the stream follow their schemas and contain the snapshot's data."""

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import snapshots as kit
from telemetry_exporters.documents import stream_json
from telemetry_exporters.documents.json_values import plain_number, to_json
from telemetry_exporters.documents.snapshot_json import document, render, with_processes
from telemetry_exporters.judgement.verdict import judge
from telemetry_exporters.text import deep_clean
from telemetry_parsers.model import REASONS, STATES, Absent
from telemetry_parsers.ownership import Basis, OwnerKind, ProcessKind

GOLDEN = Path(__file__).parent / "document.json"
SCHEMA_PATH = Path(__file__).parents[2] / "docs" / "snapshot.schema.json"


@pytest.fixture(scope="module")
def schema():
    return json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def validator(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@given(snapshot=kit.snapshots())
@settings(max_examples=20)
def test_every_snapshot_gives_a_document_of_the_schema(validator, snapshot):
    text = render(snapshot)
    text.encode("utf-8")
    read_back = json.loads(text)
    validator.validate(read_back)
    assert read_back == document(snapshot)
    assert text == render(replace(snapshot))


def test_the_schema_has_the_closed_sets_of_the_types(schema):
    parts = {name: part["properties"] for name, part in schema["$defs"].items()}
    assert tuple(parts["source"]["state"]["enum"]) == STATES
    assert tuple(parts["source"]["reason"]["enum"]) == (*REASONS, None)
    absence, _ = parts["device"]["absent"]["additionalProperties"]["anyOf"]
    assert absence["enum"] == [absent.value for absent in Absent]
    assert tuple(parts["owner"]["kind"]["enum"]) == get_args(OwnerKind)
    assert tuple(parts["allocation"]["basis"]["enum"]) == get_args(Basis)
    assert {kind or "" for kind in parts["process"]["kind"]["enum"]} == {*get_args(ProcessKind)}


@pytest.mark.parametrize(("section", "added_later"), [("source", ()), ("device", ("last_read",)), ("allocation", ())])
def test_schema_requires_the_keys_that_all_versions_write(schema, section, added_later):
    keys = schema["$defs"][section]["properties"].keys()
    assert schema["$defs"][section]["required"] == [key for key in keys if key not in added_later]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.pop("hostname"),
        lambda document: document.update(time="2026-01-01 00:00:00"),
        lambda document: document["devices"][0].pop("serial"),
        lambda document: document["devices"][0].update(up="yes"),
        lambda document: document["devices"][0]["readings"].update(power_watts="80 W"),
        lambda document: document["devices"][0]["absent"].update(fan_ratio="broken"),
        lambda document: document["sources"][0].update(state="fine"),
    ],
)
def test_schema_refuses_invalid_documents(validator, spoil):
    good = document(kit.snapshot(kit.full_device(), sources=(kit.source(),)))
    validator.validate(good)
    spoil(good)
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(good)


def test_the_schema_allows_keys_that_a_later_version_adds(validator):
    later = document(kit.snapshot(kit.shared_device(), sources=(kit.source(),)))
    source, device = later["sources"][0], later["devices"][0]
    parts = (
        *device["processes"],
        *device["allocations"],
        *(allocation["owner"] for allocation in device["allocations"]),
    )
    for part in (later, later["host"], source, *source["polls"], *source["problems"], device, *parts):
        part["of_a_later_version"] = {"more": 1}
    validator.validate(later)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_plain_numbers_are_exact(value):
    assert float(plain_number(value)) == json.loads(plain_number(value)) == value
    assert "e" not in plain_number(value)


def test_command_lines_are_included_if_they_were_read(validator):
    snapshot = kit.snapshot(kit.shared_device(), kit.full_device(1))
    filled = with_processes(document(snapshot), snapshot, {4711: "train.py\x1b[2J\n--secret", 9: "another"})
    validator.validate(filled)
    first, second, third = filled["devices"][0]["processes"]
    assert first["command_line"] == "train.py\ufffd[2J --secret"
    assert (second["command_line"], third["command_line"], filled["devices"][1]["processes"]) == (None, None, [])
    assert first == {**document(snapshot)["devices"][0]["processes"][0], "command_line": first["command_line"]}
    assert "command_line" not in render(snapshot)


SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "stream.schema.json").read_text(encoding="utf-8"))


def validate(name: str, data: object) -> None:
    jsonschema.Draft202012Validator({**SCHEMA, "anyOf": [{"$ref": f"#/$defs/{name}"}]}).validate(data)


def events(snapshot):
    found = judge(snapshot)
    state = stream_json.state(snapshot, found, "1.2.3", "abc")
    yield "state", to_json(state)
    yield from (("device", to_json(device)) for device in state["devices"])
    yield "troubles", to_json({"troubles": state["troubles"]})
    yield "readings", stream_json.readings(snapshot, stream_json.numbers(snapshot), snapshot.monotonic_time)


@given(snapshot=kit.snapshots())
@settings(max_examples=20)
def test_every_snapshot_gives_events_of_the_schema(snapshot):
    documents = {name: json.loads(data) for name, data in events(snapshot)}
    for name, data in events(snapshot):
        assert "\n" not in data
        assert "\r" not in data
        validate(name, json.loads(data))
    state, readings = documents["state"], documents["readings"]
    assert len(readings["values"]) == len(state["devices"]) == len(snapshot.devices)
    assert all(row is None or len(row) == len(state["columns"]) == len(state["scales"]) for row in readings["values"])


def test_schema_is_valid_and_requires_every_key():
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
def test_schema_of_events_refuses_invalid_events(name, spoil):
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
        [deep_clean(hostile)],
        [deep_clean(hostile)],
        deep_clean(hostile),
    )
    assert hostile not in str(entry)
