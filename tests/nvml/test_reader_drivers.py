"""Each driver is called with its own numbers and functions, whatever the installed wheel knows."""

import itertools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from kits.fake_nvml.library import NODE, UNKNOWN, FakeNvml
from kits.fake_nvml.profile import Profile, load_profile
from kits.fake_nvml.reader import Bench, reading, value
from telemetry_parsers.model import Absent, Report

pytestmark = pytest.mark.needs("cc")

# Counters of the reasons, and what the same numbers mean to other drivers.
REASONS = {"sw_thermal": 1_000_000_000, "hw_thermal": 2_000_000_000, "hw_power_brake": 3_000_000_000}
SMOOTHING = [71, 72, 73]


def h100(**gpu: object) -> Profile:
    document = dict(load_profile("h100").document)
    return Profile("h100", {**document, "gpu": {**document["gpu"], **gpu}})


@pytest.mark.parametrize(
    ("driver", "windows", "is_shown"),
    [
        ("535.183.06", None, False),
        ("570.133.20", None, False),
        ("575.57.08", None, True),
        ("580.65.06", None, True),
        ("580.82.07", None, True),
        ("610.43.02", None, True),
        # Under WSL the driver is that of Windows, and the library's version counts.
        ("580.65.06", "580.97", True),
        ("580.82.07", "581.15", True),
    ],
)
def test_the_throttle_counters_have_the_drivers_own_numbers(
    driver: str, windows: str | None, is_shown: bool, tmp_path: Path
) -> None:
    fake = FakeNvml(tmp_path, h100(reason_ns=REASONS, power_smoothing=SMOOTHING), driver=driver)
    if windows:
        fake.set_answer(NODE, "nvmlSystemGetDriverVersion", windows)
        fake.set_answer(NODE, "nvmlSystemGetNVMLVersion", f"13.{driver}")
    with reading(fake) as bench:
        report = bench.report("counters")
    found = [value(report, "throttled_seconds_total", word) for word in REASONS]
    assert found == ([1.0, 2.0, 3.0] if is_shown else [Absent.NOT_REPORTED] * 3)
    assert (report.devices[0].driver, report.problems) == (windows or driver, ())


@pytest.mark.parametrize(
    "driver", ["450.80.02", "470.57.02", "515.65.01", "525.60.13", "535.183.06", "550.54.15", "560.35.03"]
)
def test_an_a100_gives_the_same_under_every_driver(driver: str, tmp_path: Path) -> None:
    """Older calls replace missing ones: memory, temperature, throttle reasons, power, limits, links."""
    with reading(FakeNvml(tmp_path, "a100", driver=driver)) as bench:
        fast, slow, links, processes = (bench.report(tier) for tier in ("fast", "slow", "links", "processes"))
    assert value(fast, "memory_total_bytes") == 80 * 2.0**30
    assert value(fast, "temperature_celsius", "core") == 49.0
    assert value(fast, "power_watts") == value(fast, "power_instant_watts") == 271.34
    assert dict(fast.devices[0].facts)["power_kind"] == "instant"
    assert value(fast, "throttled", "sw_power_cap") == 0.0
    assert value(slow, "power_cap_watts") == value(slow, "power_cap_max_watts") == 400.0
    assert value(slow, "remapped_rows", "uncorrectable") == 1.0
    assert value(links, "link_up", "11") == 1.0
    assert value(links, "link_receive_bytes_total", "all") == 7123456 * 1024.0
    assert value(processes, "processes") == 1.0
    assert [problem for report in (fast, slow, links, processes) for problem in report.problems] == []


def test_driver_version_is_used_if_the_library_reports_none(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, h100(reason_ns=REASONS, power_smoothing=SMOOTHING), driver="580.65.06")
    fake.refuse(NODE, "nvmlSystemGetNVMLVersion")
    with reading(fake) as bench:
        assert value(bench.report("counters"), "throttled_seconds_total", "hw_thermal") == 2.0


def test_used_memory_includes_reserved_memory_before_510(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, "a100", driver="470.57.02")
    fake.set_answer(0, "nvmlDeviceGetMemoryInfo", 1000, 600, 400)
    with reading(fake) as bench:
        report = bench.report()
    assert value(report, "memory_used_bytes") == 400.0
    assert value(report, "memory_reserved_bytes") is Absent.NOT_REPORTED


