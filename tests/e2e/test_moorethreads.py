"""mthreads-gmi of each version with a daemon: command lines, intervals, and the page."""

from pathlib import Path
from typing import Any

import pytest

from kits.daemon import Daemon
from kits.fake_mthreads_gmi import BUSY_TABLE, CARD, REFUSAL, TOOL, install
from kits.fake_mtml import FakeMtml
from kits.fake_tools import Answer, ToolFolder

FAST = '[sources.mthreads-gmi]\ninterval = 0.3\nmode = "always"\n'
IN_TABLE = {"temperature_celsius": {"core": 58.0}, "utilization_ratio": 0.37, "memory_used_bytes": 2048.0 * 2**20}
IN_QUERY = {
    **IN_TABLE,
    "power_watts": 121.5,
    "power_cap_watts": 255.0,
    "fan_ratio": 0.61,
    "memory_free_bytes": 14336.0 * 2**20,
    "clock_hertz": {"graphics": 1.6e9, "memory": 1.75e9, "video": 1.1e9},
    "engine_utilization_ratio": {"encoder": 0.05, "decoder": 0.0},
    "pcie_link_generation": 4.0,
    "pcie_link_generation_max": 5.0,
    "performance_state": 0.0,
}
BOTH = ("-q --json", "-q")


def card(running: Daemon) -> Any:
    return next(iter(running.document()["devices"]), {"readings": {}})


@pytest.mark.parametrize(
    ("knows", "refusal", "asked", "once", "wanted"),
    [
        pytest.param(BOTH, REFUSAL, "-q --json", [], IN_QUERY, id="json", marks=pytest.mark.long),
        pytest.param(("-q",), REFUSAL, "-q", ["-q --json"], IN_QUERY, id="text only", marks=pytest.mark.long),
        pytest.param((), REFUSAL, "", ["-q --json", "-q"], IN_TABLE, id="table only"),
    ],
)
def test_best_known_flags_of_each_version_are_used(
    tmp_path: Path, knows: tuple[str, ...], refusal: Answer, asked: str, once: list[str], wanted: dict[str, Any]
) -> None:
    tools = ToolFolder(tmp_path / "tools")
    install(tools, knows, BUSY_TABLE, refusal)
    with Daemon(tmp_path, FAST, environment={"PATH": tools.search_path}) as running:
        running.until(lambda: len(tools.calls(TOOL)) >= 8 and "processes" in card(running)["readings"])
        found = card(running)
        assert running.source(TOOL)["state"] == "ok"
        calls = tools.calls(TOOL)
    # The poll for processes runs the tool once a minute, without flags.
    assert sorted(set(calls)) == sorted({*once, asked, ""})
    assert [calls.count(words) for words in once] == [1] * len(once)
    assert calls.count("") == 1 or asked == ""
    assert found["readings"].items() >= wanted.items()
    assert found["readings"]["processes"] == 2.0
    assert [process["pid"] for process in found["processes"]] == [4711, 4712]
    assert found["bus_id"] == "0000:1a:00.0"
    if wanted is IN_TABLE:
        assert found["absent"]["power_watts"] == "not_reported"
    else:
        assert (found["serial"], found["driver"]) == ("MY18VG021C800777", "2.7.0")


@pytest.mark.needs("cc")
def test_library_is_preferred_and_tool_adds_the_rest(tmp_path: Path) -> None:
    tools, library = ToolFolder(tmp_path / "tools"), FakeMtml(tmp_path / "mtml", cards=1)
    install(tools, BOTH, BUSY_TABLE)
    library.set_answers(0, power=99_250, uuid=CARD["GPU UUID"])
    environment = {**library.environment, "PATH": tools.search_path}
    with Daemon(tmp_path, "[sources.mtml]\ninterval = 0.3\n" + FAST, environment=environment) as running:
        wanted = {"power_watts", "power_cap_watts", "link_up", "clock_max_hertz", "processes"}
        running.until(lambda: wanted <= card(running)["readings"].keys())
        found = card(running)
        devices = running.document()["devices"]
        library.set_answers("node", count="!1")
        running.until_state("mtml", "failed")
        running.until(lambda: card(running)["readings"].get("power_watts") == 121.5)
        after = card(running)
    assert len(devices) == 1, "one card, by its bus address and its uuid"
    tools_own = {"power_cap_watts", "processes"}
    assert {key: found["origin"][key] for key in wanted} == {
        key: TOOL if key in tools_own else "mtml" for key in wanted
    }
    assert found["readings"]["power_watts"] == 99.25
    assert (after["id"], after["up"]) == (found["id"], True)
