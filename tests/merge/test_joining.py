"""One device is one device, however many sources see it."""

from __future__ import annotations

import pytest

from merge.reports import Node, card, numbers, reported

BUS0, BUS1 = "0000:33:00.0", "0000:53:00.0"
UUID0, UUID1 = "GPU-399282a8-ba01-1475-893c-2eeca9e302f5", "GPU-5ebdeb63-ba7a-5904-4f16-495b3e1de6c8"


@pytest.mark.parametrize(
    ("first", "second", "devices"),
    [
        pytest.param(card(0, bus_id=BUS0), card(7, bus_id=BUS0), 1, id="one bus address, other indices"),
        pytest.param(card(0, bus_id=BUS0), card(0, bus_id=BUS1), 2, id="same index, two bus addresses"),
        pytest.param(card(0, uuid=UUID0), card(3, uuid=UUID0.lower()), 1, id="one uuid, other spelling"),
        pytest.param(card(0, uuid=UUID0, bus_id=BUS0), card(0, uuid=UUID0), 1, id="uuid where one has no bus"),
        pytest.param(card(0, uuid=UUID0, bus_id=BUS0), card(0, uuid=UUID0, bus_id=BUS1), 2, id="bus before uuid"),
        pytest.param(card(0, bus_id=BUS0), card(0, vendor="amd", bus_id=BUS0), 2, id="never across vendors"),
        pytest.param(card(0, bus_id=BUS0), card(0, bus_id="33:00.0"), 1, id="no domain, one candidate"),
        pytest.param(
            card(0, bus_id=BUS0, partition="0"), card(0, bus_id=BUS0, partition="1"), 2, id="two partitions of a card"
        ),
    ],
)
def test_two_sources_of_one_device(first, second, devices):
    """Two sources' devices are joined by what names a device of the node, and by nothing else."""
    merged = Node().see(reported("a", [(first, {})], space="a"), reported("b", [(second, {})], space="b"))
    assert len(merged.devices) == devices


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(card(0, uuid="GPU-XX"), card(0, uuid="GPU-XX"), id="a placeholder is no uuid"),
        pytest.param(card(0, serial="S1"), card(0, serial="S1"), id="never by serial"),
        pytest.param(card(0), card(0), id="never by the indices of two tools"),
    ],
)
def test_what_cannot_be_joined_and_not_told_apart(first, second):
    """Two sources whose devices nothing joins, and nothing tells apart: one is shown, the other is a problem."""
    merged = Node().see(
        reported("a", [(first, {"power_watts": 1.0})], space="a"),
        reported("b", [(second, {"fan_ratio": 0.5})], space="b"),
    )
    assert [numbers(device) for device in merged.devices] == [{"power_watts": 1.0}]
    assert [source for source, _ in merged.problems] == ["b"]


def test_index_joins_once_its_space_was_learnt():
    """A tool that prints only indices joins after another one told which index is which bus address."""
    node = Node()
    sysfs = reported("sysfs", [(card(None, bus_id=BUS0), {}), (card(None, bus_id=BUS1), {})], form="data")
    listing = reported("tool", [(card(0, bus_id=BUS1), {}), (card(1, bus_id=BUS0), {})], space="tool")
    node.see(sysfs, listing)
    table = reported("tool", [(card(0), {"power_watts": 50.0}), (card(1), {"power_watts": 60.0})], space="tool")
    merged = node.see(sysfs, table)
    assert {device.bus_id: numbers(device)["power_watts"] for device in merged.devices} == {BUS1: 50.0, BUS0: 60.0}


def _numbered(*fans, taken=0.0, space="tool"):
    """A tool's table: numbers and readings, no addresses."""
    return reported("tool", [(card(n), {"fan_ratio": fan}) for n, fan in enumerate(fans)], taken=taken, space=space)


