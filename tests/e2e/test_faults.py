"""A misbehaving tool costs its own readings and nothing else: each fault through the whole daemon."""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_mthreads_gmi import TABLE as GOOD
from kits.fake_tools import ToolFolder

ERROR = "Error: failed to initialize mtml: driver not loaded\n"
PATIENT = '[sources.mthreads-gmi]\ninterval = 0.5\ndeadline = 60.0\nmode = "always"\n'
# For hanging tools. On a busy machine other tools may time out, too, so tests wait until states return.
STRICT = PATIENT.replace("60.0", "1.0")


def daemon(tmp_path: Path, tools: ToolFolder, config: str = PATIENT) -> Daemon:
    return Daemon(tmp_path, config, environment={"PATH": tools.search_path})


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, ToolFolder]]:
    """Yield a daemon that goes through one fault after another, and its tools."""
    folder = tmp_path_factory.mktemp("lasting")
    tools = ToolFolder(folder / "tools")
    tools.prints("mthreads-gmi", GOOD)
    with daemon(folder, tools, STRICT) as running:
        yield running, tools


def memory_used(running: Daemon) -> list[str]:
    return [line for line in running.page().splitlines() if line.startswith("accelerator_memory_used_bytes{")]


def until_read(running: Daemon) -> None:
    """Wait until the card's readings are there: the poll for processes may be the first that succeeds."""
    running.until(lambda: len(memory_used(running)) == 1)
    running.until_state("mthreads-gmi", "ok")


def test_good_tool_is_read(lasting):
    running, _ = lasting
    until_read(running)
    labels = '{device="0",id="0000:1a:00.0",model="MTT S80"'
    wanted = {
        f'accelerator_up{labels},vendor="moorethreads"}} 1.0',
        f'accelerator_temperature_celsius{labels},sensor="core",vendor="moorethreads"}} 58.0',
        f'accelerator_memory_used_bytes{labels},vendor="moorethreads"}} 2.147483648e+09',
        f'accelerator_memory_used_ratio{labels},vendor="moorethreads"}} 0.125',
        f'accelerator_utilization_ratio{labels},vendor="moorethreads"}} 0.37',
        f'accelerator_pcie_link_width{labels},vendor="moorethreads"}} 8.0',
        'telemetry_source_up{source="mthreads-gmi"} 1.0',
        'telemetry_devices{model="MTT S80",vendor="moorethreads"} 1.0',
    }
    running.until(lambda: wanted <= set(running.page().splitlines()))
    running.until(lambda: running.get("/readyz")[0] == 200)


Fault = Callable[[ToolFolder], object]


def state_and_reason(source):
    return source["state"], source["reason"]


@pytest.mark.parametrize(
    ("fault", "state", "reason"),
    [
        pytest.param(lambda t: t.hangs("mthreads-gmi", GOOD), "failed", "timeout", id="hangs and ignores SIGTERM"),
        pytest.param(lambda t: t.prints_for_ever("mthreads-gmi"), "failed", "too_much_output", id="prints for ever"),
        pytest.param(
            lambda t: t.prints("mthreads-gmi", random.Random(1).randbytes(4096)),
            "failed",
            "not_understood",
            id="garbage",
        ),
        pytest.param(
            lambda t: t.prints("mthreads-gmi", ERROR), "failed", "driver_gone", id="exits 0 with an error text"
        ),
        pytest.param(
            lambda t: t.closes_and_lives("mthreads-gmi", GOOD), "failed", "timeout", id="closes stdout, lives on"
        ),
        pytest.param(lambda t: t.prints("mthreads-gmi", "", status=3), "failed", "exit_status", id="fails in silence"),
        pytest.param(lambda t: t.crashes("mthreads-gmi", GOOD), "failed", "killed", id="crashes"),
        pytest.param(lambda t: (t.folder / "mthreads-gmi").unlink(), "missing", None, id="is uninstalled"),
    ],
)
def test_fault_of_a_tool_costs_its_readings_only(lasting, fault: Fault, state, reason):
    running, tools = lasting
    until_read(running)
    fault(tools)
    # The tool may have been replaced during a poll, whose answer is then a mixture.
    running.until(lambda: state_and_reason(running.source("mthreads-gmi")) == (state, reason))
    assert memory_used(running) == []
    assert "accelerator_up{" not in running.page()
    up = 'telemetry_source_up{source="mthreads-gmi"} 0.0'
    assert (up in running.page()) == (state == "failed")
    assert running.source("host")["state"] == "ok"
    assert "telemetry_host_memory_total_bytes" in running.page()
    tools.prints("mthreads-gmi", GOOD)
    until_read(running)


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(lambda t: t.prints("mthreads-gmi", GOOD, status=1), id="exits 1 with a good table"),
        pytest.param(lambda t: t.leaves_child("mthreads-gmi", GOOD), id="forks a child that holds the pipe"),
        pytest.param(lambda t: t.prints("mthreads-gmi", GOOD, stderr="warning: x\n"), id="warns on stderr"),
    ],
)
def test_odd_exit_of_a_tool_costs_no_reading(lasting, tool: Fault):
    """Neither its exit status nor a remaining child is a reason to lose good readings."""
    running, tools = lasting
    (tools.folder / "mthreads-gmi").unlink()
    running.until_state("mthreads-gmi", "missing")
    tool(tools)
    until_read(running)