def test_power_kind_is_kept_after_one_failure(bench: Bench) -> None:
    def power(report: Report) -> tuple[object, ...]:
        return value(report, "power_watts"), dict(report.devices[0].facts).get("power_kind")

    first = power(bench.report())
    bench.fake.refuse_field(0, 185, UNKNOWN)
    failed = power(bench.report())
    assert (first, failed) == ((645.31, "average"), (Absent.NOT_REPORTED, "average"))


def test_card_without_average_power_has_instantaneous_power(bench: Bench) -> None:
    bench.fake.refuse_field(0, 185, UNKNOWN)
    report = [bench.report() for _ in range(2)][-1]
    assert value(report, "power_watts") == 648.92
    assert dict(report.devices[0].facts)["power_kind"] == "instant"


def test_used_memory_does_not_switch_to_include_reserved_memory(bench: Bench) -> None:
    """The older call counts reserved memory as used. A value that jumps for one poll is worse than an absence."""
    before = value(bench.report(), "memory_used_bytes")
    bench.fake.fail("nvmlDeviceGetMemoryInfo_v2", UNKNOWN, 0, times=1)
    found = [value(bench.report(), "memory_used_bytes") for _ in range(2)]
    assert found == [Absent.NOT_REPORTED, before]


@pytest.mark.parametrize(
    ("driver", "windows", "is_read"),
    [("535.43.02", None, False), ("535.54.03", None, False), ("535.86.05", None, True), ("535.54.03", "536.25", False)],
)
def test_process_lists_with_longer_entries_are_not_read(
    driver: str, windows: str | None, is_read: bool, tmp_path: Path
) -> None:
    fake = FakeNvml(tmp_path, "a100", driver=driver)
    fake.set_answer(NODE, "nvmlSystemGetDriverVersion", windows or driver)
    with reading(fake) as bench:
        report = bench.report("processes")
    assert value(report, "processes") == (1.0 if is_read else Absent.NOT_SUPPORTED)
    assert fake.calls("nvmlDeviceGetComputeRunningProcesses_v3", 0) == is_read


def test_the_older_call_of_the_power_is_the_average_from_ampere_on(tmp_path: Path) -> None:
    """But not on GA100: compute capability 8.0."""
    for capability, kind in (("8 6", "average"), ("8 0", "instant"), ("7 5", "instant")):
        fake = FakeNvml(tmp_path / capability, "a100", driver="470.57.02")
        fake.set_answer(0, "nvmlDeviceGetCudaComputeCapability", *capability.split())
        with reading(fake) as bench:
            report = bench.report()
        assert dict(report.devices[0].facts)["power_kind"] == kind
        assert value(report, "power_watts") == value(report, f"power_{kind}_watts") == 271.34


def test_a_wrong_type_and_an_untouched_counter_are_known(bench: Bench) -> None:
    """Drivers leave ECC counters untouched while ECC is off, and returned some with a wrong type."""
    bench.fake.set_answer(0, "field.3.0", "blank")
    bench.fake.refuse(0, "nvmlDeviceGetMemoryErrorCounter.0.0.2")
    bench.fake.refuse(0, "nvmlDeviceGetMemoryErrorCounter.0.0.7")
    report = bench.report("slow")
    assert value(report, "ecc_corrected_total", "all") is Absent.NOT_REPORTED
    assert value(report, "ecc_corrected_total", "dram") is Absent.NOT_REPORTED


def test_a_counter_of_32_bits_that_wraps_every_second_is_no_counter(bench: Bench) -> None:
    assert value(bench.report("slow"), "pcie_transmit_bytes_total") is Absent.NOT_SUPPORTED
    bench.fake.field(1, 197, 5_000_000_000, kind="ullong")
    assert value(bench.report("slow"), "pcie_transmit_bytes_total", device=1) is Absent.NOT_SUPPORTED, "switched off"


