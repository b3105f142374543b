"""Recordings of a running daemon: a fault is recorded once and replays identically; recording disturbs nothing."""

import gzip
import json
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from e2e.mixed_node import MixedNode
from kits.command_line import run_main
from kits.daemon import COMMAND, Daemon, clean_environment
from kits.fake_nvml.library import FakeNvml
from kits.fake_nvml.profile import load_profile
from kits.tool_node import TOOL, tool_node
from kits.waiting import PATIENCE_SECONDS, comes_true
from page.nodes import Node
from telemetry_daemon.recordings import recorder

FAST = "".join(f"[sources.{name}]\ninterval = 0.5\n" for name in ("nvml", "host"))
# A file is written five seconds after an alarm, by a process that masks it.
SETTLED_SECONDS = 7.0

pytestmark = [pytest.mark.installed, pytest.mark.needs("cc")]


def flights(daemon: Daemon) -> list[Path]:
    return sorted((daemon.folder / "state" / "flights").glob("*.jsonl.gz"))


def two_cards(folder: Path) -> FakeNvml:
    return FakeNvml(folder / "nvml", load_profile("h100").with_gpus(2))


def until_known(daemon: Daemon) -> None:
    """Wait until both cards were reported: the loss of an unknown card is no event."""
    daemon.until(lambda: len(daemon.document()["devices"]) == 2 and daemon.get("/readyz")[0] == 200)


