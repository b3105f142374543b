"""A device's id, device label and model are chosen once and kept."""

import pytest

from merge.reports import Node, card, reported
from telemetry_parsers.merge.merge_state import MergeState

BUS0, BUS1 = "0000:33:00.0", "0000:53:00.0"
UUID0, UUID1 = "GPU-399282a8-ba01", "GPU-5ebdeb63-ba7a"


def ids(merged):
    return [device.id for device in merged.devices]


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        pytest.param([card(0, uuid=UUID0, bus_id=BUS0)], [UUID0], id="the uuid"),
        pytest.param([card(0, uuid="0", bus_id=BUS0)], [BUS0], id="a placeholder uuid"),
        pytest.param(
            [card(0, uuid=UUID0, bus_id=BUS0), card(1, uuid=UUID0, bus_id=BUS1)], [BUS0, BUS1], id="two dies, one uuid"
        ),
        pytest.param([card(0), card(1)], ["nvidia:0", "nvidia:1"], id="nothing but an index"),
        pytest.param(
            [card(0, uuid=UUID0, bus_id=BUS0), card(1, uuid=UUID0, bus_id=BUS0, partition="1", parent=0)],
            [BUS0, f"{BUS0}/1"],
            id="a partition that shares the uuid",
        ),
        pytest.param(
            [card(0, uuid=UUID0, bus_id=BUS0), card(None, uuid="MIG-1234-5678", bus_id=BUS0, partition="1", parent=0)],
            [UUID0, "MIG-1234-5678"],
            id="a partition with a uuid of its own",
        ),
    ],
)
def test_id_is_uuid_or_address_or_vendor_and_index(devices, expected):
    """uuid if unique, else bus address, else vendor:index; partitions under their parent."""
    assert ids(Node().see(reported("nvml", [(device, {}) for device in devices]))) == expected


@pytest.mark.parametrize("addresses", [(BUS0, BUS1), (None, None)], ids=["with addresses", "with numbers alone"])
@pytest.mark.parametrize("order", [("own", "one"), ("one", "own")], ids=["later", "at first"])
def test_uuid_of_two_cards_loses_neither(addresses, order):
    uuids = {"own": (UUID0, UUID1), "one": (UUID0, UUID0)}
    node, seen = Node(), []
    for now, kind in enumerate(kind for kind in (*order, order[0]) for _ in range(4)):
        cards = [card(at, uuid=uuids[kind][at], bus_id=addresses[at]) for at in (0, 1)]
        listed = reported("nvml", [(device, {"power_watts": 10.0 + at}) for at, device in enumerate(cards)], taken=now)
        merged = node.see(listed, now=float(now))
        seen.append([(device.id, device.readings[0].value, device.up) for device in merged.devices])
        assert not merged.events or now == 0
    assert seen == [seen[0]] * len(seen)
    assert [power for _, power, _ in seen[0]] == [10.0, 11.0]


def test_partition_labels_and_parent():
    """A partition is `0:1` of device 0 and names its parent's id."""
    devices = [card(0, uuid=UUID0, bus_id=BUS0), card(5, bus_id=BUS0, partition="1", parent=0)]
    merged = Node().see(reported("nvml", [(device, {}) for device in devices]))
    assert [(d.device, d.parent) for d in merged.devices] == [("0", None), ("0:1", UUID0)]


def test_uuid_reported_later_does_not_change_the_id():
    """A uuid and model that are reported later are shown, but id, device and model labels stay."""
    node = Node()
    node.see(reported("tool", [(card(0, bus_id=BUS0), {})]))
    merged = node.see(reported("tool", [(card(0, bus_id=BUS0, uuid=UUID0, model="X100"), {})], taken=1.0), now=1.0)
    device = merged.devices[0]
    assert (device.id, device.model, device.uuid, device.current_model) == (BUS0, "", UUID0, "X100")


def test_bus_address_learnt_late():
    node = Node()
    node.see(reported("tool", [(card(0), {})]))
    assert ids(node.see(reported("tool", [(card(0, bus_id=BUS0), {})]))) == ["nvidia:0"]


def test_new_devices_wait_for_the_first_inventory():
    node = Node()
    report = reported("tool", [(card(0, bus_id=BUS0), {})])
    assert ids(node.see(report, pending=["nvidia"])) == []
    assert ids(node.see(report)) == [BUS0]
    assert ids(node.see(report, pending=["nvidia"])) == [BUS0]


def test_identity_survives_a_restart():
    """The same id and labels are used, although the indices have changed."""
    node = Node()
    before = node.see(reported("tool", [(card(0, uuid=UUID0), {}), (card(1, uuid=UUID1), {})]))
    restarted = Node(MergeState(identities=node.state.identities))
    after = restarted.see(reported("tool", [(card(0, uuid=UUID1), {}), (card(1, uuid=UUID0), {})]))
    assert [(d.id, d.device) for d in after.devices] == [(d.id, d.device) for d in before.devices]


def test_second_device_with_the_same_identity_is_left_out():
    merged = Node().see(reported("tool", [(card(0), {}), (card(0), {})]))
    assert ids(merged) == ["nvidia:0"]
    assert [source for source, _ in merged.problems] == ["tool"]


def test_device_is_the_rank_by_bus_address_where_no_source_has_an_index():
    merged = Node().see(reported("sysfs", [(card(None, bus_id=BUS1), {}), (card(None, bus_id=BUS0), {})]))
    assert [(d.device, d.bus_id) for d in merged.devices] == [("0", BUS0), ("1", BUS1)]


@pytest.mark.parametrize(("first", "second"), [("33:00.0", BUS0), (BUS0, "33:00.0")])
def test_an_address_without_its_domain_is_the_same_devices(first, second):
    """The source that prints domains may start later, or fail while a source without domains continues."""
    node = Node()
    before = node.see(reported("tool", [(card(0, bus_id=first), {})]))
    after = node.see(reported("tool", [(card(0, bus_id=second), {})], taken=1.0))
    assert (ids(after), after.events) == (ids(before), ())
    assert after.devices[0].bus_id == BUS0 or first == BUS0


def test_address_without_a_domain_that_fits_two_devices_joins_neither():
    node = Node()
    both = [card(0, bus_id="0000:33:00.0"), card(1, bus_id="0001:33:00.0")]
    node.see(reported("sysfs", [(device, {}) for device in both]))
    merged = node.see(reported("tool", [(card(0, bus_id="33:00.0"), {})]))
    assert "33:00.0" in ids(merged)


def test_a_partition_is_the_same_whether_or_not_its_address_counts_partitions():
    files = [card(0, bus_id=BUS0), card(None, bus_id=BUS0, partition="1", parent=0)]
    tool = [card(0, bus_id=BUS0), card(1, bus_id="0000:33:00.1", partition="1", parent=0)]
    reports = [reported("sysfs", [(d, {}) for d in files], form="data"), reported("tool", [(d, {}) for d in tool])]
    for last in reports:
        node = Node()
        before = node.see(*reports)
        after = node.see(last)
        assert (ids(after), after.events) == (ids(before), ())


def test_address_alone_means_the_present_card():
    node = Node()
    for number, uuid in enumerate((UUID0, UUID1, UUID1)):
        node.see(reported("tool", [(card(0, uuid=uuid, bus_id=BUS0), {})], taken=float(number)))
    merged = node.see(reported("sysfs", [(card(None, bus_id=BUS0), {})], taken=3.0), now=3.0)
    assert {device.id: device.up for device in merged.devices} == {UUID0: False, UUID1: True}
    assert merged.events == ()
