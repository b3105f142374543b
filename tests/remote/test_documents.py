"""Documents of another daemon become its snapshot and history; other content raises one type of error."""

import contextlib
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import snapshots as kit
from telemetry_daemon.remote.foreign_documents import DocumentError, to_history, to_snapshot
from telemetry_daemon.state.history import History
from telemetry_daemon.times import Clock
from telemetry_exporters.documents import history_json
from telemetry_exporters.documents import snapshot_json as json_exporter
from telemetry_exporters.judgement.overview import rows
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.terminal.table import table
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.past import PastEvent

WHOLE = kit.snapshot(
    kit.shared_device(),
    kit.full_device(1, up=False),
    kit.device(2, kit.reading("throttled", 1.0, "hw_thermal"), up=None),
    sources=(kit.source(), kit.source("npu-smi", state="failed", reason="timeout", detail="no answer")),
    host=(kit.reading("telemetry_host_memory_used_bytes", 5.0, source="host"),),
    maintenance=Maintenance(60.0, "new fans"),
)


def document(snapshot=WHOLE):
    return json.loads(json_exporter.render(snapshot))


def read_back_history():
    """Return a history that was written and read back, and the original."""
    now = [1000.0]
    history = History(Clock(lambda: now[0], lambda: 1.7e9 + now[0], lambda: 0.0))
    for _ in range(4):
        history.update(WHOLE.devices, {}, now[0] + 100.0)
        history.end_slots(lambda: WHOLE)
        now[0] += 5.0
    history.add_event(PastEvent(1.7e9 + now[0], "GPU-00000000", "xid_79", "gone"))
    past = history.past()
    window = replace(past, devices={})
    devices = ((device_id, history.past((device_id,))) for device_id in history.ids())
    return json.loads("".join(history_json.json_pieces("node17", 1.7e9 + now[0], window, devices))), past


def test_document_survives_a_round_trip():
    assert document(to_snapshot(document())) == document()


def test_table_of_a_read_document_is_the_original_table():
    assert table(to_snapshot(document()), 0, Colour.NEVER) == table(WHOLE, 0, Colour.NEVER)
    assert [row.condition for row in rows(to_snapshot(document()))] == [row.condition for row in rows(WHOLE)]


def test_history_survives_a_round_trip():
    written, past = read_back_history()
    read = to_history(written)
    assert (read.start, read.slots, [*read.devices]) == (pytest.approx(past.start), past.slots, [*past.devices])
    for device, series in past.devices.items():
        for metric in series:
            assert [
                None if math.isnan(number) else number for number in read.devices[device][metric].last
            ] == pytest.approx([None if math.isnan(item) else item for item in series[metric].last])
            assert read.devices[device][metric].gaps == series[metric].gaps
    assert [(event.id, event.code, event.text) for event in read.events] == [("GPU-00000000", "xid_79", "gone")]


def test_document_of_an_older_version_is_read():
    old = document()
    for device in old["devices"]:
        del device["condition"]
    for source in old["sources"]:
        del source["detail"], source["unknown_fields"]
    for device in old["devices"]:
        del device["allocations"]
        device["processes"] = [{key: process[key] for key in ("pid", "name")} for process in device["processes"]]
    del old["maintenance"]
    assert [device.id for device in to_snapshot(old).devices] == [device.id for device in WHOLE.devices]


def test_document_of_a_newer_version_is_read():
    new = document() | {"something": {"new": True}}
    new["devices"][0]["readings"]["something_new"] = {"a": 1.0}
    new["devices"][0]["absent"]["clock_hertz"] = {"video": "reasons_of_tomorrow"}
    new["devices"][0]["allocations"][0] |= {"basis": "of tomorrow", "owner": {"kind": "workflow", "name": "7"}}
    read = to_snapshot(new).devices[0]
    assert read.id == "GPU-00000000"
    assert [allocation.owner.name for allocation in read.allocations] == ["7", "ml/train-0/main"]


@pytest.mark.parametrize("share", [-0.1, 1.5, "all", None])
def test_invalid_share_is_refused(share):
    wrong = document()
    wrong["devices"][0]["allocations"][0]["share"] = share
    with pytest.raises(DocumentError, match="share"):
        to_snapshot(wrong)


def test_a_process_has_the_owner_that_its_device_has():
    device = to_snapshot(document()).devices[0]
    assert [process.owner for process in device.processes] == [kit.JOB, kit.POD, None]


def test_hostile_text_is_made_harmless():
    hostile = document()
    hostile["devices"][0]["model"] = "\x1b[2J\u202egpu\n" + "x" * 10_000
    device = to_snapshot(hostile).devices[0]
    assert device.model.isprintable()
    assert len(device.model) <= 256


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def broken(draw, whole):
    broken_one = json.loads(json.dumps(whole))
    parent = broken_one
    while True:
        key = draw(st.sampled_from([*parent] if isinstance(parent, dict) else range(len(parent))))
        if isinstance(parent[key], dict | list) and parent[key] and draw(st.booleans()):
            parent = parent[key]
        else:
            parent[key] = draw(ANYTHING)
            return broken_one


def read(reader, given_document):
    """Return the result of the reader; None if it refuses the document."""
    with contextlib.suppress(DocumentError):  # any other error fails the test
        return reader(given_document)
    return None


@settings(max_examples=50)
@given(broken(document()))
def test_damaged_snapshot_is_refused_or_shown(given_document):
    snapshot = read(to_snapshot, given_document)
    assert snapshot is None or table(snapshot, 80, Colour.NEVER)


@settings(max_examples=50)
@given(broken(read_back_history()[0]))
def test_damaged_history_is_refused_or_read(given_document):
    past = read(to_history, given_document)
    series = () if past is None else [line for device in past.devices.values() for line in device.values()]
    assert all(len(item.last) == past.slots for item in series)
