"""Chips of cards: told apart and joined by card and chip where neither index nor address says it."""

from __future__ import annotations

import pytest

from merge.reports import Node, card, numbers, reported
from telemetry_parsers.combining import combine_reports
from telemetry_parsers.model import Device, Report


def chip(card_id: str, number: str | None = None, index: int | None = None, bus_id: str | None = None) -> Device:
    facts = (("card", card_id),) + ((("chip", number),) if number is not None else ())
    return card(index, vendor="ascend", bus_id=bus_id, facts=facts)


# Two cards with two dies each, whose indices are physical ids.
DIES = [
    chip("0", "0", 0, "0000:9d:00.0"),
    chip("0", "1", 1, "0000:9f:00.0"),
    chip("1", "0", 2, "0000:99:00.0"),
    chip("1", "1", 3, "0000:9b:00.0"),
]


def listed(devices, **more):
    return reported("npu-smi", [(device, {"power_watts": 10.0 + at}) for at, device in enumerate(devices)], **more)


def test_an_answer_by_card_and_chip_is_joined_by_them_and_not_by_its_index() -> None:
    usages = reported(
        "npu-smi",
        [(chip("1", "0", 1), {"memory_bandwidth_ratio": 0.5}), (chip("1", "1", 1), {"memory_bandwidth_ratio": 0.7})],
        poll="usages",
        lists_devices=False,
    )
    devices = Node().see(listed(DIES), usages).devices
    assert [numbers(device).get("memory_bandwidth_ratio") for device in devices] == [None, None, 0.5, 0.7]


def test_a_report_that_names_a_card_which_the_list_lacks_says_nothing() -> None:
    """A list that has changed since may number its cards anew."""
    cards = [chip("0", "0", 0), chip("1", "0", 1)]
    usages = reported("npu-smi", [(chip("1", "0", 1), {"fan_ratio": 0.5})], poll="usages", lists_devices=False)
    assert numbers(Node().see(listed(cards), usages).devices[1])["fan_ratio"] == 0.5
    assert "fan_ratio" not in numbers(Node().see(listed(cards[:1]), usages).devices[0])


@pytest.mark.parametrize(
    ("list_of", "joined"), [([chip("5", "0", 5)], True), ([chip("5", "0", 5), chip("5", "1", 5)], False)]
)
def test_an_answer_for_the_whole_card_is_its_only_chips(list_of: list[Device], joined: bool) -> None:
    board = reported("npu-smi", [(chip("5", None, 5), {"fan_ratio": 0.5})], poll="board", lists_devices=False)
    devices = Node().see(listed(list_of), board).devices
    assert any("fan_ratio" in numbers(device) for device in devices) is joined


def test_chips_that_share_their_cards_index_keep_names_of_their_own() -> None:
    node = Node()
    chips = [chip("2", "0", 2), chip("2", "1", 2), chip("4", "0", 4)]
    named = [(device.id, device.device) for device in node.see(listed(chips)).devices]
    assert named == [("ascend:2/0", "2:0"), ("ascend:2/1", "2:1"), ("ascend:4", "4")]
    again = node.see(listed(chips[1:], taken=1.0), now=1.0).devices
    assert {device.id: device.up for device in again} == {"ascend:2/0": False, "ascend:2/1": True, "ascend:4": True}


def test_chips_with_addresses_are_called_by_them() -> None:
    chips = [chip("2", "0", 2, "0000:3b:00.0"), chip("2", "1", 2, "0000:3c:00.0")]
    named = [(device.id, device.device) for device in Node().see(listed(chips)).devices]
    assert named == [("0000:3b:00.0", "2:0"), ("0000:3c:00.0", "2:1")]


def test_a_device_of_which_nothing_is_known_is_shown_once_and_under_one_name() -> None:
    node = Node()
    for now in (0.0, 1.0):
        merged = node.see(reported("tool", [(card(None), {"power_watts": 1.0})], taken=now), now=now)
        assert [(device.id, device.index) for device in merged.devices] == [("nvidia:unnumbered", None)]


def test_outputs_of_two_chips_in_one_place_that_contradict_each_other_are_two_devices() -> None:
    reports = [Report(devices=(chip("0", "0", 0, f"0000:0{bus}:00.0"),)) for bus in (1, 2)]
    assert len(combine_reports(reports).devices) == 2