def test_negative_temperature_and_nan_are_absent(bench: Bench) -> None:
    bench.fake.field(0, 186, float("nan"), kind="double")
    bench.fake.field(0, 82, -5, kind="int")
    report = bench.report()
    assert value(report, "temperature_celsius", "memory") is Absent.IMPLAUSIBLE
    assert value(report, "power_instant_watts") is Absent.NOT_REPORTED


def test_a_counter_that_is_all_ones_is_implausible(bench: Bench) -> None:
    bench.fake.set_answer(0, "nvmlDeviceGetTotalEnergyConsumption", 2**64 - 1)
    bench.fake.set_answer(0, "nvmlDeviceGetClockInfo.1", 2**32 - 1)
    for poll, *key in (("counters", "energy_joules_total"), ("fast", "clock_hertz", "sm")):
        report = bench.report(poll)
        assert value(report, *key) is Absent.IMPLAUSIBLE
        assert len(report.problems) == 1


@pytest.mark.parametrize("driver", ["560.35.03", "580.105.08"])
def test_temperature_with_all_bits_set_is_absent_in_both_calls(tmp_path: Path, driver: str) -> None:
    """The newer call returns a signed number, here -1."""
    fake = FakeNvml(tmp_path, "a100", driver=driver)
    fake.set_answer(0, "nvmlDeviceGetTemperature.0", 2**32 - 1)
    fake.field(0, 82, -1, kind="int")
    with reading(fake) as bench:
        report = bench.report()
    assert value(report, "temperature_celsius", "core") is Absent.IMPLAUSIBLE
    assert value(report, "temperature_celsius", "memory") is Absent.IMPLAUSIBLE
    assert value(report, "temperature_celsius", "core", device=1) == 49.0


def test_invalid_text_or_bus_address_leaves_other_readings(bench: Bench) -> None:
    bench.fake.set_answer(0, "nvmlDeviceGetSerial", "\udcff\udcfe")
    bench.fake.fail("nvmlDeviceGetPciInfo_v3", 0, 0)
    report = bench.report()
    assert (report.devices[0].serial, report.devices[0].model) == (None, "NVIDIA H100 80GB HBM3")
    assert [device.bus_id for device in report.devices[:2]] == [None, "0000:43:00.0"]
    assert value(report, "utilization_ratio") == 0.98


@pytest.mark.parametrize(("driver", "asked"), [("610.43.02", 0), ("615.71.05", 1)])
def test_the_hottest_part_is_asked_of_the_drivers_that_know_it_and_once_where_a_card_does_not(
    driver: str, asked: int, tmp_path: Path
) -> None:
    fake = FakeNvml(tmp_path, "h100", driver=driver)
    fake.refuse(0, "nvmlDeviceGetTemperature.1", 2)
    fake.set_answer(1, "nvmlDeviceGetTemperature.1", 63)
    with reading(fake) as bench:
        reports = [bench.report() for _ in range(3)]
    found = [value(reports[-1], "temperature_celsius", "hotspot", device=gpu) for gpu in (0, 1)]
    assert found == ([Absent.NOT_SUPPORTED, 63.0] if asked else [Absent.NOT_REPORTED] * 2)
    assert fake.calls("nvmlDeviceGetTemperatureV", 0) == 3 + asked


def real(pynvml: ModuleType) -> ModuleType:
    return pynvml


def shadowed(pynvml: ModuleType) -> ModuleType:
    """Return an old package `pynvml` that shadows the module: its functions, and nothing private."""
    module = ModuleType("pynvml")
    vars(module).update({name: found for name, found in vars(pynvml).items() if not name.startswith("_")})
    return module


def of_2023(pynvml: ModuleType) -> ModuleType:
    """Return a library without newer calls, and with other parameters of one call."""
    newer = (
        "NVMLLibraryMismatchError", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetMarginTemperature",
        "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetAddressingMode", "c_nvmlGpuFabricInfo_v2_t",
    )  # fmt: skip
    module = ModuleType("pynvml")
    vars(module).update({name: found for name, found in vars(pynvml).items() if name not in newer})
    vars(module)["nvmlDeviceGetGspFirmwareVersion"] = lambda handle, version: None
    return module


