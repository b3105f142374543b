"""A daemon on a node with Ascend chips: joined outputs of both tools, and a rank table that appears and changes."""

import json

import pytest

from kits.captures import text_of
from kits.daemon import Daemon, run
from kits.fake_tools import Answer, ToolFolder
from kits.rank_tables import version_1, written

UNKNOWN = Answer("Error parameter of -t\n", status=255)


@pytest.fixture
def tools(tmp_path):
    """Return npu-smi of a card with two dies, and hccn_tool for both by their physical ids 6 and 7."""
    folder = ToolFolder(tmp_path / "tools")
    usages = "NPU ID : 3\nChip Count : 2\nAicpu Usage Rate(%) : 4\nChip ID : 0\nAicpu Usage Rate(%) : 9\nChip ID : 1\n"
    npu_smi = {
        "info": text_of("npu-smi", "table-a3-dies"),
        "info -m": text_of("npu-smi", "m-a3"),
        "info -t usages -i 3": usages,
    }
    folder.answers("npu-smi", {words: Answer(text) for words, text in npu_smi.items()}, UNKNOWN)
    links = {f"-i {chip} -link -g": Answer(f"link status: {state}\n") for chip, state in ((6, "UP"), (7, "DOWN"))}
    folder.answers("hccn_tool", links, Answer("Invalid parameter\n", status=1))
    return folder


def environment(tools, **more):
    return {"PATH": tools.search_path, **more}


def test_readings_of_both_tools_are_joined(tools, tmp_path):
    config = tmp_path / "telemetry.toml"
    config.write_text(f'[state]\nruntime_directory = "{tmp_path}/run"\n')
    arguments = ("--all", "--format", "json", "--source", "npu-smi", "--source", "hccn-tool", "--config", str(config))
    _, out, _ = run("snapshot", *arguments, environment=environment(tools))
    document = json.loads(out)
    chips = [
        (
            device["index"],
            device["bus_id"],
            device["readings"]["engine_utilization_ratio"]["aicpu"],
            device["readings"]["link_up"],
        )
        for device in document["devices"]
    ]
    assert chips == [(6, "0000:92:00.0", 0.04, {"roce": 1.0}), (7, "0000:94:00.0", 0.09, {"roce": 0.0})]
    assert {"-i 6 -link -g", "-i 7 -link -g"} <= set(tools.calls("hccn_tool"))


def test_ranks_appear_with_their_table(tools, tmp_path):
    table = tmp_path / "hccl.json"
    found = environment(tools, TELEMETRY_RANK_TABLE=str(table), TELEMETRY_RANK_TABLE_SERVER="10.0.0.1")
    with Daemon(tmp_path, environment=found) as daemon:
        daemon.until(lambda: 'accelerator_up{device="7"' in daemon.page())
        daemon.until(lambda: "accelerator_link_up{" in daemon.page())
        assert "accelerator_rank_info" not in daemon.page()
        table.write_text(written(version_1(chips=8)))
        daemon.until(lambda: "accelerator_rank_info{" in daemon.page())
        page = daemon.page()
    (rank,) = [line for line in page.splitlines() if 'rank="15"' in line]
    assert 'device="7"' in rank
    assert 'server="1"' in rank
    assert page.count("accelerator_rank_info{") == 2
