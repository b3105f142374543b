"""The fake NVML is held against pynvml's structures and the symbols of each driver, and says through pynvml what its profiles say."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pynvml
import pytest

from kits.fake_nvml.build import LEVELS, SOURCES, library, objects, symbols
from kits.fake_nvml.library import ALL_LINKS, NODE, FakeNvml, Process
from kits.fake_nvml.profile import Key, load_profile, profile_names
from kits.fake_nvml.reader import loaded
from kits.waiting import comes_true

pytestmark = pytest.mark.needs("cc")
# pynvml's names of structures that are not ours with `c_` before them.
NAMES_IN_PYNVML = {
    "nvmlPciInfo_t": "nvmlPciInfo_t",
    "nvmlPciInfoExt_v1_t": "nvmlPciInfoExt_v1_t",
    "nvmlProcessInfo_t": "c_nvmlProcessInfo_v2_t",
    "nvmlFanSpeedInfo_v1_t": "c_nvmlFanSpeedInfo_t",
    "nvmlRepairStatus_v1_t": "c_nvmlRepairStatus_t",
    "nvmlDeviceAddressingMode_v1_t": "c_nvmlDeviceAddressingMode_t",
    "nvmlRowRemapperHistogramValues_t": "c_nvmlRowRemapperHistogramValues",
    "nvmlDeviceAttributes_t": "c_nvmlDeviceAttributes",
}
# Calls that a driver branch is known to lack, and the first that has them.
FIRST_OF = {
    "nvmlDeviceGetMemoryInfo_v2": 515,
    "nvmlDeviceGetComputeRunningProcesses_v3": 515,
    "nvmlGpmMetricsGet": 525,
    "nvmlDeviceGetCurrentClocksEventReasons": 535,
    "nvmlDeviceGetGpuFabricInfoV": 550,
    "nvmlDeviceGetTemperatureV": 570,
    "nvmlDeviceGetAddressingMode": 580,
    "nvmlDeviceGetDriverModel_v2": 595,
}
# Answers whose form is not that of the words in the profile.
SPECIAL = (
    "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetSamples", "nvmlDeviceGetViolationStatus",
    "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetSramEccErrorStatus", "nvmlDeviceGetCpuAffinity",
    "nvmlDeviceGetMemoryAffinity", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetTopologyCommonAncestor", "nvmlGpuInstanceGetInfo",
    "nvmlGpmQueryDeviceSupport", "nvmlDeviceGetUnrepairableMemoryFlag_v1", "nvmlDeviceGetRetiredPages",
    "nvmlDeviceGetDriverModel", "nvmlDeviceGetGpuInstanceProfileInfo", "nvmlDeviceGetFanSpeedRPM", "field", "gpm",
)  # fmt: skip


def refusal(function: Any, *arguments: Any) -> int:
    """The number of the error that a call gets, -1 if it gets none."""
    try:
        function(*arguments)
    except pynvml.NVMLError as error:
        return int(error.value)
    return -1


def gpu(index: int = 0) -> Any:
    return pynvml.nvmlDeviceGetHandleByIndex(index)


def mig(index: int, parent: int = 0) -> Any:
    return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(parent), index)


def raw(name: str, *arguments: Any) -> int:
    return int(pynvml._nvmlGetFunctionPointer(name)(*arguments))  # noqa: SLF001  # the library's own function


def plain(value: Any) -> list[str]:
    """The words of an answer; of a structure those of its members without its version."""
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return [word for name, *_ in value._fields_ if name != "version" for word in plain(getattr(value, name))]
    if isinstance(value, list | tuple | ctypes.Array):
        return [word for each in value for word in plain(each)]
    return (value.decode("latin-1") if isinstance(value, bytes) else str(value)).split()


def layout() -> list[tuple[str, str, int, int]]:
    """Structure, member ("" for the whole), offset and size as the C compiler has them."""
    tell = ctypes.CDLL(str(library(580))).fakeNvmlLayout
    structure, member, offset, size = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_size_t(), ctypes.c_size_t()
    places = [ctypes.byref(place) for place in (structure, member, offset, size)]
    rows = []
    while tell(len(rows), *places):
        rows.append(((structure.value or b"").decode(), (member.value or b"").decode(), offset.value, size.value))
    return rows


def in_pynvml(structure: str) -> Any:
    return getattr(pynvml, NAMES_IN_PYNVML.get(structure, f"c_{structure}"))


def test_structures_are_as_pynvml_has_them() -> None:
    told = layout()
    # As many metrics as the caller says: the C structure has one.
    members = [row for row in told if row[1] not in ("", "metrics")]
    fields = [getattr(in_pynvml(structure), member) for structure, member, *_ in members]
    assert [row[2:] for row in members] == [(field.offset, field.size) for field in fields], members
    assert ("nvmlGpmMetricsGet_t", "metrics", pynvml.c_nvmlGpmMetricsGet_t.metrics.offset) in [row[:3] for row in told]
    wholes = {structure: size for structure, member, _, size in told if not member}
    assert wholes == {structure: ctypes.sizeof(in_pynvml(structure)) for structure in wholes}
    defined = set(re.findall(r"^\} (nvml\w+_t);", (SOURCES / "nvml_types.h").read_text(), re.MULTILINE))
    # pynvml has this one wrong.
    assert {structure for structure, *_ in told} == defined - {"nvmlUnrepairableMemoryStatus_v1_t"}


@pytest.mark.needs("nm")
def test_all_that_is_written_is_listed_as_symbol() -> None:
    command = ["nm", "-g", "--defined-only", *map(str, objects())]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r" T (nvml\w+)", table)) == set(symbols(LEVELS[-1]))


@pytest.mark.parametrize("level", [450, 535, 595])
def test_a_driver_branch_lacks_what_came_later(level: int) -> None:
    built = ctypes.CDLL(str(library(level)))
    assert {name for name in symbols(LEVELS[-1]) if hasattr(built, name)} == set(symbols(level))
    assert {name for name in FIRST_OF if hasattr(built, name)} == {name for name in FIRST_OF if FIRST_OF[name] <= level}


def asked(nvml: ModuleType, key: Key) -> Any:
    """What pynvml's function gives for a key of a profile."""
    place, *numbers = key.place.split(".")
    device = gpu(int(numbers[0])) if place == "gpu" else mig(int(numbers[1]), int(numbers[0]))
    call, *selectors = key.call.split(".")
    if call == "nvmlDeviceGetMemoryInfo_v2":
        return nvml.nvmlDeviceGetMemoryInfo(device, nvml.nvmlMemory_v2)
    return getattr(nvml, call)(device, *map(int, selectors))


