"""The reader `mtml` in its real worker process, with the vendor's binding on a fake library."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kits.fake_mtml import FakeMtml
from telemetry_daemon.processes.worker import Worker
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_daemon.readers.mtml import library
from telemetry_parsers.model import Absent, Capture, Library, Poll, Report, Value
from telemetry_parsers.vendors.moorethreads.mtml import PARSER

pytestmark = pytest.mark.needs("cc")
POLLS = {poll.name: poll for poll in PARSER.polls}
TARGET = "telemetry_daemon.readers.mtml.reader:READER"
FREED = ("Gpu", "Memory", "Vpu")


@pytest.fixture
def fake(tmp_path: Path) -> FakeMtml:
    return FakeMtml(tmp_path / "mtml")


@pytest.fixture
def ask(fake: FakeMtml) -> Iterator[Callable[[str], Capture]]:
    """Return a function that reads one poll, always through the same worker."""
    worker = Worker("mtml", {"mtml": TARGET}, environment={**fake.environment})
    reader = WorkerReader("mtml", worker)
    yield lambda tier="fast": reader.read(POLLS[tier], Targets())
    worker.close()


def value(report: Report, metric: str, label: str = "", device: int = 0) -> Value | None:
    """Return a reading of a report, or None."""
    found = [
        item.value for item in report.readings if (item.device, item.metric, item.label) == (device, metric, label)
    ]
    return found[0] if found else None


def failure_of(capture: Capture) -> tuple[str, str | None, str]:
    assert capture.failure is not None
    return capture.failure.state, capture.failure.reason, capture.failure.text


def test_each_tier_gives_its_readings(ask: Callable[..., Capture]) -> None:
    fast, slow, inventory = (PARSER.parse(ask(tier)) for tier in ("fast", "slow", "inventory"))
    assert [(device.model, device.bus_id, device.serial, device.driver) for device in fast.devices] == [
        ("MTT S4000", "0000:1a:00.0", "MY18VG021C800770", "3.3.8-server"),
        ("MTT S4000", "0000:1b:00.0", "MY18VG021C800771", "3.3.8-server"),
    ]
    values = {(item.metric, item.label): item.value for item in fast.readings if item.device == 1}
    assert values == {
        ("power_watts", ""): 121.5,
        ("utilization_ratio", ""): 0.37,
        ("temperature_celsius", "core"): 58.0,
        ("clock_hertz", "graphics"): 1.6e9,
        ("clock_hertz", "memory"): 1.5e9,
        ("memory_used_bytes", ""): 2048.0 * 2**20,
        ("memory_total_bytes", ""): 49152.0 * 2**20,
    }
    values = {(item.metric, item.label): item.value for item in slow.readings if item.device == 0}
    assert values == {
        ("pcie_link_generation", ""): 4.0,
        ("pcie_link_generation_max", ""): 5.0,
        ("pcie_link_width", ""): 8.0,
        ("pcie_link_width_max", ""): 16.0,
        ("engine_utilization_ratio", "encoder"): 0.05,
        ("engine_utilization_ratio", "decoder"): 0.0,
        ("clock_hertz", "video"): 1.1e9,
        ("ecc_enabled", ""): 1.0,
        ("ecc_corrected_total", "dram"): 3.0,
        ("ecc_uncorrected_total", "dram"): 0.0,
        ("retired_pages", "single_bit_ecc"): 2.0,
        ("retired_pages", "double_bit_ecc"): 0.0,
        ("retired_pages_pending", ""): 0.0,
        ("fan_ratio", ""): 0.64,
        ("link_up", "0"): 1.0,
        ("link_up", "1"): 0.0,
        ("link_up", "2"): 1.0,
    }
    assert [problem.text for problem in slow.problems] == ["MTLink 2 runs below its highest speed"] * 2
    assert value(inventory, "clock_max_hertz", "graphics") == 1.75e9
    assert value(inventory, "ecc_corrected_lifetime_total", "dram") == 41.0
    assert value(inventory, "ecc_uncorrected_lifetime_total", "dram") == 1.0
    assert inventory.devices[0].facts == (("mpc_capable", "YES"), ("firmware", "4.4.02"))
    assert fast.facts == (("tool_version", "2.2.0"),)


def test_unsupported_call_is_absent_and_not_repeated(fake: FakeMtml, ask: Callable[..., Capture]) -> None:
    fake.set_answers(0, power="!4", temperature="!5", utilization="!12", clock="!999")
    for _ in range(3):
        report = PARSER.parse(ask("fast"))
    assert value(report, "power_watts") is Absent.NOT_SUPPORTED
    assert value(report, "temperature_celsius", "core") is Absent.NOT_PERMITTED
    assert value(report, "utilization_ratio") is Absent.NOT_REPORTED
    assert value(report, "clock_hertz", "graphics") is Absent.NOT_REPORTED
    assert [problem.text for problem in report.problems] == ["GpuClock: MTML error 999"]
    assert value(report, "power_watts", device=1) == 121.5
    assert fake.calls("mtmlDeviceGetPowerUsage", 0) == 1
    assert fake.calls("mtmlGpuGetTemperature", 0) == 3


def test_the_library_is_initialised_once_and_each_handle_made_once(fake: FakeMtml, ask: Callable[..., Capture]) -> None:
    for tier in ("fast", "slow", "inventory", "fast", "slow"):
        assert ask(tier).failure is None
    assert fake.calls("mtmlLibraryInit") == 1
    assert fake.calls("mtmlLibraryInitDeviceByIndex") == 2
    assert [fake.calls(f"mtmlDeviceInit{part}", 0) for part in FREED] == [1, 1, 1]
    assert [fake.calls(f"mtmlDeviceFree{part}", 0) for part in FREED] == [0, 0, 0]
    assert fake.calls("mtmlLibraryInitSystem") == fake.calls("mtmlLibraryFreeSystem") == 1


def test_lost_card_is_down_and_the_other_is_still_read(fake: FakeMtml, ask: Callable[..., Capture]) -> None:
    assert PARSER.parse(ask()).devices[0].up
    fake.fail(0, library.GPU_IS_LOST)
    for _ in range(3):
        report = PARSER.parse(ask())
    assert [(device.up, device.uuid is not None) for device in report.devices] == [(False, True), (True, True)]
    assert value(report, "power_watts") is None
    assert value(report, "power_watts", device=1) == 121.5
    assert "MTML error 669" in report.problems[0].text
    assert fake.calls("mtmlDeviceFreeGpu", 0) == fake.calls("mtmlDeviceInitGpu", 0) == 1
    assert fake.calls("mtmlLibraryFreeDevice", 0) == 1


def test_changed_card_count_is_noticed(fake: FakeMtml, ask: Callable[..., Capture]) -> None:
    assert len(PARSER.parse(ask()).devices) == 2
    fake.set_answers("node", count=1)
    assert len(PARSER.parse(ask()).devices) == 1
    assert fake.calls("mtmlLibraryFreeDevice") == 2


def test_exchanged_handles_are_noticed_at_the_next_slow_poll(fake: FakeMtml, ask: Callable[..., Capture]) -> None:
    before = [device.uuid for device in PARSER.parse(ask()).devices]
    for card in (0, 1):
        fake.set_answers(card, **fake.identity(1 - card))
    for tier in ("slow", "fast"):
        report = PARSER.parse(ask(tier))
        assert [device.uuid for device in report.devices] == before[::-1]
    assert fake.calls("mtmlLibraryInit") == 1


def test_no_cards_is_a_valid_answer(fake: FakeMtml, ask: Callable[..., Capture]) -> None:
    fake.set_answers("node", count=0)
    assert PARSER.parse(ask()).outcome == "no_devices"


def test_mpc_instances_are_devices_within_their_parent(fake: FakeMtml, ask: Callable[..., Capture]) -> None:
    fake.set_answers(0, property="0 1 1", instances=2)
    for part in range(2):
        fake.set_answers(
            f"0/{part}", uuid=f"aaaa-{part}", utilization=10 + part, used=2**30, total=2**31, property="0 0 2"
        )
    report = PARSER.parse(ask("fast"))
    assert [(device.index, device.partition, device.parent) for device in report.devices] == [
        (0, None, None),
        (0, "0", 0),
        (0, "1", 0),
        (1, None, None),
    ]
    assert value(report, "utilization_ratio", device=2) == 0.11
    assert value(report, "power_watts", device=2) is Absent.NOT_SUPPORTED
    facts = [dict(device.facts).get("device_type") for device in PARSER.parse(ask("inventory")).devices]
    assert facts == ["MPC Parent", "MPC Instance", "MPC Instance", None]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (library.DRIVER_NOT_LOADED, "driver_gone"),
        (library.NO_PERMISSION, "no_permission"),
        (library.DRIVER_TOO_OLD, "library_mismatch"),
        (library.UNKNOWN, "driver_gone"),
    ],
)
def test_a_library_that_cannot_be_initialised_is_not_tried_at_every_poll(
    fake: FakeMtml, ask: Callable[..., Capture], code: int, reason: str
) -> None:
    fake.set_answers("node", init=f"!{code}")
    for _ in range(3):
        assert failure_of(ask())[:2] == ("failed", reason)
        assert failure_of(ask())[2].endswith(f"(MTML error {code})")
    assert fake.calls("mtmlLibraryInit") == 1


def test_unloaded_driver_ends_the_session(fake: FakeMtml, ask: Callable[..., Capture]) -> None:
    assert ask().failure is None
    fake.set_answers("node", count=f"!{library.DRIVER_NOT_LOADED}")
    assert failure_of(ask())[1] == "driver_gone"
    assert fake.calls("mtmlLibraryShutDown") == 1
    assert fake.calls("mtmlLibraryFreeDevice") == 2


def test_without_the_library_the_source_is_missing(fake: FakeMtml, ask: Callable[..., Capture]) -> None:
    (fake.folder / "libmtml.so.2").unlink()
    state, reason, text = failure_of(ask())
    assert (state, reason) == ("missing", None)
    assert "libmtml.so.2 is not installed" in text


def test_without_the_binding_no_process_is_started(fake: FakeMtml) -> None:
    started: list[Any] = []
    worker = Worker("mtml", {"mtml": TARGET}, environment=fake.environment, launcher=started.append)  # type: ignore[arg-type]  # never called
    poll = Poll("fast", Library("mtml", ("fast",), module="no_such_module", package="device-telemetry[moorethreads]"))
    state, _, text = failure_of(WorkerReader("mtml", worker).read(poll, Targets()))
    assert (state, started) == ("missing", [])
    assert "pip install 'device-telemetry[moorethreads]'" in text


def test_other_package_of_that_name_is_distinguished_from_the_binding(fake: FakeMtml, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pymtml.py").write_text('"""Says hello."""\n')
    environment = {**fake.environment, "PYTHONPATH": str(tmp_path / "other")}
    worker = Worker("mtml", {"mtml": TARGET}, environment=environment)
    state, _, text = failure_of(WorkerReader("mtml", worker).read(POLLS["fast"], Targets()))
    worker.close()
    assert (state, "pip uninstall pymtml" in text) == ("missing", True)


def test_after_a_pause_the_library_and_lost_cards_are_tried_again(fake: FakeMtml, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    environment = {**fake.environment, "HAND_CLOCK": str(clock)}
    worker = Worker("mtml", {"mtml": f"{Path(__file__).parent}/hand_clock_mtml.py:READER"}, environment=environment)
    reader = WorkerReader("mtml", worker)

    def up_at(seconds: float) -> list[bool]:
        clock.write_text(str(seconds))
        return [device.up for device in PARSER.parse(reader.read(POLLS["fast"], Targets())).devices]

    fake.set_answers("node", init=f"!{library.UNKNOWN}")
    assert up_at(100.0) == []
    fake.set_answers("node", init="!4")  # as without an answer for `init`
    assert (up_at(129.0), up_at(130.0)) == ([], [True, True])
    fake.fail(0, library.DRIVER_FAILURE)
    assert up_at(131.0) == [False, True]
    fake.heal(0)
    assert (up_at(160.0), up_at(161.0)) == ([False, True], [True, True])
    worker.close()
    assert fake.calls("mtmlLibraryInit") == 2
