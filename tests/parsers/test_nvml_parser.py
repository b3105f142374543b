"""NVML's answers beyond the golden files: which figure is the main one, which errors mean what, odd shapes."""

from __future__ import annotations

from typing import Any

import pytest

from kits.captures import own_case
from telemetry_parsers.combining.outputs import combine_reports
from telemetry_parsers.model import Absent, Capture, Failure, Library, Output, Report, Value
from telemetry_parsers.vendors.nvidia.nvml.parser import PARSER, parse

NODE = {"driver": "580.105.08", "library": "13.580.105.08", "count": 1, "unseen": []}
ERROR = {"error": 3}
FAILS = {"error": 999}


def report_on(gpu: dict[str, Any], **data: Any) -> Report:
    """What is made of one GPU."""
    document = {"node": NODE, "gpus": [{"index": 0, "bus_id": "0000:1b:00.0", **gpu}], "events": [], **data}
    return parse(Capture("nvml", "fast", Library("nvml", ("fast",)), (Output("fast", data=document, status=0),)))


def values(report: Report, metric: str) -> dict[str, Value]:
    return {item.label: item.value for item in report.readings if item.metric == metric}


def value(report: Report, metric: str) -> Value:
    return values(report, metric).get("", Absent.NOT_REPORTED)


@pytest.mark.parametrize(
    ("capability", "fields", "calls", "kind", "watts"),
    [
        ([9, 0], {"power_average": 1000, "power_instant": 2000}, {}, "average", 1.0),
        ([9, 0], {"power_average": 0, "power_instant": 2000}, {}, "average", 0.0),
        ([8, 0], {"power_average": ERROR, "power_instant": 2000}, {}, "instant", 2.0),
        ([8, 0], {"power_average": None, "power_instant": 2000}, {}, "instant", 2.0),
        ([8, 6], {"power_average": ERROR, "power_instant": ERROR}, {"PowerUsage": 3000}, "average", 3.0),
        ([8, 0], {"power_average": ERROR, "power_instant": ERROR}, {"PowerUsage": 3000}, "instant", 3.0),
        ([3, 5], {"power_average": ERROR, "power_instant": ERROR}, {"PowerUsage": 3000}, "instant", 3.0),
        (None, {"power_average": ERROR, "power_instant": ERROR}, {"PowerUsage": 3000}, None, 3.0),
        ([9, 0], {"power_average": ERROR, "power_instant": ERROR}, {"PowerUsage": ERROR}, None, Absent.NOT_SUPPORTED),
        ([9, 0], {"power_average": FAILS, "power_instant": 2000}, {}, "instant", 2.0),
        ([8, 0], {"power_average": FAILS, "power_instant": FAILS}, {"PowerUsage": 3000}, "instant", 3.0),
    ],
)
def test_the_main_power_and_its_kind(
    capability: Any, fields: dict[str, Any], calls: dict[str, Any], kind: str | None, watts: Value
) -> None:
    report = report_on({"compute_capability": capability, "fields": fields, "calls": calls})
    assert value(report, "power_watts") == watts
    assert dict(report.devices[0].facts).get("power_kind") == kind
    if kind is not None:
        assert value(report, f"power_{kind}_watts") == watts


def test_an_average_that_fails_this_time_is_not_replaced_by_the_power_of_the_moment() -> None:
    fields = {"power_average": FAILS, "power_instant": 2000}
    report = report_on({"compute_capability": [9, 0], "fields": fields, "has_power_average": True})
    assert dict(report.devices[0].facts)["power_kind"] == "average"
    assert value(report, "power_watts") is Absent.NOT_REPORTED
    assert value(report, "power_instant_watts") == 2.0


@pytest.mark.parametrize(
    ("mask", "supported", "expected"),
    [
        (0x04, 0x1FF, {"sw_power_cap": 1.0, "hw_slowdown": 0.0}),
        (0x48, 0x1FF, {"hw_slowdown": 1.0, "hw_thermal": 1.0, "sw_thermal": 0.0}),
        (0x01, 0x1FF, {"sw_power_cap": 0.0, "hw_thermal": 0.0}),
        (0x20, None, {"sw_thermal": 1.0, "display_clocks": 0.0}),
    ],
)
def test_each_reason_is_a_state_and_idling_is_none(mask: int, supported: Any, expected: dict[str, float]) -> None:
    report = report_on({"supported_reasons": supported, "calls": {"CurrentClocksEventReasons": mask}})
    found = values(report, "throttled")
    assert found.items() >= expected.items()
    assert "idle" not in found
    assert len(found) == 8