@pytest.mark.parametrize("profile", profile_names())
def test_says_what_the_profile_says(profile: str, tmp_path: Path) -> None:
    answers = load_profile(profile).answers(load_profile(profile).driver)
    lacking, compared = 13, 0
    with loaded(FakeNvml(tmp_path, profile)) as nvml:
        nvml.nvmlInit()
        for key, text in answers.items():
            if key.place in ("node", "delay") or key.call.partition(".")[0] in SPECIAL:
                continue
            try:
                found = plain(asked(nvml, key))
            except nvml.NVMLError as error:
                found = [f"!{error.value}"]
            if found != [f"!{lacking}"]:
                assert found == text.split(), key
                compared += 1
        nvml.nvmlShutdown()
    assert compared >= 6


def test_a_busy_node_of_64_gpus_has_numbers_that_move(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, load_profile("h100").with_gpus(64).busy())
    with loaded(fake) as nvml:
        nvml.nvmlInit()
        gpus = [gpu(index) for index in range(nvml.nvmlDeviceGetCount())]
        assert [nvml.nvmlDeviceGetHandleByUUID(nvml.nvmlDeviceGetUUID(each)) for each in gpus]
        watts = [nvml.nvmlDeviceGetPowerUsage(each) for each in gpus]
        assert (len(gpus), len(set(watts)) >= 4) == (64, True)
        assert all(618920 <= each <= 678920 for each in watts)
        first = nvml.nvmlDeviceGetTotalEnergyConsumption(gpus[63])
        assert comes_true(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(gpus[63]) > first)
        assert fake.calls("nvmlDeviceGetPowerUsage", 63) == 1


def test_processes_and_the_room_for_them(fake: FakeNvml, nvml: ModuleType) -> None:
    fake.processes(0, [Process(7, 1 << 20), Process(8, None), Process(9, 3, 1, 0)])
    found = [vars(each) for each in nvml.nvmlDeviceGetComputeRunningProcesses(gpu())]
    none = 0xFFFFFFFF
    assert [tuple(each.values()) for each in found] == [(7, 1 << 20, none, none), (8, None, none, none), (9, 3, 1, 0)]
    fake.processes(0, [Process(pid) for pid in range(1, 31)])
    for size, code in ((29, 7), (64, 0)):
        count, room = ctypes.c_uint(size), (nvml.c_nvmlProcessInfo_v3_t * size)()
        assert raw("nvmlDeviceGetComputeRunningProcesses_v3", gpu(), ctypes.byref(count), room) == code
        assert count.value == 30
    assert [room[place].pid for place in (0, 29, 30)] == [1, 30, 0]
    fake.driver("580.200.01")
    fake.tell(NODE, "process_entry_bytes", 32)  # as drivers of 535.43 to 535.54 write them
    assert [each.pid for each in nvml.nvmlDeviceGetComputeRunningProcesses(gpu())] != [*range(1, 31)]


