"""Driver files of complete nodes: files that are read, ignored, or unreadable."""

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from kits.captures import own_cases
from kits.fake_sysfs import FACTS, LINKS, PARSER, Sysfs, blob, gpu_node, mi210, mi300x, radeon, sensors, values
from telemetry_parsers.model import Absent, Files, Output

BUS = "0000:c1:00.0"


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


def test_each_file_of_a_capture_is_requested() -> None:
    requests = {poll.name: poll.request for poll in PARSER.polls}
    captures = [capture for case in own_cases(PARSER.name) for capture in case.captures(PARSER)]
    for capture in captures:
        request = requests[capture.poll]
        assert isinstance(request, Files)
        patterns = (*request.globs, *request.binary, *request.links)
        files = [output.name for output in capture.outputs if output.name.startswith("/sys/")]
        assert [file for file in files if not any(PurePosixPath(file).match(pattern) for pattern in patterns)] == []


def test_suspended_card_is_listed_but_not_read(sysfs: Sysfs) -> None:
    asleep = sysfs.card("0000:03:00.0", radeon())
    sysfs.card(BUS, mi210())
    names = {output.name for output in sysfs.capture().outputs}
    assert not any("0000:03:00.0/" in name for name in names)
    report = sysfs.report()
    assert [device.bus_id for device in report.devices] == ["0000:03:00.0", BUS]
    assert values(report, 0) == {"suspended": 1.0}
    (asleep / "power/runtime_status").write_text("active\n")
    awake = values(sysfs.report(), 0)
    assert awake["suspended"] == 0.0
    assert awake["fan_ratio"] == 0.2
    assert awake["clock_hertz graphics"] == 19e6
    assert awake["clock_max_hertz graphics"] == 2500e6
    assert sysfs.report(1).devices[0].bus_id == "0000:03:00.0"


def test_empty_process_list_counts_0_and_a_missing_one_counts_nothing(sysfs: Sysfs) -> None:
    sysfs.card(BUS, mi210())
    sysfs.node(2, "5521", **gpu_node(0xC100, 777))
    assert values(sysfs.report(2)) == {}
    (sysfs.root / "sys/class/kfd/kfd/proc").mkdir(parents=True)
    assert values(sysfs.report(2)) == {"processes": 0.0}
    sysfs.process(4242, "5521", 0)
    assert values(sysfs.report(2)) == {"processes": 0.0}
    sysfs.process(4243, "5521", 4096)
    report = sysfs.report(2)
    assert values(report) == {"processes": 1.0}
    assert [(process.pid, process.memory_used_bytes) for process in report.processes] == [(4243, 4096.0)]


def test_main_power_comes_from_a_file_before_gpu_metrics(sysfs: Sysfs) -> None:
    sysfs.card(BUS, {**mi300x(blob(1, 3, 120, {22: ("H", 92)}))})
    report = sysfs.report()
    found = values(report)
    assert (found["power_watts"], found["power_average_watts"]) == (141.0, 92.0)
    assert dict(report.devices[0].facts)["power_kind"] == "instant"


@pytest.mark.parametrize(
    ("files", "watts", "kind"),
    [
        ({"power1_average": "92000000"}, 92.0, "average"),
        ({"power1_input": "87000000"}, 87.0, "instant"),
        ({"power1_average": "92000000", "power1_input": "87000000"}, 87.0, "instant"),
        ({"power1_average": "92000000", "power1_input": ""}, 92.0, "average"),
    ],
)
def test_main_power_is_instant_if_both_kinds_are_reported(
    sysfs: Sysfs, files: dict[str, str], watts: float, kind: str
) -> None:
    sysfs.card(BUS, {"vendor": "0x1002", **sensors(power1_cap="300000000", **files)})
    report = sysfs.report()
    assert values(report)["power_watts"] == watts
    assert dict(report.devices[0].facts)["power_kind"] == kind
    metrics = {"power1_average": "power_average_watts", "power1_input": "power_instant_watts"}
    assert {metrics[name] for name in files} <= set(values(report))


def test_power_of_0_below_a_limit_is_a_reading(sysfs: Sysfs) -> None:
    sysfs.card(BUS, {**mi210(), **sensors(power1_average="0")})
    assert values(sysfs.report())["power_watts"] == 0.0


def test_cards_of_other_drivers_are_not_read(sysfs: Sysfs) -> None:
    sysfs.card("0000:01:00.0", {"vendor": "0x10de", "gpu_busy_percent": "5"}, driver="nvidia")
    capture = sysfs.capture()
    assert capture.outputs == ()
    assert sysfs.report().outcome == "no_devices"


