"""Which devices rocm-smi's cards are: names, dies, partitions, whether they answer."""

from __future__ import annotations

import pytest

from kits.captures import text_capture
from kits.parsed.rocm_smi import json_of, problems, readings, report_of, report_on, the_device
from telemetry_parsers.vendors.hygon import hy_smi

NAME = "Card Series"
BUS = "PCI Bus"
UUID = "Unique ID"


@pytest.mark.parametrize(
    ("card", "attribute", "expected"),
    [
        ({NAME: "Instinct MI210"}, "model", "Instinct MI210"),
        ({"Card series": "Instinct MI210", "Card model": "0x0c34"}, "model", "Instinct MI210"),
        ({"Device Name": "Aqua Vanjaram [Instinct MI300A]"}, "model", "Aqua Vanjaram [Instinct MI300A]"),
        ({"Card series": "0x1002", "Card model": "0x1002"}, "model", None),
        ({NAME: "N/A", "Card Model": "Radeon Pro VII"}, "model", "Radeon Pro VII"),
        ({NAME: "", "Card Model": "-0x7fe3"}, "model", None),
        ({UUID: "0x79ccd55167a2124a"}, "uuid", "0x79ccd55167a2124a"),
        ({UUID: "N/A"}, "uuid", None),
        ({BUS: "0000:C9:00.0"}, "bus_id", "0000:c9:00.0"),
        ({BUS: "00000001:C9:00.0"}, "bus_id", "0001:c9:00.0"),
        ({BUS: "None"}, "bus_id", None),
        ({"Serial Number": "PCB052715-0065"}, "serial", "PCB052715-0065"),
        ({"Serial Number": "0"}, "serial", None),
        ({"Serial Number": "N/A"}, "serial", None),
    ],
)
def test_identity_is_as_printed(card: dict[str, str], attribute: str, expected: str | None) -> None:
    assert getattr(the_device(report_of(card)), attribute) == expected


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("GPU ID", "0x740F", {"chip_id": "0x740f"}),
        ("Device ID", "74a0", {"chip_id": "0x74a0"}),
        ("VBIOS version", "113-D65209-073", {"firmware": "113-D65209-073"}),
        ("GFX Version", "gfx942", {"gfx_version": "gfx942"}),
        ("Node ID", "4", {"kfd_node": "4"}),
        ("GUID", "60294", {"gpu_id": "60294"}),
        ("(Topology) Numa Node", "1", {"numa_node": "1"}),
        ("(Topology) Numa Node", "-1", {}),
        ("(Topology) Numa Node", "4294967295", {}),
        ("Compute Partition", "CPX", {"compute_partition": "CPX"}),
        ("Memory Partition", "NPS4", {"memory_partition": "NPS4"}),
    ],
)
def test_slow_facts(key: str, text: str, expected: dict[str, str]) -> None:
    assert dict(the_device(report_of({key: text})).facts) == expected


def test_the_driver_is_every_cards_and_a_fact_of_the_report() -> None:
    report = report_of({BUS: "0000:03:00.0"}, {}, system={"Driver version": "6.10.5"})
    assert [device.driver for device in report.devices] == ["6.10.5", "6.10.5"]
    assert report.facts == (("driver_version", "6.10.5"),)


def test_the_number_of_a_card_is_the_printed_one() -> None:
    text = '{"card5": {"GPU use (%)": "5"}, "card12": {"GPU use (%)": "12"}}'
    assert [device.index for device in report_on(text).devices] == [5, 12]


def test_both_kinds_of_power_stand_apart_and_the_instantaneous_one_is_the_main_figure() -> None:
    average, instant = "Average Graphics Package Power (W)", "Current Socket Graphics Package Power (W)"
    report = report_of({average: "80.0", instant: "93.0"}, {average: "70.0"}, {instant: "N/A", average: "60.0"})
    assert [readings(report, device)["power_watts"] for device in range(3)] == [93.0, 70.0, 60.0]
    assert readings(report)["power_average_watts"] == 80.0
    assert [dict(device.facts)["power_kind"] for device in report.devices] == ["instant", "average", "average"]


DIE = {"Average Graphics Package Power (W)": "N/A (Secondary die)", "Temperature (Sensor edge) (C)": "41.0"}
WHOLE = {"Average Graphics Package Power (W)": "309.0", "Temperature (Sensor edge) (C)": "43.0"}


def test_the_power_of_a_package_is_told_once_and_the_other_die_says_by_whom() -> None:
    report = report_of(
        {UUID: "0xabcd01", BUS: "0000:29:00.0", **WHOLE, "Accumulated Energy (uJ)": "5000000.0"},
        {UUID: "0xabcd01", BUS: "0000:2C:00.0", **DIE, "Accumulated Energy (uJ)": "0.0"},
    )
    first, second = report.devices
    assert (dict(first.facts).get("primary_die"), dict(second.facts)["primary_die"]) == (None, "0000:29:00.0")
    # Each die is a device of its own on the bus, so that it is nobody's partition.
    assert (second.parent, second.partition, second.up) == (None, None, True)
    assert readings(report)["energy_joules_total"] == 5.0
    assert {readings(report, 1)[metric] for metric in ("power_watts", "power_average_watts")} == {"not_reported"}
    assert readings(report, 1)["energy_joules_total"] == "not_supported"