@pytest.mark.parametrize("profile", ["a100", "a100-mig", "wsl", "gb10"])
def test_processes_are_read_although_a_wheel_hides_functions(profile: str, tmp_path: Path) -> None:
    found = []
    for module in (real, shadowed):
        with reading(FakeNvml(tmp_path / module.__name__, profile), module) as bench:
            report = bench.report("processes")
            found.append((report.processes, report.readings, report.problems))
    assert found[0] == found[1]
    assert found[0][0]


def test_fastest_fan_is_shown(tmp_path: Path) -> None:
    with reading(FakeNvml(tmp_path, "wsl", driver="580.105.08")) as bench:
        bench.fake.set_answer(0, "nvmlDeviceGetFanSpeedRPM.1", 1250)
        report = bench.report("slow")
        assert (value(report, "fan_ratio"), value(report, "fan_rpm")) == (0.31, 1250.0)
        bench.fake.refuse(0, "nvmlDeviceGetFanSpeedRPM.1", UNKNOWN)
        report = bench.report("slow")
        assert (value(report, "fan_ratio"), value(report, "fan_rpm")) == (0.31, Absent.NOT_REPORTED)


@pytest.mark.parametrize(("driver", "module"), [("560.35.03", real), ("580.105.08", shadowed)])
def test_unsupported_fan_speed_is_asked_once(
    tmp_path: Path, driver: str, module: Callable[[ModuleType], ModuleType]
) -> None:
    """The driver, or the wheel, does not have the call."""
    fake = FakeNvml(tmp_path, "wsl", driver=driver)
    with reading(fake, module) as bench:
        reports = [bench.report("slow") for _ in range(2)]
    assert [value(report, "fan_rpm") for report in reports] == [Absent.NOT_SUPPORTED] * 2
    assert value(reports[1], "fan_ratio") == 0.31
    assert fake.calls("nvmlDeviceGetFanSpeedRPM") == 0


@pytest.mark.parametrize(("profile", "dram"), [("h100", 5.0), ("a100", 1.0)])
def test_lifetime_errors_are_separate_readings(profile: str, dram: float, tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, profile)
    for kind, location in itertools.product((0, 1), (2, 7)):
        fake.refuse(1, f"nvmlDeviceGetMemoryErrorCounter.{kind}.1.{location}")
    with reading(fake) as bench:
        slow, inventory = bench.report("slow"), bench.report("inventory")
    assert value(inventory, "ecc_corrected_lifetime_total", "dram") == dram
    assert value(inventory, "ecc_uncorrected_lifetime_total", "sram") == 0.0
    assert value(inventory, "ecc_corrected_lifetime_total", "all") is Absent.NOT_REPORTED, "reported by location"
    assert value(inventory, "ecc_corrected_lifetime_total", "all", device=1) == dram, "reported as a whole"
    assert value(slow, "ecc_corrected_total", "dram") == dram - (3.0 if profile == "h100" else 1.0)


def test_implausible_utilization_leaves_other_readings(bench: Bench) -> None:
    """Drivers have returned clocks in its place, and all ones (NVIDIA/DCGM #199)."""
    bench.fake.set_answer(0, "nvmlDeviceGetUtilizationRates", 1980, 41)
    bench.fake.set_answer(1, "nvmlDeviceGetUtilizationRates", 2**32 - 1, 2**32 - 1)
    report = bench.report()
    assert [value(report, "utilization_ratio", device=gpu) for gpu in (0, 1, 2)] == [Absent.IMPLAUSIBLE] * 2 + [0.98]
    assert [value(report, "memory_activity_ratio", device=gpu) for gpu in (0, 1)] == [0.41, Absent.IMPLAUSIBLE]
    assert len(report.problems) == 3


def test_older_wheel_lacks_only_the_newer_calls(fake: FakeNvml) -> None:
    with reading(fake, of_2023) as bench:
        fast, slow, inventory = (bench.report(tier) for tier in ("fast", "slow", "inventory"))
    assert value(fast, "temperature_celsius", "core") == 54.0
    assert value(slow, "temperature_margin_celsius") is Absent.NOT_SUPPORTED
    assert value(slow, "power_cap_watts") == 700.0
    facts = dict(inventory.devices[0].facts)
    assert facts["firmware"] == "96.00.89.00.01"
    assert not {"gsp_firmware", "fabric_state", "addressing_mode"} & facts.keys()
