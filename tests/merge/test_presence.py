"""Whether a device is present, lost, or unknown."""

from dataclasses import replace
from itertools import count

import pytest

from merge.reports import Node, card, reported
from telemetry_parsers.merge.merge_state import MergeState

BUS0, BUS1 = "0000:33:00.0", "0000:53:00.0"
DAY = 24 * 3600.0


def both(**more):
    return reported(
        "tool", [(card(0, bus_id=BUS0), {"power_watts": 5.0}), (card(1, bus_id=BUS1), {"power_watts": 6.0})], **more
    )


def first_only(**more):
    return reported("tool", [(card(0, bus_id=BUS0), {"power_watts": 5.0})], **more)


def ups(merged):
    return {device.bus_id: device.up for device in merged.devices}


def test_card_is_lost_and_returns():
    node = Node()
    node.see(both())
    lost = node.see(first_only(taken=2.0), now=2.0)
    assert ups(lost) == {BUS0: True, BUS1: False}
    assert [(event.id, event.kind) for event in lost.events] == [(BUS1, "lost")]
    assert lost.devices[1].readings == ()
    again = node.see(first_only(taken=4.0), now=4.0)
    assert (ups(again), again.events) == ({BUS0: True, BUS1: False}, ())
    back = node.see(both(taken=6.0), now=6.0)
    assert ups(back) == {BUS0: True, BUS1: True}
    assert [(event.id, event.kind) for event in back.events] == [(BUS1, "returned")]


def test_cut_list_loses_no_card():
    node = Node()
    node.see(both())
    whole = first_only(taken=2.0)
    cut = replace(whole, report=replace(whole.report, is_cut=True))
    assert ups(node.see(cut, now=2.0)) == {BUS0: True}
    assert ups(node.see(first_only(taken=4.0), now=4.0)) == {BUS0: True, BUS1: False}


def test_source_that_never_listed_a_card_does_not_lose_it():
    node = Node()
    node.see(reported("a", [(card(0, bus_id=BUS0), {})]), reported("b", [(card(0, bus_id=BUS1), {})]))
    assert ups(node.see(reported("b", [(card(0, bus_id=BUS1), {})], taken=1.0))) == {BUS1: True}


def test_card_listed_by_one_of_two_sources_is_up():
    node = Node()
    device = card(0, bus_id=BUS0)
    node.see(reported("a", [(device, {})]), reported("b", [(device, {})]))
    assert ups(node.see(reported("a", []), reported("b", [(device, {})]))) == {BUS0: True}


def test_lost_over_a_restart_and_forgotten_after_a_week():
    """A lost device stays at 0 over a restart, also while its source fails, and for seven days."""
    node = Node()
    node.see(both())
    node.see(first_only(taken=2.0), now=2.0, wall=0.0)
    restarted = Node(MergeState(identities=node.state.identities))
    assert ups(restarted.see(wall=1.0)) == {BUS1: False}
    assert ups(restarted.see(first_only(), wall=7 * DAY - 1)) == {BUS0: True, BUS1: False}
    assert ups(restarted.see(first_only(), wall=7 * DAY)) == {BUS0: True}


def test_a_partition_that_goes_while_its_parent_stays_is_removed():
    """Repartitioning is no loss: the series of the partition end at once, with an event."""
    node = Node()
    whole = card(0, uuid="GPU-aaaa-1111", bus_id=BUS0)
    part = card(None, uuid="MIG-bbbb-2222", bus_id=BUS0, partition="1", parent=0)
    node.see(reported("nvml", [(whole, {}), (part, {})]))
    merged = node.see(reported("nvml", [(whole, {})], taken=1.0))
    assert [device.id for device in merged.devices] == ["GPU-aaaa-1111"]
    assert [(event.id, event.kind) for event in merged.events] == [("MIG-bbbb-2222", "removed")]


