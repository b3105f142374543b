"""amd-smi's sub-commands in the shapes of 7.x: their envelopes, lists by place, columns and tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kits.captures import text_capture
from kits.parsed.any_source import text_of
from telemetry_parsers.model import Absent, Device, Output, Report, Value
from telemetry_parsers.vendors.amd.amd_smi import PARSER

ADDRESSES = ("0000:0c:00.0", "0000:22:00.0", "0000:38:00.0")
# What a device gives, by metric, with its label behind a dot.
Readings = dict[str, Value]


def report_on(text: str) -> Report:
    return PARSER.parse(text_capture(PARSER, Output(text=text)))


def report_of(document: object) -> Report:
    return report_on(json.dumps(document, indent=4))


def readings(report: Report, device: int = 0) -> Readings:
    found = {f"{item.metric}.{item.label}".rstrip("."): item.value for item in report.readings if item.device == device}
    return {name: value for name, value in found.items() if not name.startswith("performance_level")}


def the_device(report: Report) -> Device:
    (device,) = report.devices
    return device


def quantity(number: object, unit: str) -> dict[str, object]:
    return {"value": number, "unit": unit}


def links_of(*states: str) -> list[dict[str, Any]]:
    """`link_status` of three cards of which the first has these states, and the others what nobody asks here."""
    rows = (states, ("N/A", "SELF", "N/A"), ("N/A", "N/A", "SELF"))
    return [{"gpu": gpu, "bdf": ADDRESSES[gpu], "link_status": list(row)} for gpu, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("U", 1.0),
        ("D", 0.0),
        ("X", Absent.NOT_SUPPORTED),
        ("N/A", Absent.NOT_REPORTED),
        ("U/U", 1.0),
        ("U/D", 0.0),
        ("X/U", 1.0),
        ("U/Q", Absent.NOT_UNDERSTOOD),
    ],
)
def test_the_states_of_links_stand_in_the_order_of_the_cards(state: str, expected: Value) -> None:
    report = report_of({"link_status": links_of("SELF", "U", state)})
    assert readings(report) == {"link_up.gpu1": 1.0, "link_up.gpu2": expected}
    assert bool(report.problems) == (expected is Absent.NOT_UNDERSTOOD)


def test_ports_are_told_apart_from_links_to_cards_and_lists_in_lists_are_read() -> None:
    links = [{"gpu": 1, "bdf": ADDRESSES[1], "read": quantity(7, "KB"), "write": quantity(9, "KB")}]
    report = report_of(
        {
            "xgmi_metric": [[{"gpu": 0, "bdf": ADDRESSES[0], "link_metrics": {"link_type": "XGMI", "links": links}}]],
            "link_port_status": [{"gpu": 0, "bdf": ADDRESSES[0], "link_status": ["U", "D"]}],
            "link_status": links_of("SELF", "U", "N/A"),
        }
    )
    assert readings(report) == {
        "link_up.gpu1": 1.0,
        "link_up.gpu2": Absent.NOT_REPORTED,
        "link_up.0": 1.0,
        "link_up.1": 0.0,
        "link_receive_bytes_total.gpu1": 7168.0,
        "link_transmit_bytes_total.gpu1": 9216.0,
    }
    assert (report.unknown_fields, report.problems) == ((), ())


def test_monitors_rows_of_partitions_do_not_overwrite_the_cards() -> None:
    rows = [
        {"gpu": 0, "xcp": 0, "power_usage": quantity(140, "W"), "gfx": quantity(9, "%")},
        {"gpu": 0, "xcp": 1, "power_usage": "N/A", "gfx": quantity(4, "%")},
        {"gpu": 1, "xcp": 1, "power_usage": "N/A", "gfx": quantity(3, "%")},
    ]
    table = "gpu,xcp,power_usage,gfx\n0,0,140,9\n0,1,N/A,4\n1,1,N/A,3\n"
    for report in (report_of(rows), report_on(table)):
        assert readings(report)["power_watts"] == 140.0
        assert [readings(report, device)["utilization_ratio"] for device in range(3)] == [0.09, 0.04, 0.03]
        assert [(device.partition, device.parent) for device in report.devices] == [(None, None), ("1", 0), ("1", 0)]
        assert report.problems == ()


def test_the_overview_is_also_read_as_the_only_item_of_a_list() -> None:
    card = {
        "gpu_id": 0, "partition_mode": "CPX/NPS4", "market_name": "AMD Instinct", "bdf": ADDRESSES[0], "gfx_util": 5,
        "power_usage": {"current_power": 140, "power_limit": "N/A"}, "mem_usage": {"used_gtt": 9, "total_gtt": 99},
    }  # fmt: skip
    said = {"amd-smi": "26.4", "rocm version": [True, "7.14"], "driver info": {"driver_version": "6.18.1"}}
    report = report_of([{"version_info": said, "gpu_info_list": [card], "processes": []}])
    device = the_device(report)
    assert readings(report) == {
        "utilization_ratio": 0.05,
        "power_watts": 140.0,
        "power_cap_watts": Absent.NOT_REPORTED,
        "memory_gtt_used_bytes": 9 * 2.0**20,
        "memory_gtt_total_bytes": 99 * 2.0**20,
        "processes": 0.0,
    }
    assert (device.model, device.driver, dict(device.facts)) == (
        "AMD Instinct",
        "6.18.1",
        {"compute_partition": "CPX", "memory_partition": "NPS4"},
    )
    assert dict(report.facts) == {"tool_version": "26.4", "rocm_version": "7.14"}


def test_lists_that_were_appended_to_a_file_without_a_line_between_them_are_both_read() -> None:
    text = '[{"gpu": 0, "power": {"socket_power": 90}}][{"gpu": 0, "power": {"socket_power": 91}}]'
    assert readings(report_on(text)) == {"power_watts": 91.0}


def test_each_memory_stack_has_its_temperature() -> None:
    printed = {"hbm_stacks": [quantity(31, "C"), "N/A", quantity(33, "C")]}
    section = "GPU: 0\n    TEMPERATURE:\n        HBM_STACKS: [31 °C, N/A, 33 °C]\n\n"
    expected = {"temperature_celsius.hbm0": 31.0, "temperature_celsius.hbm2": 33.0}
    for report in (report_of([{"gpu": 0, "temperature": printed}]), report_on(section)):
        assert readings(report) == expected
    assert readings(report_of([{"gpu": 0, "temperature": {"hbm_stacks": "N/A"}}])) == {}


def test_of_a_card_without_partitions_the_one_figure_of_its_video_engine_is_told() -> None:
    usage = {"vcn_activity": ["N/A", "N/A"], "vcn_busy": quantity(37, "%")}
    assert readings(report_of([{"gpu": 0, "usage": usage}])) == {"engine_utilization_ratio.vcn": 0.37}
    usage["vcn_activity"] = [quantity(4, "%"), "N/A"]
    assert readings(report_of([{"gpu": 0, "usage": usage}])) == {"engine_utilization_ratio.vcn": 0.04}


@pytest.mark.parametrize(
    ("state", "expected"), [("ENABLED", 1.0), ("DISABLED", 0.0), ("N/A", Absent.NOT_REPORTED), (None, None)]
)
def test_error_correction_is_on_when_the_memory_controller_is_watched(
    state: str | None, expected: Value | None
) -> None:
    blocks = {"GFX": "ENABLED"} | ({} if state is None else {"UMC": state})
    report = report_of({"gpu_data": [{"gpu": 0, "ras": {"ecc_block_state": blocks}}]})
    assert readings(report).get("ecc_enabled") == expected
    csv = f"gpu,ecc_block_state_UMC,ecc_block_state_GFX\n0,{state},ENABLED\n"
    assert state is None or readings(report_on(csv)) == {"ecc_enabled": expected}


def test_static_facts_of_7() -> None:
    card = {
        "gpu": 0, "ifwi": {"part_number": "113-X", "version": "022.1"}, "numa": {"node": 4294967295, "affinity": -1},
        "memory_partition_caps": "NPS1,NPS4", "current_memory_partition": "NPS4",
    }  # fmt: skip
    report = report_of({"memory_partition": [card]})
    assert dict(the_device(report).facts) == {"firmware": "113-X", "memory_partition": "NPS4"}
    assert report.unknown_fields == ()


def test_who_a_card_is_stands_in_csv_under_names_of_its_own() -> None:
    report = report_on(f"gpu,gpu_bdf,gpu_uuid,kfd_id,node_id,partition_id\n0,{ADDRESSES[0]},72ff-01,4242,3,0\n")
    device = the_device(report)
    assert (device.bus_id, device.uuid, dict(device.facts)) == (ADDRESSES[0], "72ff-01", {"kfd_node": "3"})
    assert report.unknown_fields == ()
    columns = (
        "gpu,market_name,device_id,asic_serial,target_graphics_version,part_number,product_serial,memory_partition"
    )
    device = the_device(report_on(f"{columns}\n0,AMD Instinct,0x74a1,0x8F,gfx942,113-X,6924,NPS1\n"))
    assert (device.model, device.serial) == ("AMD Instinct", "6924")
    assert dict(device.facts) == {
        "chip_id": "0x74a1",
        "asic_serial": "0x8F",
        "gfx_version": "gfx942",
        "firmware": "113-X",
        "memory_partition": "NPS1",
    }


@pytest.mark.parametrize(
    ("columns", "row", "expected"),
    [
        ("gpu,process_info", "0,No running processes detected", {"processes": 0.0}),
        ("gpu,pid,name,process_info", "0,N/A,N/A,No running processes detected", {"processes": 0.0}),
        ("gpu,pid,name,process_info", "0,4242,python3,N/A", {"processes": Absent.NOT_REPORTED}),
        ("gpu,retired,pending", "0,No bad pages found.,N/A", {
            "retired_pages.all": 0.0, "retired_pages_pending": Absent.NOT_REPORTED,
        }),
        ("gpu,retired,pending", "0,\"[{'page_address': 1, 'page_size': 2}, {'page_address': 3, 'page_size': 2}]\",No bad pages found.", {
            "retired_pages.all": 2.0, "retired_pages_pending": 0.0,
        }),
        ("gpu,link_status", "0,\"['U', 'D']\"", {"link_up.0": 1.0, "link_up.1": 0.0}),
        ("gpu,low_utilization_violation_status_xcp_0,low_utilization_violation_status_xcp_1",
         "0,\"['NOT ACTIVE', 'N/A']\",['ACTIVE']", {"throttled.low_utilization": 1.0}),
        ("gpu,vcn_busy_xcp_0,vcn_busy_xcp_1,gfx_busy_inst_xcp_0", "0,\"[4, 'N/A']\",[6],[99]", {"engine_utilization_ratio.vcn": 0.06}),
        ("gpu,socket_power,dclk_0_clk,point_0_voltage,ppt_accumulated,uclk_aid,low_utilization_violation_activity_xcp_0",
         "0,90,22,N/A,5,N/A,[7]", {"power_watts": 90.0}),
        ("gpu,bdf,0000:22:00.0", "GPU0,0000:0c:00.0,U", {}),
    ],
)  # fmt: skip
def test_columns_that_have_lost_their_sections(columns: str, row: str, expected: Readings) -> None:
    report = report_on(f"{columns}\n{row}\n")
    assert the_device(report).index == 0
    assert readings(report) == expected
    assert report.problems == ()


def test_a_process_table_without_a_process_says_so_for_its_card() -> None:
    table = (
        "GPU  POWER\n  0   90 W\n  1   91 W\n\nPROCESS INFO:\nGPU     NAME   PID  GTT_MEM  CPU_MEM  VRAM_MEM  MEM_USG\n"
        "  0  python3  4242   2.0 MB    0.0 B    117 MB   119 MB\n  1      N/A   N/A      N/A      N/A       N/A      N/A\n"
    )
    report = report_on(table)
    assert [readings(report, device)["processes"] for device in range(2)] == [Absent.NOT_REPORTED, 0.0]
    assert [process.pid for process in report.processes] == [4242]
    assert report.problems == ()


@pytest.mark.parametrize(
    "title",
    [
        "HOPS TABLE:", "LINK TYPE TABLE:", "NUMA BW TABLE:", "BI-DIRECTIONAL TABLE:", "GPU LINK PORT STATUS:",
        "XGMI LINK STATUS:", "MEMORY_PARTITION:", "ACCELERATOR_PARTITION_PROFILES:",
    ],
)  # fmt: skip
def test_every_table_that_is_not_read_says_what_to_ask_instead(title: str) -> None:
    report = report_on(f"\n{title}\n       a            b\n0      c            d\n")
    assert report.outcome == "wrong_request"
    assert "--json" in report.problems[0].text


def test_of_two_lists_of_processes_in_one_text_the_later_counts_as_a_whole() -> None:
    first = {"process_info": {"pid": 11, "memory_usage": {"vram_mem": {"value": 5, "unit": "GB"}}}}
    second = {"process_info": {"pid": 12, "vram": "1.0 GB"}}
    text = "".join(json.dumps([{"gpu": 0, "process_list": [item]}]) + "\n" for item in (first, second))
    assert [(process.pid, process.memory_used_bytes) for process in report_on(text).processes] == [(12, 2.0**30)]


def test_a_row_of_the_overviews_processes_that_is_not_understood_leaves_their_number_open() -> None:
    box = (
        "+---+\n| BDF          GPU-Name | Mem-Uti Temp UEC Power-Usage |\n| GPU HIP-ID OAM-ID Partition-Mode | GFX-Uti Fan Mem-Usage |\n"
        "|=====+=====|\n| 0000:0c:00.0 AMD Instinct | 3 % 43 °C 0 140/750 W |\n| 0 0 7 SPX/NPS1 | 5 % N/A 283/1000 MB |\n+---+\n"
        "| Processes: |\n| GPU  PID  Process Name  GTT_MEM  VRAM_MEM  MEM_USAGE |\n|=====|\n| 0  41  a b  1 MB  2 MB  3 MB |\n{}+---+\n"
    )
    assert readings(report_on(box.format("")))["processes"] == 1.0
    assert readings(report_on(box.format("| 0  42  c  5 MB |\n")))["processes"] == Absent.NOT_UNDERSTOOD
    card = report_on(box.format("| 0  0  7  SPX/NPS1 | 5 %  N/A  283/1000 MB |\n"))
    assert [process.pid for process in card.processes] == [41]
    assert readings(card)["processes"] == Absent.NOT_UNDERSTOOD


def test_an_overview_without_its_box_of_processes_lacks_something() -> None:
    text = text_of("amd-smi", "overview")
    report = report_on(text[: text.index("| Processes:")])
    assert len(report.devices) == 3
    assert "processes" in report.problems[-1].text
    assert not report.is_cut


def test_a_driver_that_the_overview_cuts_off_is_not_told() -> None:
    head = "+---+\n| AMD-SMI            26.4 |\n| amdgpu Version:    {} |\n"
    body = (
        "| BDF          GPU-Name | Mem-Uti Temp UEC Power-Usage |\n| GPU HIP-ID OAM-ID Partition-Mode | GFX-Uti Fan Mem-Usage |\n|=====+=====|\n"
        "| 0000:0c:00.0 AMD Instinct | 3 % 43 °C 0 140/750 W |\n| 0 0 7 SPX/NPS1 | 5 % N/A 283/1000 MB |\n+---+\n"
    )
    assert the_device(report_on(head.format("6.16.6-2190") + body)).driver == "6.16.6-2190"
    assert the_device(report_on(head.format("6.16.6-2190-gabc...") + body)).driver is None


def test_tabs_of_eight_keep_what_stands_below_what() -> None:
    section = "GPU: 0\n    USAGE:\n        GFX_ACTIVITY: 5 %\n    CLOCK:\n        MEM_0:\n            CLK: 900 MHz\n    TEMPERATURE:\n        MEM: 38 °C\n\n"
    expected = {"utilization_ratio": 0.05, "clock_hertz.memory": 900e6, "temperature_celsius.memory": 38.0}
    assert readings(report_on(section)) == expected
    assert readings(report_on(section.replace(" " * 8, "\t"))) == expected
