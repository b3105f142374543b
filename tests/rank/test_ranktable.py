"""Rank tables are read strictly when they change; their ranks appear on devices, the page and in `config check`."""

import os
import re
import resource
from dataclasses import replace

import pytest

from kits import snapshots as kit
from kits.captures import own_case
from kits.command_line import run_main
from kits.rank_tables import version_1, version_2, written
from telemetry_daemon.config.settings import RankSettings
from telemetry_daemon.state.ranks import MAX_FILE_BYTES, SMALL_FILE_BYTES, RankTableWatcher, find_node_names, read_ranks
from telemetry_exporters.documents import snapshot_json
from telemetry_exporters.prometheus.renderer import text_page
from telemetry_parsers.merge.ranks import NodeRanks, with_ranks
from telemetry_parsers.vendors.ascend.rank_table import RankTableError, ranks_of, read_rank_table

PLACE, UNNAMED = "server_list[0].device[1]", "has 2 ranks (the table names no servers)"
HERE = frozenset({"node1", "198.51.100.1", "fe80::1"})


def problem(text: str) -> str:
    with pytest.raises(RankTableError) as caught:
        read_rank_table(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        (written(version_1(version="1.0")), ["10.0.0.0", "10.0.0.1"]),
        (written(version_1(version="1.2")), ["10.0.0.0", "10.0.0.1"]),
        (written(version_2()), ["pod0", "pod1"]),
    ],
)
def test_a_table_of_each_version_is_read(text: str, servers: list[str]) -> None:
    table = read_rank_table(text)
    assert [server.id for server in table.servers] == servers
    ranks = [(rank.rank, rank.chip, rank.server.id, rank.server.ordinal) for rank in table.ranks]
    assert ranks == [(number, number % 2, servers[number // 2], number // 2) for number in range(4)]


def second(table):
    return table["server_list"][0]["device"][1]


ERRORS = [
    (version_1, lambda t: t.pop("status"), "status: is missing"),
    (version_1, lambda t: t.update(version="3.0"), "version: must be 1.0, 1.2 or 2.0, not 3.0"),
    (version_1, lambda t: second(t).update(rank_id="one"), f'{PLACE}.rank_id: must be a whole number, not "one"'),
    (version_1, lambda t: second(t).update(device_id=True), f"{PLACE}.device_id: must be a whole number, not true"),
    (version_1, lambda t: t["server_list"][0].update(host_ip=4), "server_list[0].host_ip: must be a JSON string"),
    (version_1, lambda t: t.update(server_count="3"), "server_count: is 3, but 2 are listed"),
    (version_1, lambda t: second(t).update(rank_id="3"), "rank 3 is listed 2 times"),
    (version_1, lambda t: second(t).update(device_id="0"), "device 0 has 2 ranks on server 10.0.0.0"),
    (version_1, lambda t: [server.update(device=[]) for server in t["server_list"]], "the table lists no ranks"),
    (version_2, lambda t: t.update(rank_count=5), "rank_count: is 5, but 4 are listed"),
    (version_2, lambda t: [rank.pop("level_list") for rank in t["rank_list"]], f"device 0 {UNNAMED}"),
]


@pytest.mark.parametrize(("version", "change", "text"), ERRORS)
def test_errors_name_their_position(version, change, text: str) -> None:
    table = version()
    table["a further key"] = []
    change(table)
    assert problem(written(table)).startswith(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{\n "status": "completed",  // done\n "version": "1.0"}', "line 2 is not valid JSON: JSON has no comments"),
        ('{"a": [{\n},\n...\n]}', "line 3 is not valid JSON: replace the dots with"),
        ('{"a": [1,]\n}', "line 1 is not valid JSON: remove the comma before the closing bracket"),
        ('{"a": 1\n "b": 2}', "line 2 is not valid JSON: Expecting ',' delimiter at column 2"),
        ("[]", "the document: must be an object"),
        ("[" * 33 + "]" * 33, "is nested more than 32 levels deep"),
        ('{"a": "' + "[" * 100 + '\\"[", "b": 1', "line 1 is not valid JSON: Expecting ',' delimiter"),
        ('"\\' * 100_000 + "\\", "line 1 is not valid JSON: "),
        ('{"rank_count": ' + "9" * 5000 + "}", ""),
    ],
)
def test_invalid_json_is_refused_with_its_line(text: str, error: str) -> None:
    assert problem(text).startswith(error)


@pytest.mark.parametrize(
    ("names", "wanted", "ranks"),
    [
        (HERE, "", [2, 3]),
        ({"203.0.113.1"}, "", [2, 3]),
        (set(), "198.51.100.0", [0, 1]),
    ],
)
def test_server_is_the_wanted_one_or_the_one_with_names_of_this_node(names, wanted: str, ranks: list[int]) -> None:
    assert [rank.rank for rank in ranks_of(read_rank_table(written(version_1())), names, wanted)] == ranks


def test_the_only_server_is_this_node() -> None:
    assert len(ranks_of(read_rank_table(written(version_1(servers=1))), {"elsewhere"})) == 2


@pytest.mark.parametrize(
    ("servers", "names", "wanted", "text"),
    [
        (2, {"elsewhere"}, "", "this node matches none of the servers 10.0.0.0, 10.0.0.1; set rank_table_server"),
        (2, {"10.0.0.0", "10.0.0.1"}, "", "this node matches several of the servers 10.0.0.0, 10.0.0.1; set"),
        (1, {"10.0.0.0"}, "10.9.9.9", "rank_table_server 10.9.9.9 matches none of the servers 10.0.0.0; set"),
        (
            9,
            set(),
            "",
            "this node matches none of the servers 10.0.0.0, 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4 and 4 more",
        ),
    ],
)
def test_unknown_node_is_reported(servers: int, names, wanted: str, text: str) -> None:
    with pytest.raises(RankTableError) as caught:
        ranks_of(read_rank_table(written(version_1(servers=servers))), names, wanted)
    assert str(caught.value).startswith(text)


RANKS = NodeRanks("1", {0: 36, 1: 37})


def npu(number, **more):
    return kit.device(number, kit.reading("power_watts", 90.0), vendor="ascend", model="910B3", **more)


def page(*devices, ranks=RANKS):
    return text_page(kit.snapshot(*with_ranks(devices, ranks))).decode()


def series(text):
    return [line for line in text.splitlines() if line.startswith("accelerator_rank_info{")]


def test_rank_37_is_a_card() -> None:
    """The card is found by its physical id if reported, else by index. Rank and server are no facts of the device."""
    text = page(npu(0), npu(1))
    assert not [word for word in ("server", "rank") if word in str(re.findall("accelerator_info{.*", text))]
    assert 'rank="37"' in series(page(replace(npu(0), facts=(("phy_id", "1"),))))[0]
    first, second = series(text)
    assert 'rank="36"' in first
    assert 'device="1"' in second
    assert 'rank="37"' in second
    assert 'server="1"' in second
    assert second.endswith("} 1.0")


def test_rank_table_wins_over_ranks_of_processes() -> None:
    of_processes = kit.device(0, kit.reading("rank_info", 1.0, "9"), vendor="ascend", model="910B3")
    (line,) = series(page(of_processes))
    assert 'rank="36"' in line


def test_other_vendors_lost_devices_and_doubtful_ones_have_no_rank() -> None:
    nvidia = kit.device(0, kit.reading("power_watts", 90.0))
    lost = replace(npu(0), up=False)
    assert series(page(nvidia, lost, npu(5))) == []
    assert series(page(npu(0), replace(npu(1), index=0))) == []


def test_document_has_the_rank() -> None:
    snapshot = kit.snapshot(*with_ranks((npu(1),), RANKS))
    (device,) = snapshot_json.document(snapshot)["devices"]
    assert device["readings"]["rank_info"] == {"37": 1.0}
    assert device["origin"]["rank_info"] == "rank-table"


@pytest.mark.parametrize(
    ("text", "status", "error"),
    [
        (written(version_1()), 0, "version 1.0, 4 ranks on 2 servers, 2 here\n"),
        (None, 0, "the file does not exist yet"),
        ('{"status": "completed"  // yes\n}', 78, "line 1 is not valid JSON: JSON has no comments"),
        (written(version_1(servers=1)), 78, "rank_table_server 10.0.0.1 matches none of the servers 10.0.0.0"),
    ],
)
def test_a_table_is_checked_with_the_configuration(tmp_path, text, status, error):
    table = tmp_path / "hccl.json"
    if text is not None:
        table.write_text(text)
    environment = {"TELEMETRY_RANK_TABLE": str(table), "TELEMETRY_RANK_TABLE_SERVER": "10.0.0.1"}
    ended, out, errors = run_main("config", "check", environment=environment)
    assert (ended, out) == (status, "" if status else "the configuration is valid\n")
    assert f"rank_table: {table}: {error}" in errors


@pytest.mark.parametrize("name", ["hccn-tool", "hccn_tool"])
def test_source_may_have_the_spelling_of_its_tool(tmp_path, name):
    body = own_case("hccn-tool", "link").path.read_text().split("# ---\n")[1]
    saved = tmp_path / "saved.txt"
    saved.write_text(body)
    status, out, _ = run_main("parse", name, str(saved))
    assert (status, '"link_up"' in out) == (2, True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hccl.json"


@pytest.fixture
def put():
    return []


@pytest.fixture
def watch(path, put):
    return RankTableWatcher(RankSettings(str(path), "10.0.0.1"), put.append)


def test_ranks_follow_the_settings(path, watch, put):
    path.write_text(written(version_1()))
    watch.check()
    assert [(dict(ranks.ranks_by_physical_id), ranks.server) for ranks in put] == [({0: 2, 1: 3}, "1")]
    watch.configure(RankSettings(str(path), "10.0.0.1", map_addresses=False))
    watch.check()
    assert put[-1].server == "10.0.0.1"
    watch.configure(RankSettings())
    watch.check()
    assert put[-1] == NodeRanks()


def test_a_table_that_could_not_be_opened_is_read_when_it_can(path, watch, put):
    """New permissions change neither the size nor the time of the last change."""
    path.write_text(written(version_1()))
    watch.check()
    path.chmod(0o600)
    watch.check()
    assert [len(ranks.ranks_by_physical_id) for ranks in put] == [2, 2]


def test_a_table_is_read_once_and_again_when_it_changes(path, watch, put):
    path.write_text(written(version_1()))
    for _ in range(3):
        watch.check()
    assert len(put) == 1
    replaced = path.with_name("next")
    replaced.write_text(written(version_1(chips=3)))
    replaced.replace(path)
    watch.check()
    assert [dict(ranks.ranks_by_physical_id) for ranks in put[1:]] == [{0: 3, 1: 4, 2: 5}]


def test_a_table_may_come_later_and_go_again(path, watch, put):
    watch.check()
    path.write_text(written(version_1()))
    watch.check()
    path.unlink()
    watch.check()
    assert [len(ranks.ranks_by_physical_id) for ranks in put] == [0, 2, 0]


@pytest.mark.parametrize("bad", ["{", written({**version_1(), "status": "initializing"}), "\xff\xfe"])
def test_a_bad_or_unfinished_table_takes_the_ranks_away(path, watch, put, bad):
    path.write_text(written(version_1()))
    watch.check()
    path.write_bytes(bad.encode("latin-1"))
    watch.check()
    assert put[-1] == NodeRanks()


def test_a_node_whose_address_comes_after_the_table_finds_itself_in_it(path, put):
    """At boot the network may be up later than the daemon."""
    names = [frozenset({"n1"}), frozenset({"n1"}), frozenset({"n1", "10.0.0.1"})]
    watch = RankTableWatcher(RankSettings(str(path)), put.append, get_node_names=lambda: names.pop(0))
    path.write_text(written(version_1()))
    for _ in range(3):
        watch.check()
    assert [len(ranks.ranks_by_physical_id) for ranks in put] == [0, 2]


PLANTED = {
    "a pipe": (os.mkfifo, "it is a pipe, not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a regular file"),
    "a file without end": (lambda path: (path.touch(), os.truncate(path, 1 << 40)), "it is larger than 8 MiB"),
    "deep brackets": (lambda path: path.write_text("[" * 60_000), "is nested more than 32 levels deep"),
    "deep brackets, and large": (lambda path: path.write_text("[" * 8_000_000), "is nested more than 32 levels deep"),
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


@pytest.mark.parametrize(("plant", "error"), PLANTED.values(), ids=PLANTED)
def test_invalid_file_is_reported_at_once_without_ranks(path, watch, put, plant, error, caplog):
    plant(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watch.check()
    assert put == [NodeRanks()]
    assert [record.error for record in caplog.records] == [error]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000, "KiB: what it takes is the child's"


def test_large_table_is_read_in_a_child_with_the_same_result(path, watch, put):
    table = version_1(servers=1000, chips=8)
    path.write_text(written(table))
    assert SMALL_FILE_BYTES < path.stat().st_size < MAX_FILE_BYTES
    watch.check()
    assert [(dict(ranks.ranks_by_physical_id), ranks.server) for ranks in put] == [({n: 8 + n for n in range(8)}, "1")]


def test_a_byte_order_mark_does_no_harm(path):
    path.write_text("\ufeff" + written(version_1()), encoding="utf-8")
    assert len(read_ranks(RankSettings(str(path), "10.0.0.1"), frozenset).ranks.ranks_by_physical_id) == 2


def test_node_has_its_name_and_addresses_without_the_loopback():
    names = find_node_names()
    assert os.uname().nodename in names
    assert not {"127.0.0.1", "::1", ""} & names
