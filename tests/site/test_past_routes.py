"""`/api/v1/history` and `/api/v1/snapshot?device=` return exactly the requested parts, or an error in one line."""

import gzip
import json
import math
from array import array
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import jsonschema
import pytest

from kits import snapshots as kit
from telemetry_daemon.site.routes import Site
from telemetry_daemon.state.history import History
from telemetry_daemon.times import Clock
from telemetry_daemon.web.messages import Request
from telemetry_exporters.documents import history_json
from telemetry_parsers.model import Absent
from telemetry_parsers.past import KEPT, SLOT_SECONDS, SLOTS, Past, PastEvent, Series

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "history.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
HOSTILE = "\x1b[2J\u202eGPU<script>" + "x" * 10_000


class Node:
    def __init__(self, slots=4):
        self.now = kit.NOW
        clock = Clock(lambda: self.now, lambda: kit.WALL_TIME + self.now - kit.NOW, lambda: 0.0)
        self.history = History(clock)
        self.snapshot = kit.snapshot(card(0, 0), card(1, 0, id=HOSTILE), sources=(kit.source(),))
        for number in range(slots):
            power = Absent.NOT_PERMITTED if number % 4 >= 2 else 123.456789 + number
            cards = card(0, number), card(1, number, power, id=HOSTILE)
            self.history.update(cards, {("nvml", "readings"): kit.poll(expires=math.inf)}, math.inf)
            self.now += SLOT_SECONDS
            self.history.end_slots(lambda: self.snapshot)
        self.history.add_event(PastEvent(self.now + kit.WALL_TIME - kit.NOW - 7, "GPU-00000000", "xid_79", HOSTILE))
        self.history.add_event(PastEvent(self.now + kit.WALL_TIME - kit.NOW, HOSTILE, HOSTILE))
        self.site = Site(lambda: self.snapshot, lambda: (True, ""), lambda _: b"", history=self.history)

    def get(self, target, **headers):
        path, _, query = target.partition("?")
        response = self.site.respond(
            Request("GET", path, query, {key.replace("_", "-"): headers[key] for key in headers})
        )
        pieces = [] if response.pieces is None else list(iter(response.pieces.next, None))
        return response, b"".join((*response.body, *pieces))

    def past(self, query=""):
        response, body = self.get(f"/api/v1/history{query}")
        assert response.status == 200, body
        document = json.loads(body)
        VALIDATOR.validate(document)
        return document

    def refusal(self, target):
        response, body = self.get(target)
        return response.status, body.decode()


def card(number, turn, power=250.0, **facts):
    return kit.device(
        number,
        kit.reading("power_watts", power if turn % 2 or power != 250.0 else 250.5),
        kit.reading("memory_used_bytes", 65_432_121_344.0 + turn),
        kit.reading("temperature_celsius", 62.0 + turn, "gpu"),
        **facts,
    )


def test_the_schema_is_one_and_knows_what_is_kept():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    device, series = (SCHEMA["$defs"][name]["properties"] for name in ("device_series", "series"))
    assert tuple(device["series"]["propertyNames"]["enum"]) == KEPT
    assert SCHEMA["properties"]["slots"]["maximum"] == series["last"]["maxItems"] == SLOTS
    for part in (SCHEMA, *SCHEMA["$defs"].values()):
        assert part["required"] == list(part["properties"])


def test_the_document_has_the_slots_the_gaps_and_the_events():
    document = Node().past()
    assert (document["slots"], document["slot_seconds"]) == (4, 5.0)
    assert document["start"] == "2026-01-01T00:00:00.000Z"
    first, second = document["devices"]
    assert first["series"]["power_watts"] == {"last": [250.5, 250, 250.5, 250], "highest": [250.5] * 4, "gaps": []}
    assert second["series"]["power_watts"] == {
        "last": [123.4568, 124.4568, 124.4568, None],
        "highest": [123.4568, 124.4568, 124.4568, None],
        "gaps": [{"first": 3, "slots": 1, "reason": "not_permitted"}],
    }
    assert first["series"]["memory_used_bytes"]["last"] == [65_432_120_000] * 4
    assert [(event["id"], event["code"]) for event in document["events"][:1]] == [("GPU-00000000", "xid_79")]


def test_document_has_no_nan_or_infinity():
    """A proxy's client may send bytes that no source would report."""
    numbers = array("f", [math.nan, math.inf, -math.inf, 1e38, 1e-38, -0.0, 0.1])
    past = Past(0.0, len(numbers), devices={"a": {"power_watts": Series(numbers, numbers)}})
    document = json.loads(history_json.device_json("a", past), parse_constant=pytest.fail)
    assert document["series"]["power_watts"]["last"][:3] == [None] * 3
    assert document["series"]["power_watts"]["last"][3:] == pytest.approx(list(numbers[3:]), rel=1e-6)


def test_texts_of_the_history_are_printable():
    _, body = Node().get("/api/v1/history")
    assert all(character.isprintable() or character == "\n" for character in body.decode())


@pytest.mark.parametrize("accepts", ["", "gzip"])
def test_history_is_streamed_and_compressed_on_request(accepts):
    node = Node()
    response, body = node.get("/api/v1/history", accept_encoding=accepts)
    assert (("Content-Encoding", "gzip") in response.headers) == bool(accepts)
    VALIDATOR.validate(json.loads(gzip.decompress(body) if accepts else body))


