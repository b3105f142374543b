"""Clients of the stream get the state, changed devices and newest numbers, rendered once for all clients."""

import json
import math
from dataclasses import replace

import pytest

from kits import snapshots as kit
from kits.stepped_loop import SteppedLoop
from telemetry_daemon.site.stream import MAX_LOCAL_STREAMS, MAX_STREAMS, MAX_UNREAD_BYTES, TURN_SECONDS, Streams
from telemetry_daemon.state.history import History
from telemetry_daemon.times import Clock
from telemetry_daemon.web.messages import LOCAL_SOCKET, Request
from telemetry_parsers.past import SLOT_SECONDS


class Node:
    def __init__(self, *devices):
        self.loop = SteppedLoop(kit.NOW)
        self.snapshot = kit.snapshot(*(devices or (kit.full_device(),)), valid_until=kit.NOW + 1000)
        self.history = History(
            Clock(lambda: self.loop.now, lambda: kit.WALL_TIME + self.loop.now - kit.NOW, lambda: 0.0)
        )
        self.newest = lambda: self.snapshot
        self.history.update(self.snapshot.devices, {}, kit.NOW + 1000)
        self.streams = Streams(self.loop, self._newest, self.history, "abc")
        self.dropped = []

    def _newest(self):
        return self.newest()

    def follow(self, query="", **headers):
        response = self.streams.follow(Request("GET", "/api/v1/events", query, headers))
        follower = response.pieces
        follower.begin(lambda: None, lambda: self.dropped.append(follower))
        return follower

    def change(self, *devices, **parts):
        self.snapshot = replace(self.snapshot, devices=devices or self.snapshot.devices, **parts)
        self.streams.send_changes()
        self.loop.advance(0)

    def close_slot(self):
        self.loop.advance(SLOT_SECONDS)
        self.history.end_slots(self._newest)


def events(follower):
    found = []
    while piece := follower.next():
        lines = dict(line.split(": ", 1) for line in piece.decode().strip().split("\n") if ": " in line)
        found.append((lines.get("event"), json.loads(lines["data"]) if "data" in lines else None))
    return found


def followed(*devices):
    node = Node(*devices)
    follower = node.follow()
    events(follower)
    return node, follower


def hot(watts=112.5, number=0, **facts):
    return kit.device(number, kit.reading("power_watts", watts), **facts)


def test_a_new_client_gets_the_state_and_the_numbers():
    sent = events(Node(kit.full_device()).follow())
    assert [name for name, _ in sent] == ["state", "readings"]
    (_, state), (_, readings) = sent
    assert (state["schema"], state["instance"], state["devices"][0]["condition"]["word"]) == (
        "telemetry.stream/1",
        "abc",
        "ok",
    )
    row = dict(zip(state["columns"], readings["values"][0], strict=True))
    scales = dict(zip(state["columns"], state["scales"], strict=True))
    assert row["power_watts"] == 112.5
    assert row["memory_used_bytes"] * scales["memory_used_bytes"] == 2097152
    assert row["clock_hertz"] * scales["clock_hertz"] == 1980e6
    assert row["throttled"] is None
    assert readings["valid_seconds"] == 1000.0


def test_only_numbers_are_sent_while_only_numbers_change():
    node, follower = followed(hot())
    node.loop.advance(5)
    node.change(hot(200.0))
    (name, data), *more = events(follower)
    assert (name, data["values"][0][1], more) == ("readings", 200, [])


def test_a_changed_device_is_sent_alone_and_a_new_device_with_the_state():
    node, follower = followed(hot(), hot(number=1))
    node.loop.advance(5)
    node.change(hot(), kit.device(1, kit.reading("power_watts", 80.0), kit.reading("throttled", 1.0, "sw_thermal")))
    (name, device), (more, wrong), (after, _) = events(follower)
    assert (name, device["id"], device["throttled_by"]) == ("device", "GPU-00000001", ["sw_thermal"])
    (trouble,) = wrong["troubles"]
    assert (more, trouble["what"].split()[:2], trouble["severity"]) == ("troubles", ["nvidia", "1"], "warning")
    assert after == "readings"
    node.loop.advance(5)
    node.change(hot())
    assert [name for name, _ in events(follower)] == ["state", "readings"]