def _identities(*devices, taken=0.0, space="tool"):
    """The tool's list of who they are, asked rarely."""
    return reported(
        "tool", [(device, {}) for device in devices], poll="identity", taken=taken, life=900, interval=300, space=space
    )


@pytest.mark.parametrize("space", ["tool", ""])
@pytest.mark.parametrize("who", [{"bus_id": (BUS0, BUS1)}, {"uuid": (UUID0, UUID1)}], ids=["by address", "by uuid"])
def test_a_failed_inventory_makes_no_other_devices_of_those_that_it_told(who, space):
    """The identity poll fails: the same numbers are still the same cards."""
    ((word, names),) = who.items()
    first, second = (card(n, **{word: name}) for n, name in enumerate(names))
    node = Node()
    before = node.see(_numbered(0.5, 0.6, space=space), _identities(first, second, space=space))
    after = node.see(_numbered(0.5, 0.7, taken=5.0, space=space), now=6.0)
    assert [device.id for device in after.devices] == [device.id for device in before.devices] == list(names)
    assert [numbers(device) for device in after.devices] == [{"fan_ratio": 0.5}, {"fan_ratio": 0.7}]
    assert after.events == ()


def test_a_tool_that_numbers_the_rest_anew_is_not_believed_before_it_said_who_they_are():
    """Card 0 of three is lost: the table's number 0 is the former number 1, and nobody may get its readings."""
    buses = [f"0000:{n}a:00.0" for n in range(3)]
    sysfs = reported("sysfs", [(card(None, bus_id=bus), {"power_watts": 100.0}) for bus in buses], form="data")
    node = Node()
    node.see(sysfs, _numbered(0.1, 0.2, 0.3), _identities(*(card(n, bus_id=bus) for n, bus in enumerate(buses))))
    left = reported(
        "sysfs", [(card(None, bus_id=bus), {"power_watts": 90.0}) for bus in buses[1:]], form="data", taken=5.0
    )
    merged = node.see(left, _numbered(0.2, 0.3, taken=5.0), now=6.0)
    assert [(d.bus_id, d.up, numbers(d)) for d in merged.devices] == [
        (buses[0], False, {}),
        (buses[1], True, {"power_watts": 90.0}),
        (buses[2], True, {"power_watts": 90.0}),
    ]
    assert [(source, problem.where) for source, problem in merged.problems] == [("tool", "list of devices")]
    anew = _identities(*(card(n, bus_id=bus) for n, bus in enumerate(buses[1:])), taken=6.0)
    merged = node.see(left, _numbered(0.2, 0.3, taken=5.0), anew, now=7.0)
    assert [numbers(d).get("fan_ratio") for d in merged.devices] == [None, 0.2, 0.3]
    assert merged.problems == ()


@pytest.mark.parametrize("between", [(0.9,), ()], ids=["one left", "none left"])
def test_the_same_numbers_after_others_are_not_believed_either(between):
    """A list with fewer cards came between: the cards that have the numbers now may be others than before."""
    who = [card(n, uuid=uuid) for n, uuid in enumerate((UUID0, UUID1))]
    node = Node()
    node.see(_numbered(0.1, 0.2), _identities(*who))
    node.see(_numbered(*between, taken=5.0), now=6.0)
    merged = node.see(_numbered(0.3, 0.4, taken=7.0), now=8.0)
    assert [numbers(device) for device in merged.devices if device.up] == []
    assert [(source, problem.where) for source, problem in merged.problems] == [("tool", "list of devices")]
    swapped = [card(n, uuid=uuid) for n, uuid in enumerate((UUID1, UUID0))]
    merged = node.see(_numbered(0.3, 0.4, taken=7.0), _identities(*swapped, taken=8.0), now=9.0)
    assert {device.id: numbers(device) for device in merged.devices} == {
        UUID1: {"fan_ratio": 0.3},
        UUID0: {"fan_ratio": 0.4},
    }