def test_reasons_that_the_card_does_not_know_have_no_state() -> None:
    report = report_on({"supported_reasons": 0x44, "calls": {"CurrentClocksThrottleReasons": 0x40}})
    assert values(report, "throttled") == {"sw_power_cap": 0.0, "hw_thermal": 1.0}


@pytest.mark.parametrize(
    ("mask", "supported", "expected"),
    [
        (0x600, 0x7FF, {"board_limit": 1.0, "reliability": 1.0}),
        (0x000, 0x7FF, {"board_limit": 0.0, "reliability": 0.0}),
        (0x200, 0x1FF, {"board_limit": 1.0}),
        (0x400, None, {"reliability": 1.0}),
        (0x004, None, {}),
        (0x004, 0x1FF, {}),
    ],
)
def test_the_reasons_of_newer_drivers_are_told_where_they_are_known_or_there(
    mask: int, supported: Any, expected: dict[str, float]
) -> None:
    report = report_on({"supported_reasons": supported, "calls": {"CurrentClocksEventReasons": mask}})
    found = values(report, "throttled")
    assert {word: found[word] for word in ("board_limit", "reliability") if word in found} == expected
    assert report.problems == ()


def test_a_reason_that_no_table_knows_is_a_problem() -> None:
    report = report_on({"calls": {"CurrentClocksEventReasons": 0x1804}})
    assert values(report, "throttled")["sw_power_cap"] == 1.0
    assert ["0x1800" in problem.text for problem in report.problems] == [True]


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ({"MemoryAffinity.1.0": [1]}, {"numa_node": "0"}),
        ({"MemoryAffinity.1.0": [1 << 3]}, {"numa_node": "3"}),
        ({"MemoryAffinity.1.0": [0b101]}, {}),
        ({"MemoryAffinity.1.0": [0]}, {}),
        ({"MemoryAffinity.1.0": ERROR, "NumaNodeId": ERROR}, {}),
        ({"MemoryAffinity.1.0": [1], "NumaNodeId": 4}, {"numa_node": "0", "memory_numa_node": "4"}),
        ({"MemoryAffinity.1.0": "odd", "NumaNodeId": -1}, {}),
    ],
)
def test_the_node_of_the_host_beside_a_card_is_not_that_of_its_own_memory(
    calls: dict[str, Any], expected: dict[str, str]
) -> None:
    facts = dict(report_on({"calls": calls}).devices[0].facts)
    assert {name: facts[name] for name in facts if "numa" in name} == expected


@pytest.mark.parametrize(
    ("capability", "integrated"),
    [([12, 1], True), ([11, 0], True), ([8, 7], True), ([12, 0], False), ([9, 0], False), (None, False)],
)
def test_a_gpu_beside_the_cpu_on_one_chip_has_no_pcie_link_and_no_memory_of_its_own(
    capability: Any, integrated: bool
) -> None:
    """Its driver says generation 1, one lane, and a memory that is never busy, whatever goes on."""
    calls = {
        "CurrPcieLinkGeneration": 1,
        "CurrPcieLinkWidth": 1,
        "MaxPcieLinkGeneration": 5,
        "MaxPcieLinkWidth": 16,
        "UtilizationRates": {"gpu": 91, "memory": 0},
    }
    report = report_on({"compute_capability": capability, "calls": calls, "fields": {"pcie_replay_counter": 0}})
    placeholders = ("link_generation", "link_width", "link_generation_max", "link_width_max", "replays_total")
    found = [value(report, f"pcie_{name}") for name in placeholders] + [value(report, "memory_activity_ratio")]
    assert found == ([Absent.NOT_SUPPORTED] * 6 if integrated else [1.0, 1.0, 5.0, 16.0, 0.0, 0.0])
    assert value(report, "utilization_ratio") == 0.91