@pytest.mark.parametrize(
    "others",
    [[], [{UUID: "0xabcd02", **WHOLE}], [{UUID: "0xabcd01", **WHOLE}, {UUID: "0xabcd01", **WHOLE}]],
)
def test_a_second_die_without_one_other_die_names_none(others: list[dict[str, str]]) -> None:
    report = report_of({UUID: "0xabcd01", **DIE}, *others)
    assert "primary_die" not in dict(report.devices[0].facts)


def partitions(text: str) -> list[tuple[str | None, int | None]]:
    return [(device.partition, device.parent) for device in report_on(text).devices]


def test_functions_of_one_slot_with_one_unique_id_are_partitions() -> None:
    def card(function: int, slot: str = "05", uuid: str = "0xfeed01") -> dict[str, str]:
        return {UUID: uuid, BUS: f"0000:{slot}:00.{function}"}

    assert partitions(json_of(card(0), card(1), card(2), card(0, "26", "0xfeed02"))) == [
        (None, None),
        ("1", 0),
        ("2", 0),
        (None, None),
    ]
    # Two dies have one id, but a slot each; without the card itself nobody owns the rest; an address is one device's.
    for cards in ([card(0), card(0, "06")], [card(1), card(2)], [card(0), card(1), card(1)]):
        assert partitions(json_of(*cards)) == [(None, None)] * len(cards)


def rows(*cells: tuple[str, str]) -> str:
    heading = "Device  Node  IDs              Temp        Power     Partitions          SCLK    Fan\n"
    sub = "              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)\n"
    lines = (
        f"{number}       2     {chip},   28851  45.0°C      138.0W    NPS1, CPX, {part}        122Mhz  0%\n"
        for number, (chip, part) in enumerate(cells)
    )
    return heading + sub + "=" * 60 + "\n" + "".join(lines) + "=" * 60 + "\n"


def test_printed_partitions_belong_to_the_partition_0_before_them() -> None:
    chip = "0x74a1"
    assert partitions(rows((chip, "0"), (chip, "1"), ("N/A", "2"), (chip, "0"), (chip, "1"))) == [
        (None, None),
        ("1", 0),
        ("2", 0),
        (None, None),
        ("1", 3),
    ]
    assert partitions(rows((chip, "1"), ("0x73bf", "0"), (chip, "1"))) == [("1", None), (None, None), ("1", None)]


DEAD = {"Temperature (Sensor edge) (C)": "N/A", "GPU use (%)": "N/A", "Average Graphics Package Power (W)": "N/A"}


def test_a_card_that_shows_nothing_is_down_and_the_next_one_is_not() -> None:
    report = report_of({**DEAD, "Card Series": "Instinct MI210"}, {**DEAD, "GPU use (%)": "0"})
    assert [device.up for device in report.devices] == [False, True]
    assert len(problems(report)) == 1
    assert "does not answer" in problems(report)[0]


@pytest.mark.parametrize(
    "card",
    [
        {"Card Series": "Instinct MI210"},
        {"GPU use (%)": "N/A"},
        {"GPU use (%)": "Unsupported", "Average Graphics Package Power (W)": "N/A"},
        {"GPU use (%)": "lots", "Average Graphics Package Power (W)": "N/A"},
    ],
)
def test_a_card_that_was_not_asked_or_lacks_a_sensor_is_up(card: dict[str, str]) -> None:
    assert the_device(report_of(card)).up


@pytest.mark.parametrize(
    "notice",
    [
        "WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status",
        "AMD GPUs visible, but data is inaccessible. Check power control/runtime_status",
    ],
)
def test_the_tools_own_reason_stands_beside_a_card_that_is_down(notice: str) -> None:
    assert any(notice in text for text in problems(report_on(f"{notice}\n{json_of(DEAD)}")))
    assert any(notice in text for text in problems(report_on(json_of(DEAD), stderr=notice + "\n")))
    healthy = json_of({**DEAD, "GPU use (%)": "3"})
    assert problems(report_on(f"{notice}\n{healthy}")) == []


def test_a_key_that_the_tool_is_not_known_to_print_is_an_unknown_field() -> None:
    text = '{"card0": {"HCU use (%)": "0.0", "PCIe Replay Count": "4"}}\n'
    report = hy_smi.PARSER.parse(text_capture(hy_smi.PARSER, text))
    assert report.unknown_fields == ("PCIe Replay Count",)
    assert readings(report) == {"utilization_ratio": 0.0}


@pytest.mark.parametrize("chip", ["0x6210", "0x6211", "0x6320", "0x6370", "0x6430"])
def test_a_card_is_hygons_by_its_chip_where_it_names_no_vendor(chip: str) -> None:
    text = json_of({"Device ID": chip, "GPU use (%)": "3"})
    assert [device.vendor for device in hy_smi.PARSER.parse(text_capture(hy_smi.PARSER, text)).devices] == ["hygon"]
    assert report_on(text).outcome == "not_mine"


def test_a_process_that_is_listed_twice_is_counted_once() -> None:
    once = "PID: 71\n\tHCU Index: ['1'] \n\tVRAM USED(MiB): 3\n\n========\n"
    report = hy_smi.PARSER.parse(text_capture(hy_smi.PARSER, once + once.replace("3", "4") + "= End of SMI Log =\n"))
    assert readings(report) == {"processes": 1.0}
    assert [process.memory_used_bytes for process in report.processes] == [3.0 * 2**20]
    assert problems(report) == ["PID 71: the process is listed a second time; the first is kept"]