def conditions(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the condition of each device; ids are masked in a recording."""
    return {f"{device['vendor']} {device['device']}": device["condition"]["word"] for device in document["devices"]}


def replayed(path: Path, *arguments: str) -> Mapping[str, Any]:
    status, out, error = run_main("snapshot", "--replay", str(path), "--format", "json", *arguments)
    assert status in (0, 2), error
    document: Mapping[str, Any] = json.loads(out)
    return document


FAULTS = {
    "lost": {"lasting": [["lost", [1]]]},
    "hot": {"readings": [[0, "throttled", "sw_thermal", 1.0]]},
    "xid_79": {"once": [["xid_79", [0]]]},
    "application's event": {"once": [["xid_43", [0]]]},
    "hung tool": {"lasting": [["hung tool", [0]]]},
}


# recordings/test_alarms.py shows which faults are alarms.
QUICK = {"lost"}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=() if fault in QUICK else pytest.mark.long) for fault in FAULTS]
)
def test_fault_is_recorded_once_and_replays_to_the_same_verdict(tmp_path: Path, fault: str) -> None:
    node = Node(tmp_path, "2xnvidia", {"lasting": [], "once": [], "readings": [], "events": []}, config=FAST)
    with node.daemon() as daemon:
        daemon.until(
            lambda: (
                set(conditions(daemon.document()).values()) <= {"ok", "at power cap"} and daemon.document()["devices"]
            )
        )
        time.sleep(2.0)  # ignore the parts that differ in a replay
        node.set_stage(**FAULTS[fault])
        daemon.until(lambda: flights(daemon))
        live = daemon.document()
        time.sleep(SETTLED_SECONDS)
        (path,) = flights(daemon)
        assert path.stat().st_mode & 0o777 == 0o600
        daemon.logs("the last minutes were recorded")
        assert path.name in daemon.get("/")[1]
    document = replayed(path)
    states = {source["source"]: source["state"] for source in live["sources"] if source["source"] != "host"}
    assert {source["source"]: source["state"] for source in document["sources"] if source["source"] != "host"} == states
    if fault != "hot":  # set by the stage, not in captures
        at_cap = {"at power cap": "ok"}  # it changes from poll to poll
        recorded, seen = (
            {name: at_cap.get(word, word) for name, word in conditions(of).items()} for of in (document, live)
        )
        assert recorded == seen


def test_stopping_daemon_writes_pending_file(tmp_path: Path) -> None:
    fake = two_cards(tmp_path)
    with Daemon(tmp_path, FAST, environment=fake.environment) as daemon:
        until_known(daemon)
        fake.lose(1)
        daemon.until(lambda: "lost" in conditions(daemon.document()).values())
        assert daemon.stop()[0] == 0
        (path,) = flights(daemon)
    assert list(conditions(replayed(path)).values()).count("lost") == 1


def test_disabled_recorder_writes_nothing(tmp_path: Path) -> None:
    fake = two_cards(tmp_path)
    off = FAST + "[flight_recorder]\nenabled = false\n"
    with Daemon(tmp_path, off, environment=fake.environment) as daemon:
        until_known(daemon)
        fake.lose(1)
        daemon.until(lambda: "lost" in conditions(daemon.document()).values())
        path = str(tmp_path / "x.gz")
        asked = ("record", "--config", str(daemon.config_path), "-o", path, "--for", "0.1", "--before")
        assert "no earlier captures" in run_main(*asked)[2]
        daemon.write_config(FAST)
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: daemon.logged("configuration reloaded"))
        fake.lose(0)
        daemon.until(lambda: list(conditions(daemon.document()).values()).count("lost") == 2)
        daemon.write_config(off)
        daemon.signal(signal.SIGHUP)
        daemon.until(lambda: flights(daemon))
        assert len(flights(daemon)) == 1, "of what happened while it was on"


def test_recording_of_the_daemon_polls_nothing(tmp_path: Path) -> None:
    daemon, tools = tool_node(tmp_path)
    path = tmp_path / "recording.jsonl.gz"
    with daemon:
        daemon.until_state(TOOL, "ok")
        status, _, message = run_main("record", "--config", str(daemon.config_path), "-o", str(path), "--for", "1")
        assert (status, "sources from the daemon in " in message) == (0, True)
        recorded = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        of_tool = [record for record in recorded if record["source"] == TOOL and record["outputs"]]
        assert 1 <= len(of_tool) <= len(tools.calls(TOOL))
        assert {record["source"] for record in recorded} >= {TOOL, "host"}
        daemon.until(lambda: len(tools.calls(TOOL)) > 8)
        before = run_main("record", "--config", str(daemon.config_path), "-o", str(path), "--for", "0.1", "--before")
        assert (before.status, " captures were recorded before the start" in before.stderr) == (0, True)
        more = gzip.decompress(path.read_bytes()).count(b"\n")
    status, _, message = run_main(
        "record", "--config", str(daemon.config_path), "-o", str(path), "--for", "0.1", "--before"
    )
    assert (status, "--before needs a daemon with the same settings" in message) == (64, True)
    assert gzip.decompress(path.read_bytes()).count(b"\n") == more, "the earlier recording is still there"
    status, _, message = run_main("record", "--config", str(daemon.config_path), "--from", "daemon")
    assert (status, "no daemon answers" in message) == (69, True)


def test_slow_client_gets_all_captures(tmp_path: Path) -> None:
    daemon, _ = tool_node(tmp_path)
    with daemon:
        daemon.until_state(TOOL, "ok")
        runtime = str(tmp_path / "run")
        daemon.until(lambda: len(list(recorder.recent_captures(runtime))) > 30)
        kept = len(list(recorder.recent_captures(runtime)))
        asked, capture_times = recorder.DaemonCaptures(runtime, 2.0, minutes_before=True, max_round_seconds=60.0), []
        begun = time.monotonic()
        for capture in asked.captures():
            capture_times.append(capture.monotonic_time)
            time.sleep(0.1)  # longer than it takes the daemon to read them
    assert len(capture_times) >= kept
    assert begun < max(capture_times) <= asked.until


def test_simulated_node_is_recorded_and_replay_is_not(tmp_path: Path) -> None:
    path = tmp_path / "demo.jsonl.gz"
    with Daemon(tmp_path, arguments=("--demo", "2xnvidia,1xhygon")) as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 3)
        asked = ("record", "--config", str(daemon.config_path), "--from", "daemon", "--for", "0.5", "-o")
        assert run_main(*asked, str(path))[0] == 0
        status, _, message = run_main("replay", "pause", "--config", str(daemon.config_path))
        plays_nothing = "this daemon does not replay a recording; start one with `telemetry serve --replay FILE`"
        assert (status, plays_nothing in message) == (64, True)
    assert "scheduler" in [source["source"] for source in replayed(path)["sources"]]
    assert len(replayed(path)["devices"]) == 3
    status, _, message = run_main("parse", "nvml", str(path))
    assert (status, "is a recording of simulated cards" in message, "snapshot --replay" in message) == (64, True, True)
    with Daemon(tmp_path, arguments=("--replay", str(path))) as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 3)
        for again in (path, tmp_path / "again.jsonl"):
            status, _, message = run_main(*asked, str(again))
            assert (status, message.count("\n"), "if the daemon plays a recording, copy" in message) == (69, 1, True)
        assert run_main("replay", "speed", "2x", "--config", str(daemon.config_path))[0] == 0
    status, _, message = run_main(*asked, str(path))
    assert (status, message.count("\n"), "no daemon answers on" in message) == (69, 1, True)
    assert len(replayed(path)["devices"]) == 3, "an earlier recording stays where nothing is recorded"
    assert not (tmp_path / "again.jsonl").exists()


def test_recording_ends_with_the_daemon(tmp_path: Path) -> None:
    daemon, _ = tool_node(tmp_path)
    path = tmp_path / "recording.jsonl"
    with daemon:
        daemon.until_state(TOOL, "ok")
        command = [*COMMAND, "record", "--config", str(daemon.config_path), "-o", str(path), "--for", "1h"]
        recording = subprocess.Popen(command, env=clean_environment({}), stderr=subprocess.PIPE, text=True)
        assert comes_true(lambda: path.exists() and path.stat().st_size > 0)
        daemon.stop()
        message = recording.communicate(timeout=PATIENCE_SECONDS)[1]
    assert "the daemon stopped" in message
    assert recording.returncode == 0
    assert replayed(path)["devices"]


_TIMES = re.compile(r"timestamp|_seconds|uptime|created")
_OF_READINGS = re.compile(r"accelerator_|telemetry_host_")


def same_in_both(page: str) -> set[str]:
    """Return the lines that a recording must reproduce: readings, without times."""
    lines = {line.replace(',replayed="true"', "") for line in page.splitlines() if _OF_READINGS.match(line)}
    return {line for line in lines if not _TIMES.search(line.partition("{")[0])}


@pytest.mark.long
def test_recording_of_all_vendors_replays_the_same_page(tmp_path: Path) -> None:
    node = MixedNode(tmp_path)
    path = tmp_path / "recording.jsonl.gz"
    with Daemon(tmp_path, node.config, environment=node.environment) as daemon:
        daemon.until(lambda: all(source["state"] != "starting" for source in daemon.document()["sources"]))
        time.sleep(3)
        config = str(daemon.config_path)
        before = same_in_both(daemon.page())
        assert run_main("record", "--config", config, "-o", str(path), "--for", "4", "--before", "--unmasked")[0] == 0
        after, vendors = same_in_both(daemon.page()), {device["vendor"] for device in daemon.document()["devices"]}
    assert len(vendors) == 11
    (tmp_path / "again").mkdir()
    with Daemon(tmp_path / "again", arguments=("--replay", str(path), "--at", "end", "--once")) as daemon:
        daemon.until(lambda: len({device["vendor"] for device in daemon.document()["devices"]}) == 11)
        again = same_in_both(daemon.page())
    # Answers of a slow tool after the end of the recording are only on the page. The host changes during the last
    # second; and counters derived from readings start with the recording.
    different = ((before & after) - again) | (again - (before | after))
    changing = {line for line in different if not line.startswith(("telemetry_host_", "accelerator_energy_estimated"))}
    assert sorted(changing) == []
    kept = after & again
    assert len(kept) > 500
