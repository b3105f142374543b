"""A garbled line adds no card: a new identity in place of a known device is accepted at its second report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merge.reports import Node, card, numbers, reported, values
from telemetry_parsers.merge.merge_state import MergeState
from telemetry_parsers.model import Device

BUS0, BUS1, BUS2 = "0000:33:00.0", "0000:53:00.0", "0000:73:00.0"
UUID0, UUID1, UUID2 = "GPU-399282a8-ba01", "GPU-5ebdeb63-ba7a", "GPU-77aa11bb-ba99"
GARBLED = "GPU-3?9282a8-ba01"
FIRST, SECOND = card(0, uuid=UUID0, bus_id=BUS0), card(1, uuid=UUID1, bus_id=BUS1)
WATTS = {"power_watts": 5.0}


class Lists:
    """A node with a single tool, which reports one list after another."""

    def __init__(self, state: MergeState | None = None) -> None:
        self.node = Node(state or MergeState())
        self.now = 0.0

    def see(self, *devices: Device, **more):
        self.now += 2.0
        return self.node.see(
            reported("tool", [(device, WATTS) for device in devices], taken=self.now, **more), now=self.now
        )

    def restarted(self) -> Lists:
        return Lists(MergeState(identities=self.node.state.identities))


def after_both() -> Lists:
    lists = Lists()
    lists.see(FIRST, SECOND)
    return lists


def ups(merged):
    return {device.id: device.up for device in merged.devices}


def happened(merged):
    return [(event.id, event.kind) for event in merged.events]


@pytest.mark.parametrize(
    "garbled",
    [
        pytest.param(card(0, uuid=GARBLED, bus_id=BUS0), id="the uuid"),
        pytest.param(card(0, uuid=GARBLED, bus_id="0000:3f:00.0"), id="uuid and address"),
        pytest.param(card(0, bus_id="0000:3f:00.0"), id="the address, without a uuid"),
        pytest.param(card(0, uuid=GARBLED), id="the uuid, without an address"),
        pytest.param(card(7, uuid=GARBLED, bus_id=BUS0), id="uuid and number"),
    ],
)
def test_garbled_list_adds_and_loses_no_card(garbled: Device) -> None:
    lists = Lists()
    before = ups(lists.see(FIRST, SECOND))
    merged = lists.see(garbled, SECOND)
    assert (ups(merged), merged.events) == (before, ())
    assert [numbers(device) for device in merged.devices] == [{}, WATTS]
    assert ["second report confirms" in problem.text for _, problem in merged.problems] == [True]
    merged = lists.see(FIRST, SECOND)
    assert (ups(merged), merged.events, merged.problems) == (before, (), ())
    assert [numbers(device) for device in merged.devices] == [WATTS, WATTS]


def test_garbled_index_leaves_nothing_behind() -> None:
    lists = Lists()
    lists.see(card(0), card(1))
    assert ups(lists.see(card(7), card(1))) == {"nvidia:0": False, "nvidia:1": True, "nvidia:7": True}
    assert ups(lists.see(card(0), card(1))) == {"nvidia:0": True, "nvidia:1": True}
    assert happened(lists.node.merged) == [("nvidia:0", "returned"), ("nvidia:7", "removed")]


def test_a_card_that_was_replaced_is_shown_at_the_second_list() -> None:
    lists = after_both()
    new = card(0, uuid=UUID2, bus_id=BUS0)
    assert ups(lists.see(new, SECOND)) == {UUID0: True, UUID1: True}
    merged = lists.see(new, SECOND)
    assert ups(merged) == {UUID0: False, UUID1: True, UUID2: True}
    assert set(happened(merged)) == {(UUID0, "lost"), (UUID2, "appeared")}


def test_second_source_confirms_a_change() -> None:
    node = Node()
    sources = ("nvml", "tool")
    node.see(*(reported(source, [(FIRST, WATTS)]) for source in sources))
    new = card(0, uuid=UUID2, bus_id=BUS0)
    merged = node.see(*(reported(source, [(new, WATTS)], taken=2.0) for source in sources), now=2.0)
    assert ups(merged) == {UUID0: False, UUID2: True}


def test_repeated_list_confirms_no_change() -> None:
    """Merging happens at every poll of every source, so the same report is merged more than once."""
    lists = Lists()
    lists.see(FIRST)
    report = reported("tool", [(card(0, uuid=UUID2, bus_id=BUS0), WATTS)], taken=4.0)
    for now in (4.0, 5.0, 6.0):
        assert ups(lists.node.see(report, now=now)) == {UUID0: True}


def test_readings_of_other_sources_are_kept_for_a_doubted_card() -> None:
    node = Node()
    files = reported("sysfs", [(card(None, bus_id=BUS0), {"fan_ratio": 0.5})], life=100.0)
    node.see(files, reported("tool", [(FIRST, WATTS)]))
    merged = node.see(files, reported("tool", [(card(0, uuid=GARBLED, bus_id=BUS0), WATTS)], taken=2.0), now=2.0)
    assert [(device.id, numbers(device)) for device in merged.devices] == [(UUID0, {"fan_ratio": 0.5})]


def test_a_garbled_inventory_does_not_blind_the_fast_polls_beside_it() -> None:
    """Uuids come every five minutes, numbers every two seconds: the numbers still belong to the known card."""
    node = Node()

    def inventory(*devices: Device, taken: float):
        return reported(
            "tool", [(device, {}) for device in devices], poll="inventory", taken=taken, life=900.0, interval=300.0
        )

    def fast(taken: float):
        return reported("tool", [(card(0), WATTS), (card(1), WATTS)], taken=taken)

    node.see(inventory(FIRST, SECOND, taken=0.0))
    node.see(inventory(FIRST, SECOND, taken=0.0), fast(2.0), now=2.0)
    bad = inventory(card(0, uuid=GARBLED, bus_id=BUS0), SECOND, taken=300.0)
    node.see(bad, now=300.0)
    for now in (301.0, 303.0):
        merged = node.see(bad, fast(now), now=now)
        assert [(device.id, numbers(device)) for device in merged.devices] == [(UUID0, WATTS), (UUID1, WATTS)]
        assert merged.events == ()


def test_a_tool_that_invents_a_uuid_at_each_poll_publishes_none() -> None:
    lists = after_both()
    for number in range(50):
        merged = lists.see(card(0, uuid=f"GPU-{number:08x}-aaaa", bus_id=BUS0), SECOND)
        assert (ups(merged), merged.events) == ({UUID0: True, UUID1: True}, ())
        assert numbers(merged.devices[1]) == WATTS
    assert len(lists.node.state.identities) == 2
    assert len(lists.node.state.witnesses) == 1


def test_a_card_in_a_new_slot_is_shown_at_once() -> None:
    """A hot-plugged card, also if the tool numbers by address and the new card gets another card's number."""
    lists = after_both()
    assert len(ups(lists.see(FIRST, SECOND, card(2, uuid=UUID2, bus_id=BUS2)))) == 3
    lists = Lists()
    lists.see(FIRST)
    merged = lists.see(card(0, uuid=UUID2, bus_id="0000:11:00.0"), card(1, uuid=UUID0, bus_id=BUS0))
    assert ups(merged) == {UUID0: True, UUID2: True}
    assert merged.problems == ()