def test_many_changes_within_a_second_are_sent_once():
    node, follower = followed(hot())
    for watts in range(20):
        node.loop.advance(0.01)
        node.change(hot(float(watts)))
    node.loop.advance(1.0)
    assert [data["values"][0][1] for _, data in events(follower)] == [19]


def test_expired_numbers_are_sent_as_null_although_nothing_was_polled():
    node = Node(hot())
    fresh = replace(node.snapshot, valid_until=node.loop.now + 4)
    expired = replace(fresh, devices=(kit.device(),), valid_until=fresh.valid_until + 100)
    node.newest = lambda: fresh if node.loop.now < fresh.valid_until else expired
    follower = node.follow()
    events(follower)
    node.loop.advance(4.5)
    assert [data["values"] for name, data in events(follower) if name == "readings"] == [[None]]


def test_nothing_is_rendered_without_clients():
    node = Node()
    follower = node.follow()
    assert len(node.loop.timers) == 2
    follower.close()
    assert (node.loop.timers, len(node.streams)) == ([], 0)
    node.change(hot())
    assert node.loop.timers == []


def test_a_heartbeat_comes_when_nothing_else_does():
    node, follower = followed()
    node.loop.advance(15)
    assert events(follower) == [(None, None)]


def test_the_number_of_streams_is_limited():
    node = Node()
    followers = [node.follow() for _ in range(MAX_STREAMS)]
    refused = node.streams.follow(Request("GET", "/api/v1/events"))
    assert (refused.status, dict(refused.headers)["Retry-After"]) == (503, "5")
    followers[0].close()
    assert node.follow()


def asks(node, client):
    """Return the stream that a client gets, or None if it is refused."""
    follower = node.streams.follow(Request("GET", "/api/v1/events", client=client)).pieces
    if follower is not None:
        follower.begin(lambda: None, lambda: node.dropped.append(follower))
    return follower


def test_one_client_keeps_no_other_from_following():
    node = Node()
    greedy = [asks(node, "10.0.0.1") for _ in range(MAX_STREAMS)]
    assert asks(node, "10.0.0.2")
    assert node.dropped == greedy[:1]
    assert asks(node, "10.0.0.1") is None
    assert len(node.streams) == MAX_STREAMS


def test_the_local_socket_has_streams_of_its_own():
    node = Node()
    assert all(asks(node, f"10.0.0.{number}") for number in range(MAX_STREAMS))
    assert all(asks(node, LOCAL_SOCKET) for _ in range(MAX_LOCAL_STREAMS))
    assert (asks(node, LOCAL_SOCKET), asks(node, "10.0.0.99"), node.dropped) == (None, None, [])


def test_a_stream_that_has_lasted_a_minute_makes_room_for_a_new_client():
    node = Node()
    streams = [asks(node, f"10.0.0.{number}") for number in range(MAX_STREAMS)]
    node.loop.advance(TURN_SECONDS)
    assert asks(node, "10.0.0.99")
    assert node.dropped == streams[:1]


def test_a_client_that_does_not_read_is_dropped():
    node = Node(*(hot(number=number) for number in range(128)))
    reads, sleeps = node.follow(), node.follow()
    events(sleeps)
    for watts in range(60):
        node.loop.advance(2)
        node.change(*(hot(100.5 + watts, number) for number in range(128)))
        assert events(reads)
        if node.dropped:
            break
    assert node.dropped == [sleeps]
    assert sum(len(piece) for piece in iter(sleeps.next, b"")) < 2 * MAX_UNREAD_BYTES


@pytest.mark.parametrize(("last_seen", "slots"), [("abc.{}", 2), ("older.7", 3), ("abc.no number", 3)])
def test_a_client_that_reconnects_gets_what_it_missed(last_seen, slots):
    node = Node(hot())
    node.close_slot()
    seen = node.history.open_slot()
    node.close_slot()
    node.close_slot()
    event_id = last_seen.format(seen)
    for follower in (node.follow(**{"last-event-id": event_id}), node.follow(f"last_event_id={event_id}")):
        sent = events(follower)
        assert [name for name, _ in sent] == ["state", "readings", "history", "history"]
        assert sent[2][1]["series"]["power_watts"]["last"] == [112.5] * slots
        assert sent[3][1]["events"] == []