def test_use_by_processes_since_a_time(fake: FakeNvml, nvml: ModuleType) -> None:
    fake.tell(0, "nvmlDeviceGetProcessUtilization", "7:90:40:1:2:0:3:4", "8:5:1:0:0:60000000:0:0")

    def told(seconds: float) -> list[tuple[int, int, int]]:
        since = 0 if seconds == 0 else int((time.time() + seconds) * 1e6)
        return [(one.pid, one.smUtil, one.decUtil) for one in nvml.nvmlDeviceGetProcessUtilization(gpu(), since)]

    assert told(0) == [(7, 90, 2), (8, 5, 0)]
    assert told(-30) == [(7, 90, 2)]
    assert refusal(told, 30) == 6


def test_structures_of_their_own_form(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, "b200")
    fake.tell(0, "nvmlDeviceGetFanSpeedRPM.1", 1140)
    with loaded(fake) as nvml:
        nvml.nvmlInit()
        assert plain(nvml.nvmlDeviceGetPciInfo(gpu()))[-1] == f"0000{load_profile('b200').document['buses'][0].upper()}"
        assert list(nvml.nvmlDeviceGetMemoryAffinity(gpu(), 1, 0)) == [1]
        for form in (nvml.c_nvmlGpuFabricInfo_v3_t(), nvml.c_nvmlGpuFabricInfo_v2_t()):
            nvml.nvmlDeviceGetGpuFabricInfoV(gpu(), ctypes.byref(form))
            assert bytes(form.clusterUuid).hex() == "4e0d81c2b5f74a6a8e13d7c90ab21f55"
            assert (form.status, form.cliqueId, form.state, form.healthMask) == (0, 32766, 3, 21845)
        speed = nvml.c_nvmlFanSpeedInfo_t(version=nvml.nvmlFanSpeedInfo_v1, fan=1)
        assert (raw("nvmlDeviceGetFanSpeedRPM", gpu(), ctypes.byref(speed)), speed.speed) == (0, 1140)


@pytest.mark.parametrize(
    ("call", "structure"),
    [
        ("nvmlDeviceGetMemoryInfo_v2", "c_nvmlMemory_v2_t"),
        ("nvmlDeviceGetTemperatureV", "c_nvmlTemperature_v1_t"),
        ("nvmlDeviceGetMarginTemperature", "c_nvmlMarginTemperature_v1_t"),
        ("nvmlDeviceGetAddressingMode", "c_nvmlDeviceAddressingMode_t"),
        ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t"),
        ("nvmlGpmQueryDeviceSupport", "c_nvmlGpmSupport_t"),
    ],
)
def test_a_layout_that_the_driver_does_not_know(nvml: ModuleType, call: str, structure: str) -> None:
    info = getattr(nvml, structure)()
    info.version = 7
    assert raw(call, gpu(), ctypes.byref(info)) == 25


def test_each_field_has_its_type_and_code(fake: FakeNvml, nvml: ModuleType) -> None:
    ids: list[Any] = [82, (186, 0), (185, 2), (138, ALL_LINKS), 83, 193, 5, 142, (185, 1), 400]
    found = nvml.nvmlDeviceGetFieldValues(gpu(), ids)
    assert [each.valueType for each in found] == [1, 1, 1, 3, 3, 5, 3, 1, 0, 0]
    assert [each.nvmlReturn for each in found] == [0, 0, 0, 0, 0, 0, 0, 0, 3, 2]
    assert [found[place].value.ullVal for place in (0, 1, 2, 4)] == [61, 648920, 92980, 8123456789]
    assert found[5].value.siVal == -8
    fake.refuse_field(0, 82, 15)
    fake.refuse_field(0, 138, 3, scope=ALL_LINKS)
    fake.blank_field(0, 3)
    found = nvml.nvmlDeviceGetFieldValues(gpu(), [82, 186, (138, ALL_LINKS), 3])
    assert [each.nvmlReturn for each in found] == [15, 0, 3, 0]
    assert (found[3].timestamp, found[3].valueType) == (0, 0)
    kinds = {
        "double": ("dVal", 2.5), "uint": ("uiVal", 7), "ulong": ("ulVal", 1 << 40), "ullong": ("ullVal", (1 << 64) - 1),
        "llong": ("sllVal", -(1 << 40)), "int": ("siVal", -3), "ushort": ("usVal", 65535),
    }  # fmt: skip
    for kind, (member, value) in kinds.items():
        fake.field(0, 95, value, kind=kind)
        assert getattr(nvml.nvmlDeviceGetFieldValues(gpu(), [95])[0].value, member) == value