def test_whose_cards_nobody_can_tell_is_lost_is_not_said_of_any():
    """The only source has other numbers than before: which card it lacks is not known until it says who is who."""
    who = [card(n, uuid=uuid) for n, uuid in enumerate((UUID0, UUID1))]
    node = Node()
    node.see(_numbered(0.1, 0.2), _identities(*who))
    merged = node.see(_numbered(0.2, taken=5.0), _identities(*who), now=6.0)
    assert (merged.devices, merged.events) == ((), ())
    merged = node.see(_numbered(0.2, taken=5.0), _identities(card(0, uuid=UUID1), taken=6.0), now=7.0)
    assert [(d.id, d.up, numbers(d)) for d in merged.devices] == [(UUID0, False, {}), (UUID1, True, {"fan_ratio": 0.2})]


def test_no_domain_with_two_candidates_is_told_and_not_joined():
    """The same bus:device.function in two domains is ambiguous: no join, a problem."""
    sysfs = reported(
        "sysfs", [(card(None, bus_id="0000:33:00.0"), {}), (card(None, bus_id="0001:33:00.0"), {})], form="data"
    )
    merged = Node().see(sysfs, reported("tool", [(card(0, bus_id="33:00.0"), {})], form="text"))
    assert len(merged.devices) == 3
    assert [(source, "could be any of" in problem.text) for source, problem in merged.problems] == [("tool", True)]


def test_inventory_fills_what_the_fast_poll_does_not_say():
    """Facts of an older list of the same source stay with the devices of the newer one."""
    inventory = reported(
        "tool", [(card(0, uuid=UUID0, model="X"), {}), (card(1, uuid=UUID1, model="X"), {})], poll="inventory", life=900
    )
    fast = reported("tool", [(card(0), {"power_watts": 50.0}), (card(1), {"power_watts": 60.0})], taken=5.0)
    merged = Node().see(inventory, fast, now=6.0)
    assert [(d.uuid, d.model, numbers(d)["power_watts"]) for d in merged.devices] == [
        (UUID0, "X", 50.0),
        (UUID1, "X", 60.0),
    ]


def test_indices_that_shifted_are_not_matched():
    """After a card is lost the tool may number the rest anew: its old inventory then says nothing of index 0."""
    inventory = reported("tool", [(card(0, uuid=UUID0), {}), (card(1, uuid=UUID1), {})], poll="inventory", life=900)
    fast = reported("tool", [(card(0), {"power_watts": 60.0})], taken=5.0)
    merged = Node().see(inventory, fast, now=6.0)
    assert [device.uuid for device in merged.devices if device.up] == [None]


def test_readings_of_a_device_that_the_newest_list_lacks_are_dropped():
    """What a slower poll once read of a card that is gone now is not shown."""
    slow = reported(
        "tool",
        [(card(0, bus_id=BUS0), {"fan_ratio": 0.5}), (card(1, bus_id=BUS1), {"fan_ratio": 0.6})],
        poll="slow",
        life=180,
    )
    fast = reported("tool", [(card(0, bus_id=BUS0), {"power_watts": 50.0})], taken=5.0)
    node = Node()
    node.see(slow)
    merged = node.see(slow, fast, now=6.0)
    assert [(d.bus_id, d.up, numbers(d)) for d in merged.devices] == [
        (BUS0, True, {"power_watts": 50.0, "fan_ratio": 0.5}),
        (BUS1, False, {}),
    ]


def test_what_an_older_poll_saw_of_a_card_that_is_down_since_is_not_shown():
    """The newest list says that it is there, and that it does not answer."""
    slow = reported("tool", [(card(0, bus_id=BUS0), {"fan_ratio": 0.5})], poll="slow", life=180, lists_devices=False)
    fast = reported("tool", [(card(0, bus_id=BUS0, up=False), {})], taken=5.0)
    (device,) = Node().see(slow, fast, now=6.0).devices
    assert (device.up, numbers(device)) == (False, {})