@pytest.mark.parametrize(
    ("told", "used", "loud"),
    [
        (1 << 30, float(1 << 30), False),
        (0, 0.0, False),
        (None, None, False),
        (2**64 - 1, None, False),
        (2**64 - 4096, None, True),
        (-4096, None, True),
    ],
)
def test_the_memory_of_a_process_is_no_more_than_there_can_be(told: Any, used: float | None, loud: bool) -> None:
    report = report_on({"processes": {"Compute": [[4711, "python", told, None, None]]}})
    assert [process.memory_used_bytes for process in report.processes] == [used]
    assert value(report, "processes") == 1.0
    assert bool(report.problems) == loud


@pytest.mark.parametrize(("number", "word"), [(10, "blackwell"), (13, "rubin"), (12, None), (2**32 - 1, None)])
def test_architectures(number: int, word: str | None) -> None:
    facts = dict(report_on({"calls": {"Architecture": number}}).devices[0].facts)
    assert facts.get("architecture") == word


def test_the_hottest_part_of_a_gpu_is_a_sensor_of_its_own() -> None:
    report = report_on({"calls": {"TemperatureV.0": 54, "TemperatureV.1": 63}})
    assert values(report, "temperature_celsius") == {"core": 54.0, "hotspot": 63.0}


@pytest.mark.parametrize(
    ("calls", "fields", "expected"),
    [
        ({"0.0.2": 5, "0.0.7": 1}, {"sbe_vol_total": 6, "sbe_vol_dev": 5}, {"dram": 5.0, "sram": 1.0}),
        (
            {"0.0.2": ERROR, "0.0.7": ERROR},
            {"sbe_vol_total": 6, "sbe_vol_dev": 4, "sbe_vol_l2": 2},
            {"dram": 4.0, "l2": 2.0},
        ),
        ({"0.0.2": ERROR, "0.0.7": ERROR}, {"sbe_vol_total": 6, "sbe_vol_dev": ERROR}, {"all": 6.0}),
        ({"0.0.2": ERROR, "0.0.7": ERROR}, {"sbe_vol_total": ERROR}, {"all": Absent.NOT_SUPPORTED}),
        ({"0.0.2": 0}, {"sbe_vol_total": None}, {"dram": 0.0}),
        ({}, {"sbe_vol_total": None}, {"all": Absent.NOT_REPORTED}),
    ],
)
def test_ecc_by_place_and_the_total_only_where_no_place_is_told(
    calls: dict[str, Any], fields: dict[str, Any], expected: dict[str, Value]
) -> None:
    report = report_on(
        {
            "calls": {f"MemoryErrorCounter.{name}": answer for name, answer in calls.items()},
            "fields": {f"ecc_{name}": answer for name, answer in fields.items()},
        }
    )
    assert values(report, "ecc_corrected_total") == expected


@pytest.mark.parametrize(
    ("links", "metric", "expected"),
    [
        ({"each": {"0": {"state": 1}, "7": {"state": 0}}}, "link_up", {"0": 1.0, "7": 0.0}),
        ({"each": {"0": {"state": 2}, "1": {"state": 3}}}, "link_up", {"0": 1.0, "1": 0.0}),
        ({"each": {"0": {"state": 4}}}, "link_up", {"0": Absent.NOT_UNDERSTOOD}),
        ({"each": {"0": {"data_rx_kib": 2}}}, "link_receive_bytes_total", {"0": 2048.0}),
        ({"each": {"0": {"data_rx_kib": 2, "rx_bytes": 9}}}, "link_receive_bytes_total", {"0": 9.0}),
        ({"each": {"0": {"data_rx_kib": ERROR, "rx_bytes": ERROR}}, "together": {"data_rx_kib": 3}},
         "link_receive_bytes_total", {"all": 3072.0}),
        ({"each": {"0": {"data_rx_kib": ERROR}}}, "link_receive_bytes_total", {"all": Absent.NOT_REPORTED}),
        ({"each": {"0": {"rx_bytes": ERROR}}}, "link_receive_bytes_total", {"all": Absent.NOT_SUPPORTED}),
        ({"each": {"0": {"recovery": ERROR, "recovery_events": 4}}}, "link_recovery_errors_total", {"0": 4.0}),
        ({"each": {"0": {"receive_errors": 3}}}, "link_receive_errors_total", {"0": 3.0}),
        ({"each": {"0": {"receive_errors": ERROR}}, "together": {"receive_errors": 4}},
         "link_receive_errors_total", {"all": 4.0}),
        ({"each": {"0": {}}, "together": {"transmit_discards": 5}}, "link_transmit_errors_total", {"all": 5.0}),
        ({"each": {}}, "link_up", {"all": Absent.NOT_SUPPORTED}),
        (ERROR, "link_crc_errors_total", {"all": Absent.NOT_SUPPORTED}),
        ("many", "link_up", {"all": Absent.NOT_UNDERSTOOD}),
    ],
)  # fmt: skip
def test_links(links: Any, metric: str, expected: dict[str, Value]) -> None:
    assert values(report_on({"links": links}), metric) == expected


