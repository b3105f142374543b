"""Texts in which people save the drivers' files, each in its own way; what is no file of a card is said to be none."""

from __future__ import annotations

import pytest

from kits.fake_sysfs import PARSER
from telemetry_parsers.model import Absent, Capture, Output, Report

BUS = "0000:c1:00.0"
DRM = "/sys/class/drm/card1/device"
DEEP = f"/sys/devices/pci0000:c0/0000:c0:01.1/0000:c0:02.0/{BUS}"


def parsed(text: str, stderr: str = "") -> Report:
    """As `telemetry parse` hands a file over."""
    output = Output("/home/somebody/files.txt", text=text, stderr=stderr)
    return PARSER.parse(Capture(PARSER.name, output.name, PARSER.polls[0].request, (output,)))


def values(report: Report, device: int = 0) -> dict[str, object]:
    return {f"{item.metric} {item.label}".strip(): item.value for item in report.readings if item.device == device}


@pytest.mark.parametrize(
    "text",
    [
        f"/sys/bus/pci/drivers/amdgpu/{BUS}/vendor:0x1002\n/sys/bus/pci/drivers/amdgpu/{BUS}/gpu_busy_percent:55\n",
        f"/sys/bus/pci/devices/{BUS}/vendor:0x1002\n/sys/bus/pci/devices/{BUS}/gpu_busy_percent:55\n",
        f"{DEEP}/vendor:0x1002\n{DEEP}/gpu_busy_percent:55\n",
        "/sys/class/drm/card1/device/vendor:0x1002\n/sys/class/drm/card1/device/gpu_busy_percent:55\n",
        "card1/device/vendor:0x1002\ncard1/device/gpu_busy_percent:55\n",
        f"$ cat {DRM}/vendor\n0x1002\n$ cat {DRM}/gpu_busy_percent\n55\n$ uname\nLinux\n",
        f"[root@node7 ~]# cat {DRM}/vendor\n0x1002\n[root@node7 ~]# cat {DRM}/gpu_busy_percent\n55\n[root@node7 ~]# ls\n7\n",
        f"## {DRM}/vendor\n0x1002\n## {DRM}/gpu_busy_percent\n55\n",
        f"==> {DRM}/vendor <==\n0x1002\n\n==> {DRM}/gpu_busy_percent <==\n55\n",
        f"::::::::::::::\n{DRM}/vendor\n::::::::::::::\n0x1002\n::::::::::::::\n{DRM}/gpu_busy_percent\n::::::::::::::\n55\n",
        f"{DRM}/vendor\n0x1002\n{DRM}/gpu_busy_percent\n55\n",
        f"nid007: {DRM}/vendor:0x1002\nnid007: {DRM}/gpu_busy_percent:55\n",
        f"{DRM}/vendor:0x1002\r\n{DRM}/gpu_busy_percent:55\r\n",
        f"Path: {DRM}/vendor\nLines: 1\n0x1002\nMode: 444\nPath: {DRM}/gpu_busy_percent\nLines: 1\n55\nMode: 444\n",
    ],
    ids=["grep of a driver", "grep of the bus", "grep of a real path", "grep of drm", "grep inside drm", "session",
         "session of root", "sections", "head", "more", "find", "launcher", "carriage returns", "ttar"],
)  # fmt: skip
def test_saved_files_are_read_in_every_way_that_people_save_them(text: str) -> None:
    report = parsed(text)
    assert values(report) == {"utilization_ratio": 0.55}
    assert [device.vendor for device in report.devices] == ["amd"]
    assert report.devices[0].bus_id == (BUS if BUS in text else None)
    assert report.devices[0].index == (1 if "card1" in text else None)


@pytest.mark.parametrize(
    ("words", "absent"),
    [
        ("Permission denied", Absent.NOT_PERMITTED),
        ("Operation not supported", Absent.NOT_SUPPORTED),
        ("Invalid argument", Absent.NOT_SUPPORTED),
        ("Device or resource busy", Absent.NOT_REPORTED),
        ("Input/output error", Absent.NOT_REPORTED),
        ("Operation not permitted", Absent.NOT_REPORTED),
    ],
)
@pytest.mark.parametrize("place", ["text", "stderr"])
def test_what_cat_and_grep_say_of_a_file_that_cannot_be_read(words: str, absent: Absent, place: str) -> None:
    read = f"{DRM}/vendor:0x1002\n{DRM}/mem_busy_percent:3\n"
    refusal = f"grep: {DRM}/gpu_busy_percent: {words}\n"
    report = parsed(read + refusal) if place == "text" else parsed(read, refusal)
    assert values(report) == {"utilization_ratio": absent, "memory_activity_ratio": 0.03}


def test_an_error_in_a_session_is_that_files() -> None:
    session = (
        f"$ cat {DRM}/vendor\n0x1d94\n$ cat {DRM}/gpu_busy_percent\ncat: {DRM}/gpu_busy_percent: Permission denied\n"
    )
    report = parsed(session)
    assert values(report) == {"utilization_ratio": Absent.NOT_PERMITTED}
    assert report.devices[0].vendor == "hygon"


def test_of_all_cards_of_a_node_only_amds_and_hygons_are_listed() -> None:
    cards = {0: "0x1a03", 1: "0x1002", 2: "0x10de", 3: "0x1d94", 4: "0x8086"}
    report = parsed("".join(f"/sys/class/drm/card{n}/device/vendor:{vendor}\n" for n, vendor in cards.items()))
    assert [(device.index, device.vendor) for device in report.devices] == [(1, "amd"), (3, "hygon")]


