"""Through the real pynvml the fake says what its profile says, call by call, for every profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kits.fake_nvml.client import Client, Start
from kits.fake_nvml.library import ALL_LINKS, FakeNvml, Process
from kits.fake_nvml.profile import Key, load_profile, profile_names

pytestmark = pytest.mark.needs("cc")

# Answers whose form is their own: they have tests of their own below.
SPECIAL = (
    "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetSamples", "nvmlDeviceGetViolationStatus",
    "nvmlDeviceGetGpuFabricInfo", "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetSramEccErrorStatus", "nvmlDeviceGetCpuAffinity",
    "nvmlDeviceGetMemoryAffinity", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetTopologyCommonAncestor", "nvmlGpuInstanceGetInfo",
    "nvmlGpmQueryDeviceSupport", "nvmlDeviceGetUnrepairableMemoryFlag_v1", "nvmlDeviceGetRetiredPages",
    "nvmlDeviceGetDriverModel", "nvmlDeviceGetGpuInstanceProfileInfo", "nvmlDeviceGetFanSpeedRPM", "field", "gpm",
)  # fmt: skip


def expression(key: Key) -> str:
    """The call that asks for an answer."""
    place, *numbers = key.place.split(".")
    device = f"gpu({numbers[0]})" if place == "gpu" else f"mig({numbers[1]}, {numbers[0]})"
    call, *selectors = key.call.split(".")
    if call == "nvmlDeviceGetMemoryInfo_v2":
        return f"nvmlDeviceGetMemoryInfo({device}, nvmlMemory_v2)"
    return f"{call}({', '.join([device, *selectors])})"


def words(answer: Any) -> list[str]:
    parts = answer if isinstance(answer, list) else [answer]
    return [str(part) for part in parts]


def expected(text: str) -> tuple[int, list[str]]:
    """The error number, or -1 and the words."""
    return (int(text[1:]), []) if text.startswith("!") else (-1, text.split())


@pytest.mark.parametrize("profile", profile_names())
def test_says_what_the_profile_says(profile: str, tmp_path: Path, start: Start) -> None:
    client = start(FakeNvml(tmp_path, profile))
    answers = load_profile(profile).answers(load_profile(profile).driver)
    known = set(client.ask("[name for name in dir(pynvml) if hasattr(pynvml, name) and name.startswith('nvml')]"))
    lacking = 13
    compared = 0
    for key, text in answers.items():
        call = key.call.partition(".")[0]
        if key.place in ("node", "delay") or call in SPECIAL:
            continue
        assert call in known or call == "nvmlDeviceGetMemoryInfo_v2", f"pynvml has no {call}"
        code = client.refusal(expression(key))
        if code != lacking:
            assert code == expected(text)[0], key
            compared += 1
        if code == -1:
            assert " ".join(words(client.ask(expression(key)))).split() == expected(text)[1], key
    assert compared >= 6


def test_a_node_has_versions_and_a_count(client: Client) -> None:
    assert client.ask("nvmlSystemGetDriverVersion()") == "580.105.08"
    assert client.ask("nvmlSystemGetNVMLVersion()") == "13.580.105.08"
    assert client.ask("[nvmlSystemGetCudaDriverVersion(), nvmlSystemGetCudaDriverVersion_v2()]") == [13000, 13000]
    assert client.ask("nvmlDeviceGetCount()") == 8
    assert client.refusal("gpu(8)") == 2


@pytest.mark.parametrize("text", ["00000000:43:00.0", "0000:43:00.0", "0:43:0", "43:00.0"])
def test_a_gpu_is_found_by_its_bus_address(client: Client, text: str) -> None:
    assert client.ask(f"nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId('{text}'))") == 1


def test_a_gpu_is_found_by_its_uuid(client: Client) -> None:
    uuid = client.ask("nvmlDeviceGetUUID(gpu(5))")
    assert client.ask(f"nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID('{uuid}'))") == 5
    assert client.refusal("nvmlDeviceGetHandleByUUID('GPU-0')") == 6
    assert client.refusal("nvmlDeviceGetHandleByPciBusId('0000:ff:00.0')") == 6


def test_a_node_of_64_gpus(tmp_path: Path, start: Start) -> None:
    fake = FakeNvml(tmp_path, load_profile("h100").with_gpus(64))
    client = start(fake)
    assert client.ask("nvmlDeviceGetCount()") == 64
    for call in ("nvmlDeviceGetUUID", "nvmlDeviceGetSerial", "nvmlDeviceGetMinorNumber"):
        assert len(set(client.ask(f"[{call}(gpu(index)) for index in range(64)]"))) == 64
    fake.lose(63)
    assert client.refusal("nvmlDeviceGetName(gpu(63))") == 15
    assert fake.calls("nvmlDeviceGetMinorNumber", 63) == 1


def test_numbers_that_move(fake: FakeNvml, client: Client) -> None:
    fake.tell(0, "nvmlDeviceGetPowerUsage", "600000~50000")
    fake.tell(0, "nvmlDeviceGetUtilizationRates", "90~5", 40)
    fake.tell(0, "nvmlDeviceGetTotalEnergyConsumption", "1000+600000")
    fake.field(0, 82, 61)
    fake.tell(0, "field.193.0", "int -8~4")
    client.do("seen = set(); until = time.monotonic() + 60")
    client.do("while len(seen) < 3 and time.monotonic() < until: seen.add(nvmlDeviceGetPowerUsage(gpu()))")
    seen = client.ask("sorted(seen)")
    assert len(seen) == 3
    assert 550000 <= seen[0] < seen[-1] <= 650000
    assert client.ask("85 <= nvmlDeviceGetUtilizationRates(gpu()).gpu <= 95")
    assert client.ask("nvmlDeviceGetUtilizationRates(gpu()).memory") == 40
    temperature, changing = client.ask("[v.value.siVal for v in nvmlDeviceGetFieldValues(gpu(), [82, 193])]")
    assert temperature == 61
    assert -12 <= changing <= -4
    energy = "nvmlDeviceGetTotalEnergyConsumption(gpu())"
    assert client.ask(f"(lambda first: [time.sleep(0.01), {energy} - first][1])({energy})") >= 6000


def test_a_busy_node_moves_as_cards_at_work_do(tmp_path: Path, start: Start) -> None:
    client = start(FakeNvml(tmp_path, load_profile("h100").busy()))
    power = client.ask("[nvmlDeviceGetPowerUsage(gpu(index)) for index in range(8)]")
    assert len(set(power)) >= 4
    assert all(618920 <= watts <= 678920 for watts in power)
    assert client.ask("nvmlDeviceGetName(gpu())") == "NVIDIA H100 80GB HBM3"
    assert client.ask("all(1000 < nvmlDeviceGetClockInfo(gpu(), 1) < 1980 for _ in range(3))")


def test_a_pci_address_in_both_structures(client: Client) -> None:
    told = ["0000:9D:00.0", 0, 0x9D, 0, 0x233010DE, 0x16C110DE, "00000000:9D:00.0"]
    assert client.ask("nvmlDeviceGetPciInfo(gpu(4))") == told
    # pynvml wants the structure from its caller, with the version in it.
    client.do("pci = nvmlPciInfoExt_v1_t(); pci.version = 0x1000040; nvmlDeviceGetPciInfoExt(gpu(4), byref(pci))")
    assert client.ask("pci") == [0, 0x9D, 0, 0x233010DE, 0x16C110DE, 3, 2, "00000000:9D:00.0"]


def test_the_revolutions_of_each_fan(fake: FakeNvml, client: Client) -> None:
    """pynvml asks for the first only; the structure says which."""
    fake.tell(0, "nvmlDeviceGetFanSpeedRPM.0", 1180)
    fake.tell(0, "nvmlDeviceGetFanSpeedRPM.1", 1140)
    assert client.ask("nvmlDeviceGetFanSpeedRPM(gpu())") == 1180
    client.do("info = c_nvmlFanSpeedInfo_t(version=nvmlFanSpeedInfo_v1, fan=1)")
    client.do("pynvml._nvmlGetFunctionPointer('nvmlDeviceGetFanSpeedRPM')(gpu(), byref(info))")
    assert client.ask("info") == [1, 1140]


def test_sets_of_cpus_and_nodes(client: Client) -> None:
    assert client.ask("list(nvmlDeviceGetCpuAffinity(gpu(), 3))") == [4294967295, 0, 0]
    assert client.ask("list(nvmlDeviceGetMemoryAffinity(gpu(), 1, 0))") == [1]


def test_processes_and_what_the_driver_does_not_say(fake: FakeNvml, client: Client) -> None:
    assert client.ask("nvmlDeviceGetGraphicsRunningProcesses(gpu())") == []
    fake.processes(0, [Process(7, 1 << 20), Process(8, None), Process(9, 3, 1, 0)])
    assert client.ask("nvmlDeviceGetComputeRunningProcesses(gpu())") == [
        {"pid": 7, "usedGpuMemory": 1 << 20, "gpuInstanceId": 0xFFFFFFFF, "computeInstanceId": 0xFFFFFFFF},
        {"pid": 8, "usedGpuMemory": None, "gpuInstanceId": 0xFFFFFFFF, "computeInstanceId": 0xFFFFFFFF},
        {"pid": 9, "usedGpuMemory": 3, "gpuInstanceId": 1, "computeInstanceId": 0},
    ]


def test_the_room_for_processes(fake: FakeNvml, client: Client) -> None:
    fake.processes(0, [Process(pid) for pid in range(1, 31)])
    client.do("call = pynvml._nvmlGetFunctionPointer('nvmlDeviceGetComputeRunningProcesses_v3')")
    client.do("count = c_uint(29); room = (c_nvmlProcessInfo_v3_t * 29)()")
    assert client.ask("[call(gpu(), byref(count), room), count.value]") == [7, 30]
    client.do("count = c_uint(64); room = (c_nvmlProcessInfo_v3_t * 64)()")
    assert client.ask("[call(gpu(), byref(count), room), count.value, room[29].pid, room[30].pid]") == [0, 30, 30, 0]
    assert client.ask("[call(gpu(), byref(count), None), call(gpu(), None, room)]") == [2, 2]


def test_a_list_that_grows_each_time_it_is_asked_for(fake: FakeNvml, client: Client) -> None:
    fake.grow_processes(0, 10)
    # The size is asked for (1 + 10), room made for 2 * 11 + 5, and then 1 + 20 are there.
    assert len(client.ask("nvmlDeviceGetComputeRunningProcesses(gpu())")) == 21
    assert len(client.ask("nvmlDeviceGetComputeRunningProcesses(gpu(1))")) == 1


def test_drivers_that_wrote_longer_entries_give_garbage(tmp_path: Path, start: Start) -> None:
    fake = FakeNvml(tmp_path, "a100", driver="535.54.03")
    fake.processes(0, [Process(11, 5), Process(12, 6), Process(13, 7)])
    assert [each["pid"] for each in start(fake).ask("nvmlDeviceGetComputeRunningProcesses(gpu())")] != [11, 12, 13]


def test_use_by_processes(fake: FakeNvml, client: Client) -> None:
    fake.tell(0, "nvmlDeviceGetProcessUtilization", "7:90:40:1:2:0:3:4", "8:5:1:0:0:60000000:0:0")
    assert [each[0:1] + each[2:] for each in client.ask("nvmlDeviceGetProcessUtilization(gpu(), 0)")] == [
        [7, 90, 40, 1, 2], [8, 5, 1, 0, 0],
    ]  # fmt: skip
    recent = "int((time.time() - 30) * 1e6)"
    assert [each[0] for each in client.ask(f"nvmlDeviceGetProcessUtilization(gpu(), {recent})")] == [7]
    later = "int((time.time() + 30) * 1e6)"
    assert client.refusal(f"nvmlDeviceGetProcessUtilization(gpu(), {later})") == 6
    assert client.ask("[[u.pid, u.smUtil, u.ofaUtil] for u in nvmlDeviceGetProcessesUtilizationInfo(gpu(), 0)]") == [
        [7, 90, 4], [8, 5, 0],
    ]  # fmt: skip


def test_samples_since_a_time(client: Client) -> None:
    assert client.ask("[s.sampleValue.uiVal for s in nvmlDeviceGetSamples(gpu(), 0, 0)[1]]") == [642310, 655870, 661120]
    assert client.ask("nvmlDeviceGetSamples(gpu(), 0, 0)[0]") == 1
    assert client.refusal("nvmlDeviceGetSamples(gpu(), 0, int((time.time() + 9) * 1e6))") == 6


def test_times_of_violations(client: Client) -> None:
    assert client.ask("nvmlDeviceGetViolationStatus(gpu(), 0).violationTime") == 7015662857000
    assert client.ask("abs(nvmlDeviceGetViolationStatus(gpu(), 1).referenceTime / 1e6 - time.time()) < 60")
    assert client.refusal("nvmlDeviceGetViolationStatus(gpu(), 5)") == 3


def test_retired_pages(tmp_path: Path, start: Start) -> None:
    client = start(FakeNvml(tmp_path, "t4"))
    assert client.ask("nvmlDeviceGetRetiredPages(gpu(), 0)") == []
    assert client.ask("nvmlDeviceGetRetiredPages(gpu(), 1)") == [1048576]
    assert client.ask("nvmlDeviceGetRetiredPages_v2(gpu(), 1)[0]['address']") == 1048576
    assert client.ask("nvmlDeviceGetRetiredPagesPendingStatus(gpu())") == 0


def test_fabric_and_platform_in_each_version(tmp_path: Path, start: Start) -> None:
    client = start(FakeNvml(tmp_path, "b200"))
    client.do("info = c_nvmlGpuFabricInfo_v3_t(); nvmlDeviceGetGpuFabricInfoV(gpu(), byref(info))")
    assert client.ask("bytes(info.clusterUuid).hex()") == "4e0d81c2b5f74a6a8e13d7c90ab21f55"
    assert client.ask("[info.status, info.cliqueId, info.state]") == [0, 32766, 3]
    assert client.ask("[info.healthMask, info.healthSummary]") == [21845, 1]
    client.do("info = c_nvmlGpuFabricInfo_v2_t(); nvmlDeviceGetGpuFabricInfoV(gpu(), byref(info))")
    assert client.ask("[info.cliqueId, info.state, info.healthMask]") == [32766, 3, 21845]
    client.do("info = c_nvmlPlatformInfo_v2_t(); nvmlDeviceGetPlatformInfo(gpu(1), byref(info))")
    assert client.ask("[info.chassisSerialNumber, info.hostId, info.moduleId]") == ["1820325170118", "\x01", "\x01"]


def test_a_flag_that_pynvml_looks_for_in_the_wrong_place(tmp_path: Path, start: Start) -> None:
    fake = FakeNvml(tmp_path, "h100", driver="590.48.01")
    fake.tell(0, "nvmlDeviceGetUnrepairableMemoryFlag_v1", 1)
    client = start(fake)
    assert client.ask("nvmlDeviceGetUnrepairableMemoryFlag_v1(gpu())") == 0
    client.do("call = pynvml._nvmlGetFunctionPointer('nvmlDeviceGetUnrepairableMemoryFlag_v1'); flag = c_uint()")
    assert client.ask("[call(gpu(), byref(flag)), flag.value]") == [0, 1]


def test_mig_devices(tmp_path: Path, start: Start) -> None:
    fake = FakeNvml(tmp_path, "a100-mig")
    client = start(fake)
    assert client.ask("nvmlDeviceGetMaxMigDeviceCount(gpu())") == 7
    assert [client.refusal(f"mig({index})") for index in range(4)] == [-1, -1, -1, 6]
    assert client.ask("[nvmlDeviceIsMigDeviceHandle(each).value for each in (gpu(), mig(1))]") == [0, 1]
    assert client.ask("nvmlDeviceGetUUID(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig(2)))").startswith("GPU-")
    assert client.ask("nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID(nvmlDeviceGetUUID(mig(2))))") == 2
    info = "nvmlGpuInstanceGetInfo(nvmlDeviceGetGpuInstanceById(gpu(), 3))"
    assert client.ask(f"[{info}.id, {info}.profileId, {info}.placement.start, {info}.placement.size]") == [3, 14, 2, 2]
    profile = "nvmlDeviceGetGpuInstanceProfileInfo(gpu(), 2)"
    assert client.ask(f"[{profile}.sliceCount, {profile}.memorySizeMB, {profile}.name]") == [3, 40192, "MIG 3g.40gb"]
    assert client.refusal("nvmlDeviceGetUtilizationRates(gpu())") == 3
    assert client.refusal("nvmlDeviceGetGpuInstanceById(gpu(), 11)") == 6


def test_no_mig_where_it_is_off_or_unknown(tmp_path: Path, client: Client, start: Start) -> None:
    assert client.ask("nvmlDeviceGetMaxMigDeviceCount(gpu())") == 0
    assert client.refusal("mig(0)") == 6
    assert start(FakeNvml(tmp_path / "t4", "t4")).refusal("mig(0)") == 3


def test_each_field_has_its_type_and_code(client: Client) -> None:
    asked = f"[82, (186, 0), (185, 2), (138, {ALL_LINKS}), 83, 193, 5, 142, (185, 1), 400]"
    values = f"nvmlDeviceGetFieldValues(gpu(), {asked})"
    assert client.ask(f"[v.valueType for v in {values}]") == [1, 1, 1, 3, 3, 5, 3, 1, 0, 0]
    assert client.ask(f"[v.nvmlReturn for v in {values}]") == [0, 0, 0, 0, 0, 0, 0, 0, 3, 2]
    told = client.ask("[v.value.ullVal for v in nvmlDeviceGetFieldValues(gpu(), [82, 186, (185, 2), 83, 5, 142])]")
    assert told == [61, 648920, 92980, 8123456789, 5, 1]
    assert client.ask("nvmlDeviceGetFieldValues(gpu(), [193])[0].value.siVal") == -8
    assert client.ask("abs(nvmlDeviceGetFieldValues(gpu(), [82])[0].timestamp / 1e6 - time.time()) < 60")


@pytest.mark.parametrize(
    ("kind", "value", "member"),
    [
        ("double", 2.5, "dVal"), ("uint", 7, "uiVal"), ("ulong", 1 << 40, "ulVal"), ("ullong", (1 << 64) - 1, "ullVal"),
        ("llong", -(1 << 40), "sllVal"), ("int", -3, "siVal"), ("ushort", 65535, "usVal"),
    ],
)  # fmt: skip
def test_kinds_of_fields(fake: FakeNvml, client: Client, kind: str, value: float, member: str) -> None:
    fake.field(0, 95, value, kind=kind)
    assert client.ask(f"nvmlDeviceGetFieldValues(gpu(), [95])[0].value.{member}") == value


@pytest.mark.parametrize(
    ("driver", "thermal", "is_known"),
    [
        ("570.86.15", None, {251: 0, 269: 2}),  # 251 is power smoothing
        ("575.51.03", 251, {251: 0, 269: 3}),
        ("580.65.06", 251, {251: 0, 269: 3}),
        ("580.82.07", 269, {251: 0, 269: 0}),  # 251 is power smoothing again
        ("535.183.06", None, {251: 2, 197: 2, 196: 0}),
    ],
)
def test_numbers_of_fields_go_by_the_driver(
    tmp_path: Path, start: Start, driver: str, thermal: int | None, is_known: dict[int, int]
) -> None:
    client = start(FakeNvml(tmp_path, "b200", driver=driver))
    fields = "nvmlDeviceGetFieldValues(gpu(), [{}])[0]"
    assert {each: client.ask(fields.format(each) + ".nvmlReturn") for each in is_known} == is_known
    if thermal is not None:
        assert client.ask(fields.format(thermal) + ".value.ullVal") == 1250000000
    elif is_known[251] == 0:
        assert client.ask(fields.format(251) + ".value.ullVal") == 1


def test_a_gpm_metric_lies_between_two_samples(client: Client, fake: FakeNvml) -> None:
    assert client.ask("nvmlGpmQueryDeviceSupport(gpu()).isSupportedDevice") == 1
    client.do("one, two = nvmlGpmSampleAlloc(), nvmlGpmSampleAlloc()")
    client.do("get = c_nvmlGpmMetricsGet_t(); get.version = 1; get.numMetrics = 3; get.sample1, get.sample2 = one, two")
    client.do("for at, number in enumerate([2, 5, 99]): get.metrics[at].metricId = number")
    metrics = "[[m.nvmlReturn, m.value if m.value == m.value else 'nan'] for m in nvmlGpmMetricsGet(get).metrics[0:3]]"
    assert client.refusal(metrics) == 2, "no samples yet"
    client.do("nvmlGpmSampleGet(gpu(), one); nvmlGpmSampleGet(gpu(), two)")
    assert client.ask(metrics) == [[0, "nan"], [0, "nan"], [3, "nan"]], "nothing lies between the samples"
    client.do("time.sleep(0.11); nvmlGpmSampleGet(gpu(), two)")
    assert client.ask(metrics) == [[0, 91.4], [0, 63.0], [3, "nan"]]
    client.do("get.version = 2")
    assert client.refusal("nvmlGpmMetricsGet(get)") == 25
    client.do("nvmlGpmSampleFree(one); nvmlGpmSampleFree(two)")
    assert fake.calls("nvmlGpmSampleAlloc") == fake.calls("nvmlGpmSampleFree") == 2


def test_gpm_of_a_mig_device_and_of_a_gpu_that_has_none(tmp_path: Path, start: Start) -> None:
    client = start(FakeNvml(tmp_path / "mig", "h100-mig"))
    client.do("one, two = nvmlGpmSampleAlloc(), nvmlGpmSampleAlloc()")
    client.do("nvmlGpmMigSampleGet(gpu(), 9, one); time.sleep(0.11); nvmlGpmMigSampleGet(gpu(), 9, two)")
    client.do("get = c_nvmlGpmMetricsGet_t(); get.version = 1; get.numMetrics = 1; get.sample1, get.sample2 = one, two")
    client.do("get.metrics[0].metricId = 2")
    assert client.ask("nvmlGpmMetricsGet(get).metrics[0].value") == 80.5
    assert client.refusal("nvmlGpmMigSampleGet(gpu(), 5, one)") == 2
    old = start(FakeNvml(tmp_path / "old", "a100"))
    assert old.ask("nvmlGpmQueryDeviceSupport(gpu()).isSupportedDevice") == 0
    assert old.refusal("nvmlGpmSampleGet(gpu(), nvmlGpmSampleAlloc())") == 3