@pytest.mark.parametrize(
    ("memory", "used"),
    [
        ({"total": 100, "used": 40, "free": 50, "reserved": 10}, 40.0),
        ({"total": 100, "used": 0, "free": 100, "reserved": 0}, 0.0),
        ({"total": 0, "used": 0, "free": 0, "reserved": 0}, Absent.NOT_SUPPORTED),
        ({"total": 100}, Absent.NOT_REPORTED),
        (ERROR, Absent.NOT_SUPPORTED),
        ([1, 2, 3], Absent.NOT_UNDERSTOOD),
    ],
)
def test_memory_that_is_the_hosts_is_no_memory_of_the_card(memory: Any, used: Value) -> None:
    assert value(report_on({"calls": {"MemoryInfo_v2": memory}}), "memory_used_bytes") == used


def test_the_window_to_the_memory() -> None:
    report = report_on({"calls": {"BAR1MemoryInfo": {"total": 1 << 37, "free": (1 << 37) - 4096, "used": 4096}}})
    assert (value(report, "bar1_total_bytes"), value(report, "bar1_used_bytes")) == (2.0**37, 4096.0)
    assert report.unknown_fields == ()


@pytest.mark.parametrize(("name", "joules"), [("NVIDIA H100", 5.0), ("NVIDIA GH200 480GB", Absent.NOT_SUPPORTED)])
def test_an_energy_counter_of_the_whole_module_is_not_the_cards(name: str, joules: Value) -> None:
    report = report_on({"name": name, "fields": {"total_energy_consumption": 5000}})
    assert value(report, "energy_joules_total") == joules


@pytest.mark.parametrize(
    ("fields", "watts"),
    [
        ({"power_average": 778_650, "power_module": 1_124_870}, 1124.87),
        ({"power_average": 778_650, "power_module": 778_650}, Absent.NOT_SUPPORTED),  # the scope was not heeded
        ({"power_average": 778_650, "power_module": ERROR}, Absent.NOT_SUPPORTED),
        ({"power_average": ERROR, "power_module": 1_124_870}, 1124.87),
    ],
)
def test_the_power_of_a_module_is_kept_apart_from_that_of_its_gpu(fields: dict[str, Any], watts: Value) -> None:
    report = report_on({"fields": fields})
    assert value(report, "power_module_watts") == watts
    assert value(report, "power_watts") != 1124.87


@pytest.mark.parametrize(
    ("average", "memory", "watts"),
    [
        (645_310, 92_980, 92.98),
        (645_310, 645_310, Absent.NOT_SUPPORTED),  # the scope was not heeded
        (645_310, 700_000, Absent.NOT_SUPPORTED),  # it means another thing
        (645_310, 0, Absent.NOT_SUPPORTED),
        (645_310, -1, Absent.IMPLAUSIBLE),
        (645_310, 2**32 - 1, Absent.IMPLAUSIBLE),
        (645_310, ERROR, Absent.NOT_SUPPORTED),
        (FAILS, 92_980, Absent.NOT_REPORTED),
        (None, 92_980, Absent.NOT_REPORTED),
    ],
)
def test_the_power_of_the_memory_is_a_part_of_the_average(average: Any, memory: Any, watts: Value) -> None:
    report = report_on({"fields": {"power_average": average, "power_memory": memory}})
    assert value(report, "power_memory_watts") == watts


def test_errors_on_the_pcie_link_are_counted_by_kind() -> None:
    fields = {"pcie_correctable": 7, "pcie_fatal": 0, "pcie_nak_sent": ERROR, "pcie_replay_rollover": 1}
    fields["pcie_l0_to_recovery"] = 12
    assert values(report_on({"fields": fields}), "pcie_errors_total") == {
        "correctable": 7.0,
        "fatal": 0.0,
        "nak_sent": Absent.NOT_SUPPORTED,
        "replay_rollover": 1.0,
        "l0_to_recovery": 12.0,
    }


