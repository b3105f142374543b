"""The whole daemon on a node whose NVML goes wrong: what is on the page, and that nothing else suffers."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kits.daemon import Daemon, run
from kits.fake_nvml.library import LIB_RM_VERSION_MISMATCH, FakeNvml
from kits.processes import alive
from kits.waiting import scaled

pytestmark = pytest.mark.needs("cc")
FAST = "[sources.nvml]\ninterval = 0.3\ndeadline = 1.0\n"
LOST = "GPU-5f1c2a90-77b3-4d0e-9a51-0c3e88000102"
# What took the card away may have been told together with its loss, so its events are still to be seen.
STAYS = {
    "accelerator_up",
    "accelerator_info",
    "accelerator_events_total",
    "accelerator_event_last_timestamp_seconds",
    "accelerator_event_open",
}
KEPT = "GPU-5f1c2a90-77b3-4d0e-9a51-0c3e88000101"


def daemon(tmp_path: Path, fake: FakeNvml, config: str = FAST) -> Daemon:
    return Daemon(tmp_path, config, environment=fake.environment)


def series(running: Daemon, name: str, **labels: str) -> list[str]:
    """The lines of one metric with these labels."""
    wanted = [f'{key}="{text}"' for key, text in labels.items()]
    lines = [line for line in running.page().splitlines() if line.startswith(f"{name}{{")]
    return [line for line in lines if all(label in line for label in wanted)]


def last(lines: list[str]) -> str:
    (line,) = lines
    return line.rpartition(" ")[2]


def test_eight_gpus_are_served(tmp_path: Path, fake: FakeNvml) -> None:
    with daemon(tmp_path, fake) as running:
        running.until(lambda: len(series(running, "accelerator_sm_active_ratio", vendor="nvidia")) == 8)
        assert last(series(running, "accelerator_power_watts", id=KEPT)) == "645.31"
        assert last(series(running, "accelerator_up", id=KEPT)) == "1.0"
        assert 'telemetry_source_up{source="nvml"} 1.0' in running.page()
        assert 'telemetry_devices{model="NVIDIA H100 80GB HBM3",vendor="nvidia"} 8.0' in running.page()
        running.until(lambda: series(running, "accelerator_link_up", id=KEPT, link="17"))


def test_a_lost_gpu_is_down_without_a_reading_and_the_others_go_on(tmp_path: Path, fake: FakeNvml) -> None:
    with daemon(tmp_path, fake) as running:
        running.until(lambda: series(running, "accelerator_power_cap_watts", id=LOST))
        fake.xid(2, 79)
        fake.lose(2)
        running.until(lambda: last(series(running, "accelerator_up", id=LOST)) == "0.0")
        running.until(lambda: series(running, "accelerator_events_total", id=LOST, code="xid_79"))
        mine = [line for line in running.page().splitlines() if f'id="{LOST}"' in line]
        assert {line.partition("{")[0] for line in mine} == STAYS, "of older polls"
        assert last(series(running, "accelerator_up", id=KEPT)) == "1.0"
        assert series(running, "accelerator_power_watts", id=KEPT)
        problems = running.source("nvml")["problems"]
        assert [problem["where"] for problem in problems] == ["GPU 0000:52:00.0"]
        assert 'telemetry_devices{model="NVIDIA H100 80GB HBM3",vendor="nvidia"} 7.0' in running.page()


def test_a_call_that_hangs_leaves_no_stale_reading_and_no_second_worker(tmp_path: Path, fake: FakeNvml) -> None:
    with daemon(tmp_path, fake) as running:
        running.until(lambda: series(running, "accelerator_utilization_ratio", id=KEPT))
        began = time.monotonic()
        fake.hang("nvmlDeviceGetUtilizationRates", 600.0)
        running.until(lambda: running.source("nvml")["state"] == "failed")
        running.until(lambda: not series(running, "accelerator_utilization_ratio", id=KEPT))
        assert time.monotonic() - began < scaled(10.0)
        assert running.source("nvml")["reason"] == "timeout"
        assert running.source("host")["state"] == "ok"
        fake.heal()
        running.until(lambda: series(running, "accelerator_utilization_ratio", id=KEPT))
        status, seconds = running.stop()
        assert (status, seconds < scaled(5.0)) == (0, True)


def test_nobody_knows_of_the_cards_while_every_call_hangs(tmp_path: Path, fake: FakeNvml) -> None:
    """The inventory of a moment ago lists them all, and does not hold them up beside a source that fails."""
    with daemon(tmp_path, fake) as running:
        running.until(lambda: 'telemetry_source_poll_up{poll="inventory",source="nvml"} 1.0' in running.page())
        running.until(lambda: len(series(running, "accelerator_up")) == 8)
        fake.hang("*", 600.0)
        running.until(lambda: 'telemetry_source_up{source="nvml"} 0.0' in running.page())
        assert series(running, "accelerator_up") == series(running, "accelerator_power_cap_watts") == []
        fake.heal()
        running.until(lambda: len(series(running, "accelerator_up")) == 8)
        running.until(lambda: len(series(running, "accelerator_power_cap_watts")) == 8)


def test_a_mismatched_library_ends_every_reading_and_says_what_to_do(tmp_path: Path, fake: FakeNvml) -> None:
    fake.init_fails(LIB_RM_VERSION_MISMATCH)
    with daemon(tmp_path, fake) as running:
        running.until_state("nvml", "failed")
        source = running.source("nvml")
        assert source["reason"] == "library_mismatch"
        assert "reboot" in source["problems"][0]["text"]
        assert series(running, "accelerator_up", vendor="nvidia") == []
        assert 'telemetry_source_up{source="nvml"} 0.0' in running.page()


def test_without_a_library_there_is_no_worker_and_no_alarm(tmp_path: Path, fake: FakeNvml) -> None:
    fake.uninstall()
    with daemon(tmp_path, fake) as running:
        running.until_state("nvml", "missing")
        running.until(lambda: not workers(running.pid))
        assert not [
            line for line in running.page().splitlines() if line.startswith("telemetry_source_up") and "nvml" in line
        ]


def test_the_worker_ends_with_the_daemon(tmp_path: Path, fake: FakeNvml) -> None:
    with daemon(tmp_path, fake) as running:
        running.until_state("nvml", "ok")
        pids = workers(running.pid)
        assert len(pids) == 1
        running.stop()
        assert not [pid for pid in pids if alive(pid)]


def workers(pid: int) -> list[int]:
    """The processes in which the daemon asks NVML."""
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += map(int, (task / "children").read_text().split())
    return [child for child in children if b"\0nvml\0" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_an_xid_stays_open_over_a_restart_while_its_driver_hangs_and_ends_when_it_is_forgotten(
    tmp_path: Path, fake: FakeNvml
) -> None:
    def opened(running: Daemon, card: str) -> list[str]:
        return [last([line]) for line in series(running, "accelerator_event_open", id=card, code="xid_79")]

    with daemon(tmp_path, fake) as running:
        running.until(lambda: series(running, "accelerator_up", id=LOST))
        fake.xid(1, 79)
        fake.xid(2, 79)
        fake.lose(2)
        running.until(lambda: opened(running, LOST) == opened(running, KEPT) == ["1.0"])
        running.until(lambda: last(series(running, "accelerator_up", id=LOST)) == "0.0")
        running.stop()
    fake.hang("nvmlInitWithFlags", 600.0)
    with daemon(tmp_path, fake) as running:
        running.until(lambda: opened(running, LOST) == opened(running, KEPT) == ["1.0"])
        assert series(running, "accelerator_up", id=KEPT) == [], "nobody knows whether the card is there"
        config = ("--config", str(running.config_path))
        assert run("forget", KEPT, *config)[:2] == (0, f"forgot the open events of {KEPT}: xid_79\n")
        assert run("forget", LOST, *config)[:2] == (0, f"forgot the open events of {LOST}: xid_79, gpu_lost\n")
        running.until(lambda: opened(running, LOST) == opened(running, KEPT) == [])
        assert run("forget", KEPT, *config)[0] == 64, "there is none any more"