def test_exchanged_cards_are_identified_by_uuid() -> None:
    lists = after_both()
    merged = lists.see(card(0, uuid=UUID1, bus_id=BUS0), card(1, uuid=UUID0, bus_id=BUS1))
    assert {device.id: device.bus_id for device in merged.devices} == {UUID0: BUS1, UUID1: BUS0}
    assert (merged.events, merged.problems) == ((), ())


def test_a_card_in_the_slot_of_a_lost_one_is_shown_at_once() -> None:
    lists = after_both()
    lists.see(SECOND)
    assert ups(lists.see(card(0, uuid=UUID2, bus_id=BUS0), SECOND)) == {UUID0: False, UUID1: True, UUID2: True}


def test_cards_are_shown_at_once_after_a_start() -> None:
    """A card may be replaced while the machine is off."""
    lists = after_both()
    merged = lists.restarted().see(card(0, uuid=UUID2, bus_id=BUS0), SECOND)
    assert ups(merged) == {UUID0: False, UUID1: True, UUID2: True}
    assert ups(Lists().see(FIRST)) == {UUID0: True}


@pytest.mark.parametrize("lists_of_it", [1, 2, 5])
def test_wrongly_published_card_goes_when_the_known_card_is_back(lists_of_it: int) -> None:
    lists = after_both()
    lists = lists.restarted()
    for _ in range(lists_of_it):
        merged = lists.see(card(0, uuid=GARBLED, bus_id=BUS0), SECOND)
    assert ups(merged) == {UUID0: False, GARBLED: True, UUID1: True}
    merged = lists.see(FIRST, SECOND)
    assert ups(merged) == {UUID0: True, UUID1: True}
    assert set(happened(merged)) == {(UUID0, "returned"), (GARBLED, "removed")}