@pytest.mark.parametrize(
    ("status", "absent"),
    [
        (errno.EACCES, Absent.NOT_PERMITTED),
        # The driver's answer while the card sleeps or is reset, to root as well.
        (errno.EPERM, Absent.NOT_REPORTED),
        (errno.EOPNOTSUPP, Absent.NOT_SUPPORTED),
        (errno.EINVAL, Absent.NOT_SUPPORTED),
        (errno.EIO, Absent.NOT_REPORTED),
        (errno.EBUSY, Absent.NOT_REPORTED),
        (errno.ENOENT, Absent.NOT_REPORTED),
    ],
)
def test_unreadable_file_is_absent_with_its_reason(sysfs: Sysfs, status: int, absent: Absent) -> None:
    sysfs.card(BUS, mi210())
    capture = sysfs.capture()
    outputs = tuple(
        Output(output.name, status=status) if output.name.endswith("gpu_busy_percent") else output
        for output in capture.outputs
    )
    report = PARSER.parse(replace(capture, outputs=outputs))
    found = values(report)
    assert found["utilization_ratio"] is absent
    assert found["temperature_celsius edge"] == 41.0
    assert report.problems == ()


@pytest.mark.parametrize("text", ["", "\n"])
def test_empty_sensor_is_absent(sysfs: Sysfs, text: str) -> None:
    sysfs.card(BUS, {**mi210(), **sensors(temp1_input=text)})
    assert values(sysfs.report())["temperature_celsius edge"] is Absent.NOT_REPORTED


def test_nonsense_is_a_problem(sysfs: Sysfs) -> None:
    sysfs.card(BUS, {**mi210(), "gpu_busy_percent": "many"})
    report = sysfs.report()
    assert values(report)["utilization_ratio"] is Absent.NOT_UNDERSTOOD
    assert [problem.where for problem in report.problems] == [f"{BUS} utilization_ratio"]


def test_card_that_vanishes_while_it_is_read_keeps_earlier_readings(sysfs: Sysfs) -> None:
    sysfs.card(BUS, mi210())
    capture = sysfs.capture()
    gone = tuple(
        Output(output.name, status=errno.ENOENT) if output.name.endswith(BUS) or "/hwmon" in output.name else output
        for output in capture.outputs
    )
    report = PARSER.parse(replace(capture, outputs=gone))
    assert values(report)["temperature_celsius edge"] is Absent.NOT_REPORTED
    assert values(report)["utilization_ratio"] == 0.37


def test_forbidden_folder_fails_with_no_permission(sysfs: Sysfs) -> None:
    capture = replace(
        sysfs.capture(), outputs=(Output("/sys/bus/pci/drivers/amdgpu/*:*:*.*/vendor", status=errno.EACCES),)
    )
    report = PARSER.parse(capture)
    assert (report.outcome, report.reason) == ("failed", "no_permission")


def test_slow_file_is_not_requested() -> None:
    requests = [poll.request for poll in PARSER.polls]
    patterns = [name for request in requests for name in (*request.globs, *request.binary, *request.links)]
    assert not [name for name in patterns if "pcie_bw" in name]
    assert LINKS.lists_devices is FACTS.lists_devices is False


def test_reads_of_a_suspended_card_do_not_wake_it(sysfs: Sysfs) -> None:
    files = {**mi210(), **radeon(), "pp_dpm_vclk": "0: 400Mhz *", "gpu_metrics": blob(1, 3, 120, {})}
    sysfs.card(BUS, files)
    sysfs.node(1, "5521", **gpu_node(0xC100, 777))
    read = {output.name.partition(BUS + "/")[2] for number in range(4) for output in sysfs.capture(number).outputs}
    harmless = {"vendor", "device", "product_name", "unique_id", "serial_number", "vbios_version", "numa_node"}
    assert read - {""} == harmless
    facts = sysfs.report(3).devices[0]
    assert (facts.model, facts.uuid, facts.serial) == ("AMD INSTINCT MI210", "a1b2c3d4e5f60718", "692251000123")
    assert [values(sysfs.report(number)) for number in range(4)] == [{"suspended": 1.0}, {}, {}, {}]


def test_named_pipe_is_not_opened(sysfs: Sysfs) -> None:
    folder = sysfs.card(BUS, {"vendor": "0x1002", "mem_busy_percent": "3"})
    os.mkfifo(folder / "gpu_busy_percent")  # opening it for reading would wait for a writer
    assert values(sysfs.report()) == {"utilization_ratio": Absent.NOT_SUPPORTED, "memory_activity_ratio": 0.03}


def test_removed_card_is_no_longer_listed(sysfs: Sysfs) -> None:
    sysfs.card("0000:33:00.0", mi210())
    sysfs.card(BUS, mi210())
    shutil.rmtree(sysfs.root / "sys/devices/pci0000:00/0000:33:00.0")
    (sysfs.root / "sys/bus/pci/drivers/amdgpu/0000:33:00.0").unlink()
    assert [device.bus_id for device in sysfs.report().devices] == [BUS]


def test_container_lists_cards_whose_kfd_node_is_hidden(sysfs: Sysfs) -> None:
    sysfs.card(BUS, mi210())
    sysfs.card("0000:33:00.0", mi210())
    sysfs.node(2, "5521", **gpu_node(0xC100, 777))
    sysfs.node(3, "")
    report = sysfs.report()
    assert [(device.bus_id, "kfd_node" in dict(device.facts)) for device in report.devices] == [
        ("0000:33:00.0", False),
        (BUS, True),
    ]
