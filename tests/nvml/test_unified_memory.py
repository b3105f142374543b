"""GPUs that use the host's memory (GB10, Jetson): no output shows it as GPU memory."""

import json
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.fake_nvml.library import FakeNvml

pytestmark = pytest.mark.needs("cc")
MEMORY = ("memory_used_bytes", "memory_total_bytes", "memory_free_bytes", "memory_used_ratio", "bar1_total_bytes")
IN_ALL = "accelerator_memory_processes_bytes"


def shown(fake: FakeNvml, form: str) -> str:
    done = run_main("snapshot", "--all", "--format", form, "--source", "nvml", environment=fake.environment)
    return done.stdout


@pytest.mark.parametrize(("profile", "processes"), [("gb10", 4536139776), ("jetson", None)])
def test_all_outputs_report_unified_memory(tmp_path: Path, profile: str, processes: int | None) -> None:
    fake = FakeNvml(tmp_path, profile)
    (device,) = json.loads(shown(fake, "json"))["devices"]
    assert [metric for metric in MEMORY if metric in device["readings"]] == []
    assert device["readings"].get("memory_processes_bytes") == processes
    page = shown(fake, "prometheus")
    assert 'memory_kind="unified"' in next(line for line in page.splitlines() if line.startswith("accelerator_info{"))
    assert (f"{IN_ALL}{{" in page, "accelerator_memory_used_bytes{" in page) == (processes is not None, False)
    table = run_main("snapshot", "--source", "nvml", environment=fake.environment).stdout
    assert "shared with host" in table
    assert "memory used:" not in table


def test_gpu_memory_reported_by_the_driver_is_ignored(tmp_path: Path) -> None:
    """Some drivers report 8128 MiB of 128 GiB."""
    fake = FakeNvml(tmp_path, "gb10")
    fake.memory(0, total=8128 << 20, used=1 << 30)
    (device,) = json.loads(shown(fake, "json"))["devices"]
    assert [metric for metric in MEMORY if metric in device["readings"]] == []
    assert device["absent"]["memory_used_bytes"] == "not_supported"


def test_without_the_memory_of_a_process_there_is_no_sum(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, "gb10")
    fake.set_answer(0, "nvmlDeviceGetComputeRunningProcesses", "9120:-:-:-")
    (device,) = json.loads(shown(fake, "json"))["devices"]
    assert device["absent"]["memory_processes_bytes"] == "not_reported"