def test_a_gpm_metric_lies_between_two_samples(fake: FakeNvml, nvml: ModuleType) -> None:
    wanted = nvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=3)
    wanted.sample1, wanted.sample2 = one, two = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
    for place, number in enumerate((2, 5, 99)):
        wanted.metrics[place].metricId = number

    def told() -> list[str]:
        metrics = nvml.nvmlGpmMetricsGet(wanted).metrics[:3]
        return [f"{metric.nvmlReturn} {metric.value}" for metric in metrics]

    assert refusal(told) == 2, "no samples yet"
    nvml.nvmlGpmSampleGet(gpu(), one)
    time.sleep(0.11)  # the library's own least time between two samples
    nvml.nvmlGpmSampleGet(gpu(), two)
    assert told() == ["0 91.4", "0 63.0", "3 nan"]
    nvml.nvmlGpmSampleFree(one)
    nvml.nvmlGpmSampleFree(two)
    assert fake.calls("nvmlGpmSampleAlloc") == fake.calls("nvmlGpmSampleFree") == 2


def test_calls_are_refused_where_and_as_often_as_the_rules_say(fake: FakeNvml, nvml: ModuleType) -> None:
    call = "nvmlDeviceGetPowerUsage"
    fake.fail(call, 999, 1, times=2, after=1)
    assert [refusal(nvml.nvmlDeviceGetPowerUsage, gpu(1)) for _ in range(5)] == [-1, 999, 999, -1, -1]
    fake.fail(call, 4)
    assert {refusal(nvml.nvmlDeviceGetPowerUsage, gpu(index)) for index in range(8)} == {4}
    fake.heal()
    fake.fail("nvmlDeviceGetProcessUtilization", 0)
    assert refusal(nvml.nvmlDeviceGetProcessUtilization, gpu(), 0) == 0, "success that gives nothing"
    nvml.nvmlShutdown()
    assert refusal(nvml.nvmlDeviceGetCount) == refusal(nvml.nvmlShutdown) == 1
    counts = fake.counts()
    assert counts.pop("*") == sum(counts.values()) == fake.calls()


def test_mig_devices_are_known_from_the_next_initialisation_on(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, "a100-mig")
    fake.unplug("0/1")
    with loaded(fake) as nvml:
        nvml.nvmlInit()
        fake.plug("0/1")
        first = mig(0)
        fake.unplug("0/0")
        assert refusal(nvml.nvmlDeviceGetMemoryInfo, first) == 2
        assert [refusal(mig, index) for index in range(3)] == [6, 6, -1]
        nvml.nvmlShutdown()
        nvml.nvmlInit()
        assert [refusal(mig, index) for index in range(3)] == [6, -1, -1]
        third = mig(2)
        fake.lose(0)
        assert refusal(nvml.nvmlDeviceGetMemoryInfo, third) == 15


def test_another_driver_needs_another_process(fake: FakeNvml, nvml: ModuleType, tmp_path: Path) -> None:
    fake.mismatch()
    assert nvml.nvmlDeviceGetCount() == 8
    nvml.nvmlShutdown()
    assert refusal(nvml.nvmlInit) == 18
    fake.driver("450.51.06")
    assert refusal(nvml.nvmlInit) == 18
    with loaded(FakeNvml(tmp_path / "old", driver="450.51.06")):
        nvml.nvmlInit()
        assert nvml.nvmlSystemGetDriverVersion() == "450.51.06"
        assert refusal(nvml.nvmlDeviceGetTemperatureV, gpu(), 0) == 13


def test_a_wait_for_events_ends_with_an_event_or_a_loss(fake: FakeNvml, nvml: ModuleType) -> None:
    events = nvml.nvmlEventSetCreate()

    def wait(milliseconds: int) -> tuple[int, int, int]:
        event = nvml.nvmlEventSetWait(events, milliseconds)
        return nvml.nvmlDeviceGetIndex(event.device), event.eventType, event.eventData

    fake.xid(0, 13)
    nvml.nvmlDeviceRegisterEvents(gpu(0), nvml.nvmlEventTypeXidCriticalError, events)
    assert refusal(wait, 0) == 10, "what was before the registration is lost"
    fake.event(0, 0x10)
    fake.xid(5, 31)
    later = threading.Timer(0.02, fake.xid, (0, 48))
    later.start()
    assert wait(600_000) == (0, 8, 48)
    later.join()
    fake.lose(0)
    assert refusal(wait, 600_000) == 15
    nvml.nvmlEventSetFree(events)
    assert refusal(nvml.nvmlEventSetFree, events) == 2


@pytest.mark.long
def test_any_command_runs_with_the_fake(tmp_path: Path) -> None:
    ask = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"
    command = [sys.executable, "-m", "kits.fake_nvml.library", "h200", str(tmp_path), sys.executable, "-c", ask]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert done.stdout == "2\n"