@pytest.mark.parametrize(
    ("answer", "state"),
    [(0, 0.0), (15, 15.0), (32, Absent.NOT_REPORTED), (33, Absent.IMPLAUSIBLE), (ERROR, Absent.NOT_SUPPORTED)],
)
def test_an_unknown_performance_state_is_none(answer: Any, state: Value) -> None:
    assert value(report_on({"calls": {"PerformanceState": answer}}), "performance_state") == state


def test_a_reading_that_is_a_sentinel_is_implausible_and_told() -> None:
    report = report_on({"calls": {"ClockInfo.1": 2**32 - 1, "TemperatureV.0": 2**64 - 1}})
    assert values(report, "clock_hertz") == {"sm": Absent.IMPLAUSIBLE}
    assert values(report, "temperature_celsius") == {"core": Absent.IMPLAUSIBLE}
    assert len(report.problems) == 2


@pytest.mark.parametrize(("margin", "celsius"), [(-1, -1.0), (-12, -12.0), (2**32 - 1, Absent.IMPLAUSIBLE)])
def test_a_margin_may_be_below_zero(margin: int, celsius: Value) -> None:
    report = report_on({"calls": {"MarginTemperature": margin}, "fields": {"margin_slowdown": margin}})
    assert value(report, "temperature_margin_celsius") == celsius
    assert values(report, "temperature_margin_limit_celsius") == {"slowdown": celsius}


def test_what_no_table_knows_is_named_and_its_neighbours_are_read() -> None:
    report = report_on(
        {"calls": {"NewCall": 1, "CurrPcieLinkWidth": 8}, "fields": {"new_field": 2}, "gpm": {"99": 1.0}}
    )
    assert report.unknown_fields == ("NewCall", "new_field", "GPM 99")
    assert value(report, "pcie_link_width") == 8.0


def test_all_tiers_of_a_node_make_one_document() -> None:
    captures = own_case("nvml", "a100-mig").captures(PARSER)
    report = combine_reports([parse(capture) for capture in captures])
    assert [device.partition for device in report.devices] == [None, "0", "2"]
    assert [device.parent for device in report.devices] == [None, 0, 0]
    found = {(item.device, item.metric) for item in report.readings if isinstance(item.value, float)}
    assert {(1, "memory_used_bytes"), (1, "compute_units"), (1, "processes"), (0, "link_up")} <= found


@pytest.mark.parametrize(
    ("outputs", "outcome", "words"),
    [
        ((), "failed", "no output"),
        ((Output("fast", data=None, status=0),), "failed", "no answer of the reader"),
        ((Output("fast", data={"gpus": []}, status=0),), "failed", "no answer of the reader"),
        ((Output("fast", data={"node": {}, "gpus": [7]}, status=0),), "failed", "no object"),
        ((Output("fast", data={"node": {}, "gpus": [{}] * 257}, status=0),), "failed", "257 GPUs"),
        ((Output("fast", data={"node": {}, "gpus": []}, status=0),), "no_devices", ""),
        (
            (Output(text="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),),
            "not_mine",
            "nvidia-smi",
        ),
        (
            (Output(text="<?xml version='1.0' ?>\n<nvidia_smi_log>\n<fb_memory_usage><used>31 MiB"),),
            "not_mine",
            "nvidia-smi",
        ),
        ((Output(text="name, power.draw [W]\nNVIDIA A30, 31.00 W\n"),), "not_mine", "nvidia-smi"),
        ((Output(text="==============NVSMI LOG==============\nAttached GPUs : 1\n"),), "not_mine", "nvidia-smi"),
        ((Output(text="hello\n"),), "not_mine", "another tool"),
    ],
)
def test_what_is_no_answer_of_the_library(outputs: tuple[Output, ...], outcome: str, words: str) -> None:
    report = parse(Capture("nvml", "fast", Library("nvml", ("fast",)), outputs))
    assert (report.outcome, report.devices, report.readings) == (outcome, (), ())
    assert words in " ".join(problem.text for problem in report.problems)


def test_a_readers_refusal_is_passed_on() -> None:
    failure = Failure("failed", "library_mismatch", "reboot")
    report = parse(Capture("nvml", "fast", Library("nvml", ("fast",)), failure=failure))
    assert (report.outcome, report.reason, report.problems[0].text) == ("failed", "library_mismatch", "reboot")
