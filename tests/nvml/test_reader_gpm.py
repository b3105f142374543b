"""GPM measures between two polls: the first poll and the first after a long pause have no values."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kits.fake_nvml.library import NO_PERMISSION, FakeNvml
from kits.fake_nvml.reader import Bench, reading, value
from telemetry_parsers.model import Absent

pytestmark = pytest.mark.needs("cc")
PIPE = "pipe_active_ratio"
METRICS = ("sm_active_ratio", "sm_occupancy_ratio", "tensor_active_ratio", "memory_bandwidth_ratio")


def gpm(bench: Bench, *, after: float = 2.0) -> list[object]:
    bench.settle(after)
    report = bench.report("gpm")
    return [value(report, metric) for metric in METRICS]


def test_first_poll_covers_the_time_since_the_initialisation(bench: Bench) -> None:
    """The first poll waits 0.1 s for a second sample, because a snapshot has no second poll."""
    report = bench.report("gpm")
    assert [value(report, metric) for metric in METRICS] == [0.914, 0.4725, 0.63, 0.555]
    assert [value(report, "sm_active_ratio", device=gpu) for gpu in range(8)] == [0.914] * 8
    assert bench.fake.calls("nvmlGpmSampleGet", 0) == 2


def test_next_poll_covers_the_time_since_the_previous_one(bench: Bench) -> None:
    gpm(bench)
    bench.fake.set_answer(0, "gpm.2", 12.5)
    assert gpm(bench) == [0.125, 0.4725, 0.63, 0.555]
    assert bench.fake.calls("nvmlGpmSampleGet", 0) == 3


def test_gpm_is_not_called_before_its_first_poll(bench: Bench) -> None:
    bench.data("inventory")
    assert not [call for call in bench.fake.counts() if "Gpm" in call]
    assert gpm(bench, after=11) == [0.914, 0.4725, 0.63, 0.555]


@pytest.mark.parametrize("name", ["nv-hostengine", "dcgm-exporter"])
def test_a_host_engine_of_dcgm_is_a_problem_where_gpm_is_read(bench: Bench, tmp_path: Path, name: str) -> None:
    program = shutil.copy(shutil.which("sleep") or "", tmp_path / name)
    with subprocess.Popen([program, "600"]) as engine:
        try:
            (problem,) = bench.report("gpm").problems
            bench.data("counters")
            assert bench.report("counters").problems == ()
        finally:
            engine.kill()
    assert (problem.where, f"process {engine.pid}" in problem.text) == ("gpm", True)
    assert 'sources.nvml.polls.gpm.mode = "never"' in problem.text
    bench.settle(301)
    assert bench.report("gpm").problems == ()


@pytest.mark.parametrize(("seconds", "is_given"), [(0.05, False), (0.1, True), (120.0, True), (120.1, False)])
def test_the_time_between_two_samples_is_bounded(bench: Bench, seconds: float, is_given: bool) -> None:
    gpm(bench)
    found = gpm(bench, after=seconds)
    assert found == ([0.914, 0.4725, 0.63, 0.555] if is_given else [Absent.NOT_REPORTED] * 4)


def test_zero_is_a_reading_and_nan_is_not(bench: Bench) -> None:
    bench.fake.set_answer(0, "gpm.2", 0.0)
    bench.fake.set_answer(0, "gpm.5", float("nan"))
    gpm(bench)
    assert gpm(bench) == [0.0, 0.4725, Absent.NOT_REPORTED, 0.555]


def test_without_permission_it_is_asked_again_after_ten_minutes(bench: Bench) -> None:
    bench.fake.fail("nvmlGpmSampleGet", NO_PERMISSION)
    assert [gpm(bench) for _ in range(3)] == [[Absent.NOT_PERMITTED] * 4] * 3
    assert bench.fake.calls("nvmlGpmSampleGet", 0) == 1
    bench.fake.heal()
    gpm(bench, after=600)
    assert gpm(bench) == [0.914, 0.4725, 0.63, 0.555]


@pytest.mark.parametrize("profile", ["a100", "wsl", "vgpu"])
def test_unsupported_gpm_is_absent_and_not_asked_again(profile: str, tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, profile)
    with reading(fake) as bench:
        assert [gpm(bench) for _ in range(3)] == [[Absent.NOT_SUPPORTED] * 4] * 3
    assert fake.calls("nvmlGpmQueryDeviceSupport", 0) <= 1
    assert fake.calls("nvmlGpmSampleGet") == 0


def test_the_graphics_engine_and_each_pipe_come_with_the_same_call(bench: Bench) -> None:
    gpm(bench)
    bench.fake.set_answer(0, "gpm.6", "!3")
    before = bench.fake.calls("nvmlGpmMetricsGet")
    bench.settle()
    report = bench.report("gpm")
    assert bench.fake.calls("nvmlGpmMetricsGet") == before + 8
    assert value(report, "graphics_active_ratio") == 0.981
    assert {item.label: item.value for item in report.readings if (item.device, item.metric) == (0, PIPE)} == {
        "fp64": 0.0,
        "fp32": 0.0975,
        "fp16": 0.04,
        "int": 0.225,
        "tensor_dfma": Absent.NOT_SUPPORTED,
        "tensor_hmma": 0.615,
        "tensor_imma": 0.005,
    }


def test_all_samples_are_given_back(bench: Bench) -> None:
    gpm(bench)
    assert bench.fake.calls("nvmlGpmSampleAlloc") == 16
    bench.fake.fail("nvmlGpmSampleGet", 1, 0, times=1)
    gpm(bench, after=61)
    assert bench.fake.calls("nvmlGpmSampleFree") == 16