def test_alternating_states_are_logged_once(tmp_path, tools):
    good, count = tmp_path / "good", tmp_path / "count"
    good.write_text(GOOD)
    two_and_two = f"echo >>{count}; [ $((($(wc -l <{count}) - 1) / 2 % 2)) = 0 ] && exec /bin/cat {good}"
    tools.script("mthreads-gmi", f'[ "$*" ] || exec /bin/cat {good}\n{two_and_two}\nexec echo "{ERROR.strip()}"')
    with daemon(tmp_path, tools) as running:
        for _ in range(2):
            running.until_state("mthreads-gmi", "failed")
            assert memory_used(running) == []
            until_read(running)
        polls = tools.calls("mthreads-gmi").count("-q --json")
        changes = running.logged("source=mthreads-gmi poll=readings")
        assert changes <= polls // 2 + 2


def test_hung_tool_delays_neither_scrapes_nor_exit(tmp_path, tools):
    tools.hangs("mthreads-gmi")
    slow = '[sources.mthreads-gmi]\ninterval = 0.5\ndeadline = 300.0\nmode = "always"\n[sources.host]\ninterval = 0.5\n'
    with daemon(tmp_path, tools, slow) as running:
        running.until(lambda: tools.pids("mthreads-gmi"))
        running.until_state("host", "ok")
        before = running.source("host")["polls"][0]["age_seconds"]
        running.until(lambda: running.source("host")["polls"][0]["age_seconds"] < before)
        assert running.source("mthreads-gmi") == {}
        assert running.stop()[0] == 0
        started = tools.pids("mthreads-gmi")
        assert len(started) == 1
        assert not Path(f"/proc/{started[0]}").exists()


def known_since(running):
    return re.search(r"^telemetry_remembers_since_timestamp_seconds (\S+)$", running.page(), re.MULTILINE)[1]


def test_lost_card_is_remembered_until_forgotten(tmp_path, tools):
    second = (
        GOOD.split("+---")[1]
        .split("\n", 1)[1]
        .split("-----", maxsplit=1)[0]
        .replace("0    MTT", "1    MTT")
        .replace(":1a:", ":1b:")
    )
    both = GOOD.replace("N/A\n-----", f"N/A\n{second}-----", 1)
    tools.prints("mthreads-gmi", both)
    quiet = f"{PATIENT}[flight_recorder]\nenabled = false\n"
    with daemon(tmp_path, tools, quiet) as running:
        running.until(lambda: len(memory_used(running)) == 2)
        tools.prints("mthreads-gmi", GOOD)
        running.until(lambda: len(memory_used(running)) == 1)
        lost = '{device="1",id="0000:1b:00.0",model="MTT S80",vendor="moorethreads"} 0.0'
        assert f"accelerator_up{lost}" in running.page()
        running.logs("device lost")
        since = known_since(running)
        assert running.stop()[0] == 0
    with daemon(tmp_path, tools, quiet) as again:
        until_read(again)
        assert known_since(again) == since
        assert f"accelerator_up{lost}" in again.page()
        assert run_main("forget", "0000:1b:00.0", "--config", str(again.config_path))[0] == 0
        assert f"accelerator_up{lost}" not in again.page()
        status, _, error = run_main("forget", "0000:1b:00.0", "--config", str(again.config_path))
        assert (status, "not a lost device" in error) == (64, True)
        remembered = (tmp_path / "state" / "devices.json").read_text()
        assert "0000:1b:00.0" not in remembered, "not even if the daemon is killed now"
        status, _, error = run_main("forget", "0000:1a:00.0", "--config", str(again.config_path))
        assert (status, "is present" in error) == (64, True)
        assert again.stop()[0] == 0
