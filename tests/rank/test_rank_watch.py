"""The rank table's file is read when it appears, changes, or the settings change; a bad one is never used."""

import os
import resource

import pytest

from kits.rank_tables import version_1, written
from telemetry_daemon.config.settings import RankSettings
from telemetry_daemon.state.ranks import LARGEST_FILE_BYTES, SMALL_FILE_BYTES, RankWatch, names_of_node, read
from telemetry_parsers.merge.ranks import NodeRanks


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hccl.json"


@pytest.fixture
def put():
    return []


@pytest.fixture
def watch(path, put):
    return RankWatch(RankSettings(str(path), "10.0.0.1"), put.append)


def test_the_ranks_of_this_node_by_chip_as_it_is_set(path, watch, put):
    path.write_text(written(version_1()))
    watch.look()
    assert [(dict(ranks.by_chip), ranks.server) for ranks in put] == [({0: 2, 1: 3}, "1")]
    watch.configure(RankSettings(str(path), "10.0.0.1", map_addresses=False))
    watch.look()
    assert put[-1].server == "10.0.0.1"
    watch.configure(RankSettings())
    watch.look()
    assert put[-1] == NodeRanks()


def test_a_table_that_could_not_be_opened_is_read_when_it_can(path, watch, put):
    """New permissions change neither the size nor the time of the last change."""
    path.write_text(written(version_1()))
    watch.look()
    path.chmod(0o600)
    watch.look()
    assert [len(ranks.by_chip) for ranks in put] == [2, 2]


def test_a_table_is_read_once_and_again_when_it_changes(path, watch, put):
    path.write_text(written(version_1()))
    for _ in range(3):
        watch.look()
    assert len(put) == 1
    replaced = path.with_name("next")
    replaced.write_text(written(version_1(chips=3)))
    replaced.replace(path)
    watch.look()
    assert [dict(ranks.by_chip) for ranks in put[1:]] == [{0: 3, 1: 4, 2: 5}]


def test_a_table_may_come_later_and_go_again(path, watch, put):
    watch.look()
    path.write_text(written(version_1()))
    watch.look()
    path.unlink()
    watch.look()
    assert [len(ranks.by_chip) for ranks in put] == [0, 2, 0]


@pytest.mark.parametrize("bad", ["{", written({**version_1(), "status": "initializing"}), "\xff\xfe"])
def test_a_bad_or_unfinished_table_takes_the_ranks_away(path, watch, put, bad):
    path.write_text(written(version_1()))
    watch.look()
    path.write_bytes(bad.encode("latin-1"))
    watch.look()
    assert put[-1] == NodeRanks()


def test_a_node_whose_address_comes_after_the_table_finds_itself_in_it(path, put):
    """At boot the network may be up later than the daemon."""
    names = [frozenset({"n1"}), frozenset({"n1"}), frozenset({"n1", "10.0.0.1"})]
    watch = RankWatch(RankSettings(str(path)), put.append, names=lambda: names.pop(0))
    path.write_text(written(version_1()))
    for _ in range(3):
        watch.look()
    assert [len(ranks.by_chip) for ranks in put] == [0, 2]


PLANTED = {
    "a pipe": (os.mkfifo, "it is a pipe, not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a regular file"),
    "a file without end": (lambda path: (path.touch(), os.truncate(path, 1 << 40)), "it is larger than 8 MiB"),
    "deep brackets": (lambda path: path.write_text("[" * 60_000), "is nested more than 32 deep"),
    "deep brackets, and large": (lambda path: path.write_text("[" * 8_000_000), "is nested more than 32 deep"),
    "long names": (
        lambda path: path.write_text(written(version_1()).replace("10.0.0.1", "n" * 300)),
        "server_list[1].server_id: is longer than 255 characters",
    ),
    "more chips than a node has": (
        lambda path: path.write_text(written(version_1(servers=2, chips=1025))),
        "lists 1025 chips of this node; a node has at most 1024",
    ),
    "lists and lists": (
        lambda path: path.write_text('{"version": "1.0", "x": [' + "[]," * 500_000 + "[]]}"),
        "status: is missing",
    ),
}


@pytest.mark.parametrize(("plant", "said"), PLANTED.values(), ids=PLANTED)
def test_whatever_a_job_puts_there_is_told_and_neither_waited_for_nor_believed(path, watch, put, plant, said, caplog):
    plant(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watch.look()
    assert put == [NodeRanks()]
    assert [record.error for record in caplog.records] == [said]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000, "KiB: what it takes is the child's"


def test_a_large_table_is_read_elsewhere_and_says_the_same(path, watch, put):
    table = version_1(servers=1000, chips=8)
    path.write_text(written(table))
    assert SMALL_FILE_BYTES < path.stat().st_size < LARGEST_FILE_BYTES
    watch.look()
    assert [(dict(ranks.by_chip), ranks.server) for ranks in put] == [({n: 8 + n for n in range(8)}, "1")]


def test_a_byte_order_mark_does_no_harm(path):
    path.write_text("\ufeff" + written(version_1()), encoding="utf-8")
    assert len(read(RankSettings(str(path), "10.0.0.1"), frozenset).ranks.by_chip) == 2


def test_a_node_goes_by_its_name_and_its_addresses_but_not_by_the_loopback():
    names = names_of_node()
    assert os.uname().nodename in names
    assert not {"127.0.0.1", "::1", ""} & names
