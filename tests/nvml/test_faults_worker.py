"""Faults of NVML through the real worker and the parser: the report during and after each."""

from pathlib import Path

import pytest

from kits.fake_nvml.library import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    GPU_NOT_FOUND,
    LIB_RM_VERSION_MISMATCH,
    NODE,
    OPERATING_SYSTEM,
    RESET_REQUIRED,
    UNKNOWN,
    FakeNvml,
)
from kits.fake_nvml.reader import Bench, reading, reading_in_worker, value
from kits.processes import alive, holdings
from kits.waiting import comes_true
from kits.workers import UnkillableProcess
from telemetry_daemon.processes.process import LaunchRequest, Process, launch
from telemetry_parsers.model import Absent

pytestmark = pytest.mark.needs("cc")
UTILIZATION = "nvmlDeviceGetUtilizationRates"


# The absence of the reading after an error of its call, and whether there is a problem.
ERRORS = {
    Absent.NOT_SUPPORTED: ((2, 3, 13, 25, 26), ()),
    Absent.NOT_PERMITTED: ((4, 17), ()),
    Absent.NOT_REPORTED: ((6, 21, 27), (10, 11, 14, 29, 999, 4711)),
}
ROWS = [(code, absent, loud) for absent, codes in ERRORS.items() for loud in (False, True) for code in codes[loud]]


@pytest.mark.parametrize(("code", "absent", "loud"), ROWS)
def test_error_of_a_call_affects_only_its_reading(bench: Bench, code: int, absent: Absent, loud: bool) -> None:
    bench.fake.fail(UTILIZATION, code, 2)
    report = bench.report()
    assert value(report, "utilization_ratio", device=2) is absent
    assert value(report, "memory_activity_ratio", device=2) is absent
    assert value(report, "temperature_celsius", "core", device=2) == 54.0
    assert value(report, "utilization_ratio", device=1) == 0.98
    assert bool(report.problems) == loud
    assert all(device.up for device in report.devices)


def test_reading_is_back_after_a_temporary_error(bench: Bench) -> None:
    for code in (10, 21, 27, 999):
        bench.fake.fail(UTILIZATION, code, 0, times=1)
        assert value(bench.report(), "utilization_ratio") is Absent.NOT_REPORTED
        assert value(bench.report(), "utilization_ratio") == 0.98


@pytest.mark.parametrize("code", [GPU_IS_LOST, RESET_REQUIRED])
def test_a_lost_gpu_is_down_and_left_alone_until_it_is_found_again(bench: Bench, code: int) -> None:
    bench.report()
    bench.fake.fail("*", code, 1)
    lost = bench.report()
    assert [device.up for device in lost.devices] == [True, False, *[True] * 6]
    assert (lost.devices[1].uuid, lost.devices[1].serial) == (
        "GPU-5f1c2a90-77b3-4d0e-9a51-0c3e88000101",
        "1652323004101",
    )
    assert [item for item in lost.readings if item.device == 1] == []
    assert value(lost, "utilization_ratio", device=2) == 0.98
    assert [(event.device, event.code) for event in lost.events] == [(1, "gpu_lost")]
    assert any("0000:43:00.0" in problem.where for problem in lost.problems)
    assert bench.made("fast", 1) == {}, "it is asked again"
    bench.move(25)
    assert bench.made("fast", 1) == {}, "it is asked before half a minute is over"
    assert bench.made("fast", 1) == {"nvmlDeviceGetHandleByPciBusId_v2": 1}
    bench.fake.heal()
    bench.move(60)
    back = bench.report()
    assert back.devices[1].up
    assert value(back, "utilization_ratio", device=1) == 0.98
    assert (back.problems, back.events) == ((), ())
    assert bench.fake.calls("nvmlInitWithFlags") == 1


def test_gpu_lost_during_a_poll_has_no_reading_of_that_poll(bench: Bench) -> None:
    bench.report()
    bench.fake.lose(0, after_calls=4)
    report = bench.report()
    assert not report.devices[0].up
    assert [item for item in report.readings if item.device == 0] == []