def test_a_client_that_still_reads_the_past_gets_only_the_newest_numbers_after_it():
    node = Node(*(hot(number=number) for number in range(128)))
    slow = node.follow(**{"last-event-id": "older.7"})
    for watts in range(20):
        node.loop.advance(2)
        node.change(*(hot(100.5 + watts, number) for number in range(128)))
    sent = events(slow)
    assert node.dropped == []
    assert [name for name, _ in sent] == ["state", "readings", "history", "readings"]
    assert sent[-1][1]["values"][0][1] == 119.5


def test_the_past_is_sent_again_to_a_client_that_lost_the_connection_within_it():
    node = Node(hot())
    node.close_slot()
    seen = f"abc.{node.history.open_slot()}"
    node.close_slot()
    follower = node.follow(**{"last-event-id": seen})
    ids = [piece.decode().partition("\n")[0] for piece in iter(follower.next, b"")]
    assert ids == [f"id: {seen}"] * 3 + [f"id: abc.{node.history.open_slot()}"]


@pytest.mark.parametrize(
    "seen",
    ["abc." + "9" * 15, "abc." + "9" * 9000, "abc.-1", "abc.1e9", "abc.٣", "\n\nevent: state", "<script>.1", "."],
)
def test_an_invented_id_does_no_harm(seen):
    node = Node(hot())
    node.close_slot()
    sent = events(node.follow(**{"last-event-id": seen}))
    assert [name for name, _ in sent if name != "history"] == ["state", "readings"]


def test_the_validity_counts_from_the_connection():
    node = Node(hot())
    node.follow()
    node.loop.advance(400)
    assert dict(events(node.follow()))["readings"]["valid_seconds"] == 600.0


def test_the_validity_of_no_devices_is_unlimited():
    node = Node(hot())
    node.snapshot = replace(node.snapshot, valid_until=math.inf, devices=())
    sent = dict(events(node.follow()))
    assert (sent["readings"]["valid_seconds"], sent["readings"]["values"]) == (None, [])


def test_an_expired_snapshot_is_checked_once_a_second():
    node = Node(hot())
    node.snapshot = replace(node.snapshot, valid_until=kit.NOW + 1)
    follower = node.follow()
    looks, newest = [], node.newest
    node.newest = lambda: looks.append(node.loop.now) or newest()
    node.loop.advance(10)
    assert len(looks) < 50
    assert [name for name, _ in events(follower)] == ["state", "readings"]


def test_new_client_reuses_the_numbers_of_the_second():
    node = Node(hot(100.0))
    first = node.follow()
    events(first)
    node.loop.advance(0.5)
    node.change(hot(200.0))
    second = node.follow()
    assert [data["values"][0][1] for name, data in events(second) if name == "readings"] == [100]
    assert events(first) == []
    node.loop.advance(0.6)
    assert events(first) == events(second)


@pytest.mark.parametrize(
    "watts", [0.0, 12.0004, 99.996, 0.99996, 999.97, 1000.4, 123456.7, 1e-7, -3.0, 345.67, 2.0**52]
)
def test_every_number_has_at_least_four_digits(watts):
    sent = dict(events(Node(hot(watts)).follow()))["readings"]["values"][0][1]
    assert sent == pytest.approx(watts, rel=5e-4)


def test_head_request_opens_no_stream():
    node = Node(hot())
    response = node.streams.follow(Request("HEAD", "/api/v1/events"))
    response.pieces.close()
    assert (response.status, len(node.streams), node.loop.timers) == (200, 0, [])


@pytest.mark.parametrize(("cards", "most"), [(16, 1000), (128, 8000)])
def test_the_numbers_of_a_second_are_few_bytes(cards, most):
    node = Node(*(kit.full_device(number) for number in range(cards)))
    follower = node.follow()
    (_, state), (name, _) = events(follower)
    assert (name, len(state["devices"])) == ("readings", cards)
    node.loop.advance(5)
    node.change(*(kit.full_device(number) for number in range(cards)))
    assert len(follower.next()) <= most