def test_a_card_that_returns_without_its_partitions():
    node = Node()
    whole = card(0, uuid="GPU-aaaa-1111", bus_id=BUS0)
    part = card(None, uuid="MIG-bbbb-2222", bus_id=BUS0, partition="1", parent=0)
    node.see(reported("nvml", [(whole, {}), (part, {})]))
    lost = node.see(reported("nvml", [], taken=1.0))
    assert {device.id: device.up for device in lost.devices} == {"GPU-aaaa-1111": False, "MIG-bbbb-2222": False}
    back = node.see(reported("nvml", [(whole, {})], taken=2.0))
    assert {device.id: device.up for device in back.devices} == {"GPU-aaaa-1111": True}


def test_card_that_does_not_answer_is_down():
    """A listed card that does not answer its tool has `up` 0 and no readings."""
    merged = Node().see(reported("tool", [(card(0, bus_id=BUS0, up=False), {"power_watts": 5.0})]))
    assert [(device.up, device.readings) for device in merged.devices] == [(False, ())]


def numbered(**more):
    return reported("tool", [(card(0), {"fan_ratio": 0.1}), (card(1), {"fan_ratio": 0.2})], poll="metric", **more)


def restarted_after(*reports):
    node = Node()
    node.see(*reports)
    return Node(MergeState(identities=node.state.identities))


def test_no_card_is_lost_before_the_first_inventory():
    node = restarted_after(both())
    assert (ups(node.see(first_only(), pending=["nvidia"])), node.merged.events) == ({BUS0: True}, ())
    assert ups(node.see(first_only())) == {BUS0: True, BUS1: False}


def test_list_of_indices_loses_no_device_known_by_address():
    """After a start it is unknown to which cards the indices belong, so the list loses no device."""
    node = restarted_after(both())
    assert (ups(node.see(numbered(), pending=["nvidia"])), node.merged.events) == ({}, ())
    merged = node.see(numbered())
    assert [device.id for device in merged.devices if device.up is False] == []
    assert [event.kind for event in merged.events] == ["appeared", "appeared"]


def test_device_is_not_lost_when_its_address_is_first_reported():
    """A slow inventory comes after the devices were shown by their numbers."""
    node = restarted_after(both())
    node.see(numbered())
    merged = node.see(numbered(), both(taken=1.0), now=1.0)
    assert ups(merged) == {BUS0: True, BUS1: True}
    assert {(event.id, event.kind) for event in merged.events} == {("nvidia:0", "removed"), ("nvidia:1", "removed")}


def test_a_device_with_two_names_is_lost_once():
    node = restarted_after(both())
    node.see(numbered())
    merged = node.see(first_only(taken=1.0), now=1.0)
    assert {device.id: device.up for device in merged.devices} == {BUS0: True, BUS1: False}


def test_a_device_that_has_no_other_name_than_its_number_is_lost_by_it():
    node = Node()
    node.see(numbered())
    merged = node.see(first_only(taken=1.0), now=1.0)
    assert {device.id: device.up for device in merged.devices} == {"nvidia:0": True, "nvidia:1": False}


def chips(*facts):
    return [
        (card(number, "huawei", bus_id="0000:0C:00.0", facts=card_facts), {"power_watts": 5.0})
        for number, card_facts in facts
    ]


@pytest.mark.parametrize(
    "pair",
    [
        pytest.param(chips((0, ()), (1, ())), id="by their numbers"),
        pytest.param(
            chips((8, (("card", "8"), ("chip", "0"))), (8, (("card", "8"), ("chip", "1")))), id="by their places"
        ),
    ],
)
def test_chips_with_one_address_are_distinguished(pair):
    """On the 310P Duo npu-smi prints one address for both chips; the remaining chip must not replace the lost one."""
    node, times = Node(), count()

    def up_after(*listed):
        merged = node.see(reported("npu-smi", listed, taken=float(next(times))))
        return {device.id: device.up for device in merged.devices}

    first, second = up_after(*pair)
    assert up_after(*pair) == {first: True, second: True}
    assert up_after(pair[1]) == {first: False, second: True}
    assert up_after(*pair) == {first: True, second: True}
    assert up_after() == {first: False, second: False}
    assert up_after(pair[1]) == {first: False, second: True}  # its return does not take the other's loss along
    assert up_after(pair[0]) == {first: True, second: False}