def test_a_gpu_that_comes_back_is_watched_for_events_again(bench: Bench) -> None:
    bench.report()
    bench.fake.lose(4)
    bench.report()
    bench.fake.heal()
    bench.move(30)
    bench.report()
    bench.fake.xid(4, 13)
    assert [(event.device, event.code) for event in bench.events(1)] == [(4, "xid_13")]


def test_lost_status_of_a_single_field_is_no_lost_gpu(bench: Bench) -> None:
    bench.fake.refuse_field(0, 82, GPU_IS_LOST)
    report = bench.report()
    assert report.devices[0].up
    assert value(report, "temperature_celsius", "memory") is Absent.NOT_REPORTED


def test_unknown_errors_three_times_in_a_row_are_a_lost_gpu(bench: Bench) -> None:
    bench.report()
    bench.fake.fail("*", UNKNOWN, 6)
    report = bench.report()
    assert [device.up for device in report.devices].count(False) == 1
    assert bench.fake.calls("*", 6) <= bench.fake.calls("*", 5) - 5


def test_unknown_errors_of_all_fans_are_no_lost_gpu(bench: Bench) -> None:
    """A card that cannot read its fans returns the error for each fan, and answers all other calls."""
    bench.fake.set_answer(0, "nvmlDeviceGetNumFans", 3)
    bench.fake.fail("nvmlDeviceGetFanSpeed_v2", UNKNOWN, 0)
    bench.fake.fail("nvmlDeviceGetFanSpeed", UNKNOWN, 0)
    report = bench.report("slow")
    assert report.devices[0].up
    assert value(report, "fan_ratio") is Absent.NOT_REPORTED
    assert value(report, "clock_hertz", "graphics") == 1.755e9


def test_unknown_errors_of_one_tier_alone_are_no_lost_gpu(bench: Bench) -> None:
    for kind in ("Compute", "Graphics", "MPSCompute"):
        bench.fake.fail(f"nvmlDeviceGet{kind}RunningProcesses_v3", UNKNOWN, 0)
    bench.fake.fail("nvmlDeviceGetNvLinkErrorCounter", UNKNOWN, 0)
    assert all(bench.report(tier).devices[0].up for tier in ("processes", "links") * 3)


def test_unknown_errors_of_every_gpu_are_an_error_of_the_library(bench: Bench) -> None:
    bench.report()
    bench.move(61)
    for gpu in range(8):
        bench.fake.fail("*", UNKNOWN, gpu, times=3)
    report = bench.report()
    assert all(device.up for device in report.devices)
    assert bench.fake.calls("nvmlInitWithFlags") == 2


def test_gpu_that_cannot_be_opened_leaves_the_others(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, "h100")
    fake.fail("nvmlDeviceGetHandleByIndex_v2", GPU_IS_LOST, 3)
    fake.fail("nvmlDeviceGetHandleByIndex_v2", 4, 5)
    with reading(fake) as bench:
        report = bench.report()
        assert [device.index for device in report.devices] == [0, 1, 2, 4, 6, 7]
        assert [problem.where for problem in report.problems] == ["GPU 3"], "one that we may not see is no problem"
        fake.heal()
        bench.move(30)
        assert [device.index for device in bench.report().devices] == [0, 1, 2, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (DRIVER_NOT_LOADED, "driver_gone", "modprobe nvidia"),
        (LIB_RM_VERSION_MISMATCH, "library_mismatch", "reboot"),
        (OPERATING_SYSTEM, "no_permission", "DeviceAllow"),
        (UNKNOWN, "no_permission", "daemon-reload"),
        (4, "no_permission", "/dev/nvidiactl"),
        (20, "driver_gone", "NVML error 20"),
    ],
)
def test_failed_initialisation_has_a_reason_and_is_not_retried_in_a_loop(
    tmp_path: Path, code: int, reason: str, words: str
) -> None:
    fake = FakeNvml(tmp_path, "h100")
    fake.init_fails(code)
    with reading(fake) as bench:
        for _ in range(4):
            refusal = bench.refusal()
            assert (refusal.state, refusal.reason) == ("failed", reason)
            assert words in refusal.text
        assert fake.calls("nvmlInitWithFlags") == 1
        fake.heal()
        bench.move(60)
        assert value(bench.report(), "utilization_ratio") == 0.98


