"""The event stream of a running daemon, as clients see it."""

import signal
from pathlib import Path

import pytest

from kits.daemon import Daemon
from kits.followers import Follower, followers
from telemetry_daemon.site.stream import MAX_STREAMS

pytestmark = pytest.mark.installed

NODE = ("--demo", "16xnvidia")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory):
    with Daemon(tmp_path_factory.mktemp("daemon"), arguments=NODE) as running:
        running.until(lambda: len(running.document()["devices"]) == 16)
        yield running


def test_followers_get_the_same_bytes_and_their_number_is_limited(daemon: Daemon) -> None:
    with followers(daemon.address, MAX_STREAMS) as all_of_them:
        readings = [[client.next("readings") for _ in range(4)] for client in all_of_them]
        # The first event of each client differs; later events are equal, but a client may miss the first of these.
        common = set.intersection(*({event.raw for event in mine[1:]} for mine in readings))
        assert len(common) >= 2
        assert max(map(len, common)) <= 1000
        with Follower(daemon.address) as late:
            assert (late.answer.status, late.answer.headers["Retry-After"]) == (503, "5")
        assert daemon.get()[0] == 200

    def let_in() -> bool:
        with Follower(daemon.address) as later:
            return later.answer.status == 200

    daemon.until(let_in)


def test_stream_matches_the_document(daemon: Daemon) -> None:
    with Follower(daemon.address) as follower:
        state = follower.next("state").data
        document = daemon.document()
        assert [device["id"] for device in state["devices"]] == [device["id"] for device in document["devices"]]
        assert {source["source"] for source in state["sources"]} == {source["source"] for source in document["sources"]}
        assert state["notes"] == ["Simulated: these devices do not exist."]
        row = dict(zip(state["columns"], follower.next("readings").data["values"][0], strict=True))
        assert row["power_cap_watts"] == document["devices"][0]["readings"]["power_cap_watts"]


def test_unchanged_reload_disturbs_no_client(daemon: Daemon) -> None:
    with Follower(daemon.address) as follower:
        instance = follower.next("state").data["instance"]
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: daemon.logged("configuration reloaded"))
        event = [follower.next("readings") for _ in range(3)][-1]
        assert event.id.partition(".")[0] == instance


def test_streams_end_cleanly_and_instances_differ(tmp_path: Path) -> None:
    instances = []
    for _ in range(2):
        with Daemon(tmp_path, arguments=NODE) as daemon, Follower(daemon.address) as follower:
            instances.append(follower.next("state").data["instance"])
            assert daemon.stop()[0] == 0
            assert all(event.name for event in follower.events())  # an end in the middle would be an IncompleteRead
    assert instances[0] != instances[1]