def test_wrongly_published_card_goes_also_after_an_empty_slot() -> None:
    lists = after_both()
    lists = lists.restarted()
    lists.see(card(0, uuid=UUID2, bus_id=BUS0), SECOND)
    lists.see(SECOND)
    assert ups(lists.see(FIRST, SECOND)) == {UUID0: True, UUID1: True}


def test_returning_card_does_not_change_a_lost_card_elsewhere() -> None:
    lists = after_both()
    lists.see()
    assert ups(lists.see(FIRST)) == {UUID0: True, UUID1: False}
    assert ups(lists.see(card(0, uuid=UUID1, bus_id=BUS1))) == {UUID0: False, UUID1: True}


def test_partitions_come_and_go_at_once() -> None:
    """A new layout has different uuids at the same positions."""
    lists = Lists()

    def parts(*uuids: str) -> list[Device]:
        return [card(None, uuid=uuid, bus_id=BUS0, partition=str(n), parent=0) for n, uuid in enumerate(uuids)]

    lists.see(FIRST, *parts("MIG-aaaa-1111", "MIG-bbbb-2222"))
    assert ups(lists.see(FIRST, *parts("MIG-cccc-3333"))) == {UUID0: True, "MIG-cccc-3333": True}
    assert lists.node.merged.problems == ()


def test_partitions_of_a_doubted_card_keep_their_parent() -> None:
    lists = Lists()
    part = card(None, uuid="MIG-aaaa-1111", bus_id=BUS0, partition="0", parent=0)
    before = ups(lists.see(FIRST, part))
    merged = lists.see(card(0, uuid=GARBLED, bus_id=BUS0), part)
    assert (ups(merged), [device.parent for device in merged.devices]) == (before, [None, UUID0])


def test_index_still_means_the_known_card_after_a_doubt() -> None:
    lists = after_both()
    lists.see(card(0, uuid=GARBLED, bus_id=BUS0), SECOND)
    merged = lists.see(card(0), card(1))
    assert [(device.id, values(device)) for device in merged.devices] == [(UUID0, WATTS), (UUID1, WATTS)]


CARDS = tuple(card(n, uuid=f"GPU-{n}1b2c3d4-ba{n}1", bus_id=f"0000:{n + 3}3:00.0") for n in range(3))
GARBLES = st.sampled_from(["uuid", "bus_id", "index", "uuid and bus_id", "no uuid", "no bus_id", "none"])


def garble(device: Device, how: str, number: int) -> Device:
    """Return the device as a partly lost line describes it."""
    fresh = {
        "uuid": f"GPU-{number:x}?{number:x}-ba",
        "bus_id": f"0000:{number % 100 + 100:02x}:1f.0",
        "index": 40 + number,
    }
    for name in ("uuid", "bus_id", "index"):
        if name in how.split(" "):
            device = replace(device, **{name: None if how.startswith("no ") else fresh[name]})
    return device


@given(
    st.lists(st.one_of(st.just(()), st.lists(GARBLES, min_size=3, max_size=3).map(tuple)), max_size=8),
    st.integers(min_value=0, max_value=8),
)
def test_next_complete_list_undoes_any_bad_list(lists: list[tuple[str, ...]], start: int) -> None:
    """Bad lists alternate with complete ones. Lines may be missing, and the daemon restarts once."""
    tool = Lists()
    for _ in range(3):
        tool.see(*CARDS)
    before = ups(tool.node.merged)
    for number, how in enumerate(lists):
        if number == start:
            tool = tool.restarted()
        tool.see(*(garble(item, word, 3 * number + n) for n, (item, word) in enumerate(zip(CARDS, how, strict=False))))
        merged = tool.see(*CARDS)
        assert ups(merged) == before
        assert [numbers(device) for device in merged.devices] == [WATTS] * 3