@pytest.mark.parametrize(
    ("query", "devices", "metrics", "slots", "events"),
    [
        ("?device=GPU-00000000", 1, 3, 4, 1),
        ("?device=0", 1, 3, 4, 1),
        ("?device=0&device=1&device=0", 2, 3, 4, 2),
        ("?metric=power_watts", 2, 1, 4, 2),
        ("?metric=power_watts&metric=power_cap_watts&device=0", 1, 1, 4, 1),
        (f"?since={kit.WALL_TIME + 10}", 2, 3, 2, 2),
        (f"?since={kit.WALL_TIME + 12.5}", 2, 3, 2, 2),
        ("?since=2026-01-01T00:00:15Z", 2, 3, 1, 1),
        ("?since=2026-01-01T08:00:15%2B08:00", 2, 3, 1, 1),
        ("?since=2026-01-01T08:00:15+08:00", 2, 3, 1, 1),
        ("?since=0", 2, 3, 4, 2),
        ("?since=-1e308", 2, 3, 4, 2),
        ("?since=1e308", 2, 3, 0, 0),
    ],
)
def test_query_selects_devices_metrics_and_slots(query, devices, metrics, slots, events):
    document = Node().past(query)
    found = document["devices"]
    assert [len(found), document["slots"], len(document["events"])] == [devices, slots, events]
    assert {len(entry["series"]) for entry in found} == {metrics}
    assert {len(entry["last"]) for device in found for entry in device["series"].values()} == {slots}


def test_follow_up_requests_get_each_slot_once():
    """Meanwhile the wall clock is slewed in small steps."""
    node = Node()
    document = node.past()
    end = kit.WALL_TIME + document["slots"] * SLOT_SECONDS
    for slewed in (-0.001, 0.0, 0.001):
        assert node.past(f"?since={end + slewed}")["slots"] == 0
        assert node.past(f"?since={end - SLOT_SECONDS + slewed}")["slots"] == 1


def test_unlisted_device_keeps_its_history():
    node = Node()
    node.snapshot = replace(node.snapshot, devices=())
    assert len(node.past()["devices"]) == 2
    assert len(node.past("?device=GPU-00000000")["devices"]) == 1


def test_a_device_without_a_past_has_no_series():
    node = Node()
    node.snapshot = kit.snapshot(*node.snapshot.devices, kit.device(7, up=False))
    assert node.past("?device=7")["devices"] == [{"id": "GPU-00000007", "series": {}}]


REFUSED = [
    ("history?device=9", 404, "unknown device '9'"),
    ("history?device=", 404, "unknown device ''"),
    ("history?device", 404, "unknown device ''"),
    (f"history?device={quote(HOSTILE[:40])}", 404, "unknown device '"),
    ("history?metric=fan_ratio", 400, "'fan_ratio' has no history; metrics with a history: temperature_celsius, "),
    ("history?metric=", 400, "'' has no history"),
    (
        "history?since=yesterday",
        400,
        "invalid `since` 'yesterday'; use Unix seconds, or a time such as 2026-01-01T00:00:00Z",
    ),
    ("history?since=nan", 400, "invalid `since` 'nan'"),
    ("history?since=inf", 400, "invalid `since` 'inf'"),
    ("history?since=2026-01-01T00:00:00", 400, "invalid `since`"),
    (f"history?since={'9' * 9999}", 400, "invalid `since` '9999"),
    ("history?since=99999-01-01T00:00:00Z", 400, "invalid `since`"),
    ("history?last=5", 400, "unknown parameter 'last'; valid parameters: device, metric, since"),
    ("history?%00=%ff%fe", 400, "unknown parameter '"),
    (f"history?{'device=0&' * 1800}device=no", 404, "unknown device 'no'"),
    ("snapshot?device=9", 404, "unknown device '9'"),
]


@pytest.mark.parametrize(("target", "status", "words"), REFUSED)
def test_invalid_query_is_refused_in_one_line(target, status, words):
    answered, text = Node().refusal(f"/api/v1/{target}")
    assert (answered, text[: len(words)]) == (status, words)
    assert text.endswith("\n")
    assert text[:-1].isprintable()
    assert len(text) < 400


def test_snapshot_of_one_device_equals_its_part_of_the_whole():
    """The device is compared with others of its model, which have a link that it lacks."""
    links = [kit.reading("link_up", 1.0, str(number)) for number in range(4)]
    cards = [kit.device(number, kit.reading("power_watts", 80.0), *links) for number in range(4)]
    broken = kit.device(4, kit.reading("power_watts", 80.0), *links[:2], kit.reading("link_up", 0.0, "2"))
    node = Node()
    node.snapshot = kit.snapshot(*cards, broken)
    whole = json.loads(node.get("/api/v1/snapshot")[1])
    part = json.loads(node.get("/api/v1/snapshot?device=4")[1])
    assert part["devices"] == whole["devices"][4:]
    assert {**part, "devices": []} == {**whole, "devices": []}
    assert part["devices"][0]["condition"]["severity"] == "warning"


def test_other_parameters_of_a_snapshot_are_left_alone_as_in_older_releases():
    node = Node()
    assert json.loads(node.get("/api/v1/snapshot?_=1700000000")[1]) == json.loads(node.get("/api/v1/snapshot")[1])