@pytest.mark.parametrize(
    ("code", "reason"),
    [(UNKNOWN, "no_permission"), (4, "no_permission"), (9, "driver_gone"), (GPU_NOT_FOUND, None)],
)
def test_failed_count_of_gpus_is_an_error_unless_the_library_reports_none(
    tmp_path: Path, code: int, reason: str | None
) -> None:
    fake = FakeNvml(tmp_path, "h100")
    fake.fail("nvmlDeviceGetCount_v2", code)
    with reading(fake) as bench:
        capture = bench.capture()
        if reason is None:
            assert bench.report().outcome == "no_devices"
        else:
            assert capture.failure is not None
            assert (capture.failure.state, capture.failure.reason) == ("failed", reason)
            assert fake.calls("nvmlShutdown") == 1


def test_the_pauses_between_initialisations_grow_to_a_minute(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, "h100")
    fake.init_fails(DRIVER_NOT_LOADED)
    with reading(fake) as bench:
        tried = []
        for second in range(200):
            bench.refusal()
            if fake.calls("nvmlInitWithFlags") > len(tried):
                tried.append(second)
            bench.move(1)
    assert tried == [0, 5, 15, 35, 75, 135, 195]


@pytest.mark.parametrize(("code", "reason"), [(1, "driver_gone"), (9, "driver_gone"), (18, "library_mismatch")])
def test_a_library_that_ends_is_initialised_again(bench: Bench, code: int, reason: str) -> None:
    """At once if it worked for a while; after repeated failures with a delay."""
    bench.report()
    bench.move(61)
    bench.fake.fail("nvmlDeviceGetPerformanceState", code, 0, times=1)
    assert value(bench.report(), "utilization_ratio") == 0.98
    bench.fake.fail("nvmlDeviceGetPerformanceState", code, 0, times=1)
    assert bench.refusal().reason == reason
    assert bench.refusal().reason == reason
    assert bench.fake.calls("nvmlInitWithFlags") == 2
    bench.move(5)
    assert value(bench.report(), "utilization_ratio") == 0.98
    assert bench.fake.calls("nvmlInitWithFlags") == 3
    assert bench.fake.calls("nvmlShutdown") == 2


@pytest.mark.parametrize("change", ["unplug", "driver"])
def test_a_changed_node_is_initialised_again(bench: Bench, change: str) -> None:
    bench.report("slow")
    if change == "unplug":
        bench.fake.unplug(7)
    else:
        bench.fake.set_answer(NODE, "nvmlSystemGetDriverVersion", "580.200.01")
    bench.move(60)
    bench.report("slow")
    report = bench.report()
    assert len(report.devices) == (7 if change == "unplug" else 8)
    assert report.devices[0].driver == ("580.105.08" if change == "unplug" else "580.200.01")
    assert bench.fake.calls("nvmlInitWithFlags") == 2
    bench.fake.plug(7)
    bench.move(60)
    bench.report("slow")
    assert len(bench.report().devices) == 8


def test_no_gpus_is_a_valid_answer_and_a_new_one_is_found(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, "t4")
    fake.unplug(0)
    with reading(fake) as bench:
        assert bench.report().outcome == "no_devices"
        bench.report()
        assert fake.calls("nvmlInitWithFlags") == 1
        fake.plug(0)
        bench.move(60)
        assert value(bench.report(), "utilization_ratio") == 0.54


def test_a_growing_process_list_is_read_to_its_end(bench: Bench) -> None:
    call = "nvmlDeviceGetComputeRunningProcesses"
    bench.fake.set_answer(0, f"{call}.growth", 90, bench.fake.calls(f"{call}_v3", 0))  # 90 more at each call
    counts = [value(bench.report("processes"), "processes") for _ in range(3)]
    assert all(isinstance(count, float) and count > 90 for count in counts)
    assert counts == sorted(counts)
    assert bench.fake.calls("nvmlDeviceGetComputeRunningProcesses_v3", 0) <= 3 * 2


