"""What goes wrong with an NVML goes wrong with the fake: refusals, hangs, lost GPUs, other drivers, events."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kits.fake_nvml import library as nvml_kit
from kits.fake_nvml.client import Client, Start
from kits.fake_nvml.library import ALL_LINKS, EVERYWHERE, NODE, FakeNvml

pytestmark = pytest.mark.needs("cc")

POWER = "nvmlDeviceGetPowerUsage"


def power(index: int) -> str:
    return f"{POWER}(gpu({index}))"


def test_before_the_initialisation_everything_is_refused(fake: FakeNvml) -> None:
    with Client(fake) as client:
        assert client.refusal("nvmlDeviceGetCount()") == 1
        client.do("nvmlInit(); nvmlInit(); nvmlShutdown()")
        assert client.ask("nvmlDeviceGetCount()") == 8
        client.do("nvmlShutdown()")
        assert client.refusal("nvmlDeviceGetCount()") == 1
        assert client.refusal("nvmlShutdown()") == 1


@pytest.mark.parametrize("code", [9, 17, 28, 999])
def test_initialising_fails_a_number_of_times(fake: FakeNvml, code: int) -> None:
    fake.init_fails(code, times=2)
    with Client(fake) as client:
        assert [client.refusal("nvmlInit()") for _ in range(3)] == [code, code, -1]


def test_a_library_that_is_installed_later_is_found_by_the_same_process(fake: FakeNvml) -> None:
    fake.uninstall()
    with Client(fake) as client:
        assert client.refusal("nvmlInit()") == 12
        fake.install()
        assert client.refusal("nvmlInit()") == -1


def test_a_node_without_gpus(fake: FakeNvml, client: Client) -> None:
    for index in range(8):
        fake.unplug(index)
    assert client.ask("nvmlDeviceGetCount()") == 0


def test_answers_change_while_the_library_is_in_use(fake: FakeNvml, client: Client) -> None:
    client.do("first = gpu(0)")
    assert client.ask(f"{POWER}(first)") == 648920
    fake.tell(0, POWER, 70000)
    assert client.ask(f"{POWER}(first)") == 70000
    fake.refuse(0, POWER)
    assert client.refusal(f"{POWER}(first)") == 3
    assert client.ask(power(1)) == 648920


def test_many_changes_within_one_tick_of_the_clock_are_all_seen(fake: FakeNvml, client: Client) -> None:
    for watts in range(100, 400):
        fake.tell(0, POWER, watts)
        assert client.ask(power(0)) == watts


def test_a_text_that_is_no_text(fake: FakeNvml, client: Client) -> None:
    fake.tell(0, "nvmlDeviceGetName", "NVIDIA \udcff\udcfe")
    with pytest.raises(RuntimeError, match="UnicodeDecodeError"):
        client.ask("nvmlDeviceGetName(gpu())")


def test_a_call_is_refused_a_number_of_times_after_a_number_of_calls(fake: FakeNvml, client: Client) -> None:
    fake.fail(POWER, 999, 1, times=2, after=1)
    assert [client.refusal(power(1)) for _ in range(5)] == [-1, 999, 999, -1, -1]
    assert client.refusal(power(0)) == -1


def test_a_call_is_refused_everywhere_until_it_is_healed(fake: FakeNvml, client: Client) -> None:
    fake.fail(POWER, 4)
    assert {client.refusal(power(index)) for index in range(8)} == {4}
    assert client.ask("nvmlDeviceGetTemperature(gpu(), 0)") == 54
    fake.heal()
    assert client.refusal(power(0)) == -1


def test_success_that_gives_nothing(fake: FakeNvml, client: Client) -> None:
    fake.fail("nvmlDeviceGetProcessUtilization", 0)
    assert client.refusal("nvmlDeviceGetProcessUtilization(gpu(), 0)") == 0


def test_no_permission_for_one_gpu(fake: FakeNvml, client: Client) -> None:
    fake.fail("nvmlDeviceGetHandleByIndex_v2", 4, 3)
    assert [client.refusal(f"gpu({index})") for index in range(5)] == [-1, -1, -1, 4, -1]
    assert client.ask("nvmlDeviceGetCount()") == 8


def test_a_lost_gpu(fake: FakeNvml, client: Client) -> None:
    client.do("handles = [gpu(index) for index in range(8)]")
    fake.lose(2)
    assert client.refusal("nvmlDeviceGetName(handles[2])") == 15
    assert client.refusal("nvmlDeviceGetFieldValues(handles[2], [82])") == 15
    assert client.refusal("gpu(2)") == 15
    assert client.refusal("nvmlDeviceGetHandleByPciBusId('0000:52:00.0')") == 15
    assert client.ask("nvmlDeviceGetName(handles[3])") == "NVIDIA H100 80GB HBM3"
    # It looks through all GPUs.
    assert client.refusal("nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(gpu(0)))") == 15
    fake.bring_back(2)
    assert client.ask("nvmlDeviceGetName(handles[2])") == "NVIDIA H100 80GB HBM3"


def test_a_gpu_that_is_lost_in_the_middle(fake: FakeNvml, client: Client) -> None:
    client.do("second = gpu(1)")
    fake.lose(1, after_calls=3)
    assert [client.refusal(f"{POWER}(second)") for _ in range(5)] == [-1, -1, -1, 15, 15]


def test_a_lost_gpu_takes_its_mig_devices_with_it(tmp_path: Path, start: Start) -> None:
    fake = FakeNvml(tmp_path, "a100-mig")
    client = start(fake)
    client.do("second = mig(1)")
    fake.lose(0)
    assert client.refusal("nvmlDeviceGetMemoryInfo(second)") == 15


def test_a_gpu_less_and_back_again(fake: FakeNvml, client: Client) -> None:
    client.do("last = gpu(7)")
    fake.unplug(6)
    assert client.ask("[nvmlDeviceGetCount(), nvmlDeviceGetIndex(last)]") == [7, 6]
    fake.plug(6)
    assert client.ask("[nvmlDeviceGetCount(), nvmlDeviceGetIndex(last)]") == [8, 7]


def test_mig_devices_come_with_the_next_initialisation_and_go_at_once(tmp_path: Path, start: Start) -> None:
    fake = FakeNvml(tmp_path, "a100-mig")
    fake.unplug("0/1")
    client = start(fake)
    fake.plug("0/1")
    client.do("first = mig(0)")
    fake.unplug("0/0")
    assert client.refusal("nvmlDeviceGetMemoryInfo(first)") == 2
    assert [client.refusal(f"mig({index})") for index in range(3)] == [6, 6, -1]
    client.do("nvmlShutdown(); nvmlInit()")
    assert [client.refusal(f"mig({index})") for index in range(3)] == [6, -1, -1]


def test_mig_mode_that_waits_for_a_reset(fake: FakeNvml, client: Client) -> None:
    fake.tell(0, "nvmlDeviceGetMigMode", 0, 1)
    assert client.ask("nvmlDeviceGetMigMode(gpu())") == [0, 1]


def test_packages_upgraded_under_a_running_driver(fake: FakeNvml, client: Client) -> None:
    fake.mismatch()
    assert client.ask("nvmlDeviceGetCount()") == 8
    client.do("nvmlShutdown()")
    assert client.refusal("nvmlInit()") == 18
    with Client(fake) as other:
        assert other.refusal("nvmlInit()") == 18


def test_another_driver_needs_another_process(fake: FakeNvml, client: Client, start: Start) -> None:
    fake.driver("595.45.04")
    client.do("nvmlShutdown()")
    assert client.refusal("nvmlInit()") == 18
    other = start(fake)
    assert other.ask("nvmlSystemGetDriverVersion()") == "595.45.04"
    assert other.refusal("nvmlDeviceGetDriverModel(gpu())") == 3


def test_an_old_driver_lacks_calls(tmp_path: Path, start: Start) -> None:
    client = start(FakeNvml(tmp_path, "geforce-old", driver="450.51.06"))
    assert client.refusal("nvmlDeviceGetTemperatureV(gpu(), 0)") == 13
    assert client.refusal("nvmlDeviceGetMemoryInfo(gpu(), nvmlMemory_v2)") == 13
    with pytest.raises(RuntimeError, match="NVMLLibraryMismatchError"):
        client.ask("nvmlDeviceGetComputeRunningProcesses(gpu())")


@pytest.mark.parametrize(
    ("call", "structure"),
    [
        ("nvmlDeviceGetMemoryInfo_v2", "c_nvmlMemory_v2_t"),
        ("nvmlDeviceGetTemperatureV", "c_nvmlTemperature_v1_t"),
        ("nvmlDeviceGetMarginTemperature", "c_nvmlMarginTemperature_v1_t"),
        ("nvmlDeviceGetSramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t"),
        ("nvmlDeviceGetRepairStatus", "c_nvmlRepairStatus_t"),
        ("nvmlDeviceGetAddressingMode", "c_nvmlDeviceAddressingMode_t"),
        ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t"),
        ("nvmlDeviceGetPlatformInfo", "c_nvmlPlatformInfo_v2_t"),
        ("nvmlDeviceGetProcessesUtilizationInfo", "c_nvmlProcessesUtilizationInfo_v1_t"),
        ("nvmlGpmQueryDeviceSupport", "c_nvmlGpmSupport_t"),
    ],
)
def test_a_layout_that_the_driver_does_not_know(client: Client, call: str, structure: str) -> None:
    client.do(f"info = {structure}(); info.version = 7; call = pynvml._nvmlGetFunctionPointer('{call}')")
    assert client.ask("call(gpu(), byref(info))") == 25


def test_a_driver_before_the_newest_layout(tmp_path: Path, start: Start) -> None:
    client = start(FakeNvml(tmp_path, "b200", driver="570.148.08"))
    client.do("newest, older = c_nvmlGpuFabricInfo_v3_t(), c_nvmlGpuFabricInfo_v2_t()")
    assert client.refusal("nvmlDeviceGetGpuFabricInfoV(gpu(), byref(newest))") == 25
    assert client.refusal("nvmlDeviceGetGpuFabricInfoV(gpu(), byref(older))") == -1


def test_fields_that_fail_alone(fake: FakeNvml, client: Client) -> None:
    fake.refuse_field(0, 82, 15)
    fake.refuse_field(0, 138, 3, scope=ALL_LINKS)
    fake.blank_field(0, 3)
    values = f"nvmlDeviceGetFieldValues(gpu(), [82, 186, (138, {ALL_LINKS}), 3])"
    assert client.ask(f"[v.nvmlReturn for v in {values}]") == [15, 0, 3, 0]
    assert client.ask(f"[{values}[3].timestamp, {values}[3].valueType]") == [0, 0]


def test_a_call_that_hangs_holds_only_its_own_thread_and_goes_on_when_healed(fake: FakeNvml, start: Start) -> None:
    client = start(fake)
    fake.hang(POWER, 600, 0)
    client.do("stuck = []; thread = threading.Thread(target=lambda: stuck.append(nvmlDeviceGetPowerUsage(gpu(0))))")
    client.do("thread.daemon = True; thread.start()")
    assert client.ask(power(1)) == 648920
    assert client.ask("stuck") == []
    fake.heal()
    client.do("thread.join(60)")
    assert client.ask("stuck") == [648920]


def test_a_process_that_hangs_in_a_call_can_be_killed(fake: FakeNvml, client: Client) -> None:
    fake.hang("nvmlDeviceGetCount_v2", 600)
    client.begin("nvmlDeviceGetCount()")
    while fake.calls("nvmlDeviceGetCount_v2") == 0:
        time.sleep(0.01)
    client.close()


def test_pcie_throughput_is_measured_while_one_waits(client: Client) -> None:
    taken = "(lambda t: [nvmlDeviceGetPcieThroughput(gpu(), 0), time.monotonic() - t])(time.monotonic())"
    value, seconds = client.ask(taken)
    assert value == 502000
    assert seconds >= 0.02


def test_calls_are_counted_by_name_and_place(tmp_path: Path, start: Start) -> None:
    fake = FakeNvml(tmp_path, "a100-mig")
    assert fake.calls() == 0
    client = start(fake)
    client.do("device = mig(1); nvmlDeviceGetMemoryInfo(device); nvmlDeviceGetMemoryInfo(device)")
    client.do("nvmlDeviceGetMemoryInfo(gpu())")
    assert fake.calls("nvmlDeviceGetMemoryInfo") == 3
    assert fake.calls("nvmlDeviceGetMemoryInfo", "0/1") == 2
    assert fake.calls("nvmlDeviceGetMemoryInfo", "0/0") == 0
    assert fake.calls("nvmlDeviceGetMemoryInfo", 0) == 3, "what is on the GPU counts for it too"
    assert fake.calls("nvmlInitWithFlags", NODE) == 1
    assert fake.calls("nvmlDeviceGetPowerUsage") == 0
    counts = fake.counts()
    assert counts.pop("*") == sum(counts.values()) == fake.calls()


def test_refused_calls_count_and_all_processes_share_the_counts(fake: FakeNvml, client: Client, start: Start) -> None:
    other = start(fake)
    fake.fail(POWER, 3)
    for each in (client, other):
        assert each.refusal(power(0)) == 3
    assert fake.calls(POWER) == 2


WAIT = "(lambda e: [nvmlDeviceGetIndex(e.device), e.eventType, e.eventData, e.gpuInstanceId])(nvmlEventSetWait(events, {}))"


def test_xid_events(fake: FakeNvml, client: Client) -> None:
    fake.xid(0, 13)
    client.do("events = nvmlEventSetCreate()")
    client.do("[nvmlDeviceRegisterEvents(gpu(index), nvmlEventTypeXidCriticalError, events) for index in (0, 1)]")
    assert client.refusal(WAIT.format(0)) == 10, "what was before the registration is lost"
    fake.event(0, 0x10)
    fake.xid(5, 31)
    fake.xid(1, 79)
    fake.xid(0, 48)
    assert client.ask(WAIT.format(0)) == [1, 8, 79, 0xFFFFFFFF]
    assert client.ask(WAIT.format(0)) == [0, 8, 48, 0xFFFFFFFF]
    assert client.refusal(WAIT.format(30)) == 10
    client.do("nvmlEventSetFree(events)")
    assert client.refusal("nvmlEventSetFree(events)") == 2


def test_who_waits_for_an_event_gets_it(fake: FakeNvml, client: Client) -> None:
    client.do("events = nvmlEventSetCreate(); nvmlDeviceRegisterEvents(gpu(1), nvmlEventTypeXidCriticalError, events)")
    client.begin(WAIT.format(60000))
    timer = threading.Timer(0.05, fake.xid, (1, 94))
    timer.start()
    assert client.finish() == [1, 8, 94, 0xFFFFFFFF]
    timer.join()


def test_who_waits_sleeps_until_the_time_is_over(client: Client) -> None:
    """A driver blocks: looking again and again would be in every figure of who reads it."""
    client.do("events = nvmlEventSetCreate(); nvmlDeviceRegisterEvents(gpu(1), nvmlEventTypeXidCriticalError, events)")
    switches = "int(re.search(r'^voluntary_ctxt_switches:\\s+(\\d+)', open('/proc/self/status').read(), re.M)[1])"
    client.do(f"import re; before, begin = {switches}, time.monotonic()")
    assert client.refusal("nvmlEventSetWait(events, 500)") == 10
    slept, seconds = client.ask(f"[{switches} - before, time.monotonic() - begin]")
    assert seconds >= 0.5
    # One for the wait; the others are the questions that come through a pipe.
    assert slept < 8


def test_a_lost_gpu_ends_every_wait_at_once(fake: FakeNvml, client: Client) -> None:
    client.do("events = nvmlEventSetCreate(); nvmlDeviceRegisterEvents(gpu(1), nvmlEventTypeXidCriticalError, events)")
    fake.xid(1, 79)
    fake.lose(1)
    client.do("event = nvmlEventSetWait(events, 60000)")
    assert client.ask("event.eventData") == 79
    assert [client.refusal("nvmlEventSetWait(events, 60000)") for _ in range(2)] == [15, 15]


def test_events_that_a_gpu_does_not_have(tmp_path: Path, start: Start) -> None:
    client = start(FakeNvml(tmp_path, "vgpu"))
    client.do("events = nvmlEventSetCreate()")
    assert client.refusal("nvmlDeviceRegisterEvents(gpu(), nvmlEventTypeXidCriticalError, events)") == 3


def test_an_event_of_a_mig_device_names_its_instances(tmp_path: Path, start: Start) -> None:
    fake = FakeNvml(tmp_path, "a100-mig")
    client = start(fake)
    client.do("events = nvmlEventSetCreate(); nvmlDeviceRegisterEvents(gpu(), nvmlEventTypeXidCriticalError, events)")
    fake.xid("0/1", 94)
    client.do("event = nvmlEventSetWait(events, 0)")
    assert client.ask("[event.eventData, event.gpuInstanceId, event.computeInstanceId]") == [94, 3, 0]


def test_threads_may_call_while_the_answers_change(fake: FakeNvml, client: Client) -> None:
    client.do("seen = set(); go_on = [True]")
    client.do(
        "def read():\n"
        "    while go_on:\n"
        "        seen.add(nvmlDeviceGetPowerUsage(gpu(0)))\n"
        "threads = [threading.Thread(target=read) for _ in range(4)]\n"
        "[thread.start() for thread in threads]"
    )
    for watts in range(200):
        fake.tell(0, POWER, watts)
    client.do("go_on.clear(); [thread.join() for thread in threads]")
    assert set(client.ask("sorted(seen)")) <= {648920, *range(200)}


def test_nothing_is_left_open(fake: FakeNvml, client: Client) -> None:
    client.do("nvmlDeviceGetCount()")
    before = client.ask("descriptors()")
    for watts in range(50):
        fake.tell(0, POWER, watts)
        client.do("nvmlShutdown(); nvmlInit(); gpu(0)")
        client.do("events = nvmlEventSetCreate(); nvmlEventSetFree(events)")
    assert client.ask("descriptors()") == before


def test_a_fault_for_everything(fake: FakeNvml, client: Client) -> None:
    fake.fail(EVERYWHERE, 999, times=3)
    assert [client.refusal("nvmlDeviceGetCount()") for _ in range(4)] == [999, 999, 999, -1]


def test_any_command_runs_with_the_fake(tmp_path: Path) -> None:
    ask = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"
    command = [sys.executable, "-m", "kits.fake_nvml.library", "h200", str(tmp_path), sys.executable, "-c", ask]
    assert (
        subprocess.run(command, capture_output=True, text=True, cwd=Path(nvml_kit.__file__).parents[2]).stdout == "2\n"
    )