@pytest.mark.parametrize("code", ["0x040300", "0x060400", "0x0c0330"])
def test_audio_bridges_and_usb_of_a_card_are_no_cards(code: str) -> None:
    others = "".join(
        f"/sys/bus/pci/devices/0000:c1:00.1/{name}:{text}\n" for name, text in (("vendor", "0x1002"), ("class", code))
    )
    card = f"/sys/bus/pci/devices/{BUS}/vendor:0x1002\n/sys/bus/pci/devices/{BUS}/class:0x038000\n"
    assert [device.bus_id for device in parsed(card + others).devices] == [BUS]
    assert parsed(others).outcome == "failed"


def test_a_card_read_by_both_its_names_is_one() -> None:
    uevent = f"{DRM}/uevent:DRIVER=amdgpu\n{DRM}/uevent:PCI_ID=1002:740F\n{DRM}/uevent:PCI_SLOT_NAME={BUS}\n"
    report = parsed(f"{uevent}{DRM}/gpu_busy_percent:55\n/sys/bus/pci/devices/{BUS}/mem_busy_percent:3\n")
    assert [(device.bus_id, device.index, device.vendor) for device in report.devices] == [(BUS, 1, "amd")]
    assert values(report) == {"utilization_ratio": 0.55, "memory_activity_ratio": 0.03}


@pytest.mark.parametrize(
    ("bound", "vendor"), [("DRIVER=hycu", "hygon"), ("DRIVER=amdgpu", "amd"), ("PCI_ID=1D94:6210", "hygon")]
)
def test_the_driver_or_the_ids_tell_whose_a_card_is(bound: str, vendor: str) -> None:
    report = parsed(f"{DRM}/uevent:{bound}\n{DRM}/gpu_busy_percent:55\n")
    assert [device.vendor for device in report.devices] == [vendor]


def test_kfd_alone_tells_cards_their_memory_and_their_clock() -> None:
    nodes = "/sys/class/kfd/kfd/topology/nodes"
    properties = {
        "simd_count": 256, "simd_per_cu": 4, "mem_banks_count": 1, "vendor_id": 4098, "device_id": 26720, "location_id": 6400,
        "drm_render_minor": 128, "max_engine_clk_fcompute": 1500, "unique_id": 81985529216486895,
    }  # fmt: skip
    text = "".join(f"{nodes}/1/properties:{name} {number}\n" for name, number in properties.items())
    text += f"{nodes}/0/properties:simd_count 0\n{nodes}/1/gpu_id:13261\n{nodes}/1/mem_banks/0/properties:size_in_bytes 17163091968\n"
    report = parsed(text + f"{nodes}/1/mem_banks/0/used_memory:14102528\n")
    assert values(report) == {
        "compute_units": 64.0,
        "clock_max_hertz graphics": 1500e6,
        "memory_total_bytes": 17163091968.0,
        "memory_used_bytes": 14102528.0,
    }
    card = report.devices[0]
    assert (card.bus_id, card.uuid) == ("0000:19:00.0", "0123456789abcdef")
    facts = {"chip_id": "0x6860", "gpu_id": "13261", "kfd_node": "1", "render_node": "renderD128"}
    assert dict(card.facts) == facts


@pytest.mark.parametrize("lost", ["unique_id 777\n", "location_id 1281\nunique_id 777\n"])
def test_a_node_that_was_cut_off_is_no_card_of_its_own(lost: str) -> None:
    first = "## nodes/2/properties\nsimd_count 152\nsimd_per_cu 4\nlocation_id 1280\nunique_id 777\n"
    second = "## nodes/3/properties\nsimd_count 152\nsimd_per_cu 4\nlocation_id 1281\nunique_id 777\n"
    assert [device.partition for device in parsed(first + second).devices] == [None, "1"]
    assert [device.bus_id for device in parsed(first + second.removesuffix(lost)).devices] == ["0000:05:00.0"]


@pytest.mark.parametrize(
    ("properties", "places"),
    [("simd_count 0\nlocation_id 0\n", []), ("simd_count 152\nsimd_per_cu 4\n", ["node 3"])],
    ids=["a processor", "cut off"],
)
def test_a_topology_without_a_card_is_no_error_unless_it_was_cut_off(properties: str, places: list[str]) -> None:
    report = parsed(f"## nodes/3/properties\n{properties}")
    assert (report.outcome, report.devices) == ("no_devices", ())
    assert [problem.where for problem in report.problems] == places


@pytest.mark.parametrize(
    "text",
    [
        "VCE feature version: 0, firmware version: 0x352d0400\n",
        "/sys/class/drm/card0/device/vendor:0x1a03\n",
        "07:00.0 Display controller [0380]: Chengdu Haiguang IC Design Co., Ltd. ZIFANG [1d94:55b7] (rev 01)\n",
        "hydcu           1435342     0\n",
        "grep: /sys/class/drm/card*/device/: No such file or directory\n",
        "$ cat /sys/class/drm/card1/device/gpu_busy_percent\ncat: /sys/class/drm/card1/device/gpu_busy_percent: No such file or directory\n",
        "",
    ],
)
def test_what_holds_no_card_is_said_to_hold_none(text: str) -> None:
    report = parsed(text)
    assert (report.outcome, report.reason, report.devices) == ("failed", "not_understood", ())
    assert report.problems