def test_an_upgraded_driver_needs_and_gets_a_new_process(fake: FakeNvml) -> None:
    """The old library stays mapped until its process ends."""
    with reading_in_worker(fake) as bench:
        bench.report()
        pid = bench.worker.pid
        bench.move(61)
        fake.driver("595.71.05")
        fake.fail("nvmlDeviceGetPerformanceState", 1, 0, times=1)
        assert bench.refusal().reason == "library_mismatch"
        assert bench.worker.pid == pid, "a process is worth half a minute"


def is_back(bench: Bench) -> bool:
    return comes_true(lambda: bench.capture().failure is None)


def test_hanging_call_costs_only_the_worker(fake: FakeNvml) -> None:
    with reading_in_worker(fake) as bench:
        hangs = ((UTILIZATION, "fast"), ("nvmlDeviceGetFieldValues", "fast"), ("nvmlGpmSampleGet", "gpm"))
        for call, poll in hangs:
            bench.report(poll)
            bench.move(2)
            fake.hang(call, 3600.0)
            pid = bench.worker.pid
            assert pid is not None
            assert bench.refusal(poll, deadline=0.5).reason == "timeout"
            assert not alive(pid)
            fake.heal()
            assert is_back(bench)


def test_worker_blocked_in_the_kernel_is_stuck_and_not_replaced(fake: FakeNvml) -> None:
    held: list[UnkillableProcess] = []

    def launcher(what: LaunchRequest) -> Process:
        held.append(UnkillableProcess(launch(what)))
        return held[-1]

    with reading_in_worker(fake, launcher) as bench:
        bench.report()
        fake.hang(UTILIZATION, 3600.0)
        found = [bench.refusal(deadline=0.5) for _ in range(3)]
        assert [(refusal.state, refusal.reason) for refusal in found] == [("stuck", None)] * 3
        assert len(held) == 1
        held[0].let_go()
        assert comes_true(lambda: not alive(held[0].pid))
        fake.heal()
        assert is_back(bench)
        assert len(held) == 2
        for process in held:
            process.held = False


@pytest.mark.parametrize("faults", [60, pytest.param(1000, marks=pytest.mark.long)])
def test_many_faults_leave_no_thread_and_no_descriptor(tmp_path: Path, faults: int) -> None:
    """Errors of calls, GPUs and the library in one process, each followed by its repair."""
    fake = FakeNvml(tmp_path, "a100")
    calls = (UTILIZATION, "nvmlDeviceGetTemperature", "nvmlDeviceGetFieldValues", "nvmlDeviceGetMemoryInfo_v2")
    codes = (3, 4, 6, 10, 13, 14, 21, 25, 26, 27, 999, GPU_IS_LOST, RESET_REQUIRED)
    with reading_in_worker(fake) as bench:
        bench.report()
        pid = bench.worker.pid
        assert pid is not None
        before = holdings(pid)
        for cycle in range(faults):
            over = cycle % 20 == 0
            call = "nvmlDeviceGetPerformanceState" if over else calls[cycle % len(calls)]
            fake.fail(call, 1 if over else codes[cycle % len(codes)], cycle % 2, times=1)
            bench.move(61)
            bench.capture()
            fake.heal()
        bench.move(601)
        report = bench.report()
        assert all(device.up for device in report.devices)
        assert bench.worker.pid == pid
        assert holdings(pid) == before
        assert fake.calls("nvmlInitWithFlags") == 1 + faults // 20


def test_a_worker_that_ends_lets_go_of_the_library(fake: FakeNvml) -> None:
    """The worker has 0.2 s for this, which may be too short on a busy machine."""
    with reading_in_worker(fake) as bench:

        def ends() -> bool:
            bench.report()
            bench.worker.stop()
            return bool(fake.calls("nvmlShutdown"))

        assert comes_true(ends)
    assert (fake.calls("nvmlShutdown"), fake.calls("nvmlEventSetFree")) == (1, 1)
