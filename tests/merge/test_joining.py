"""One device is shown once: joined by address, uuid, index, card and chip, or partition number."""

import pytest

from merge.reports import Node, card, numbers, reported
from telemetry_parsers.model import Device, SourceReport

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
def test_device_that_cannot_be_joined_or_distinguished_is_left_out(first, second):
    merged = Node().see(
        reported("a", [(first, {"power_watts": 1.0})], space="a"),
        reported("b", [(second, {"fan_ratio": 0.5})], space="b"),
    )
    assert [numbers(device) for device in merged.devices] == [{"power_watts": 1.0}]
    assert [source for source, _ in merged.problems] == ["b"]


def test_index_joins_once_its_index_space_is_known():
    node = Node()
    sysfs = reported("sysfs", [(card(None, bus_id=BUS0), {}), (card(None, bus_id=BUS1), {})], form="data")
    listing = reported("tool", [(card(0, bus_id=BUS1), {}), (card(1, bus_id=BUS0), {})], space="tool")
    node.see(sysfs, listing)
    table = reported("tool", [(card(0), {"power_watts": 50.0}), (card(1), {"power_watts": 60.0})], space="tool")
    merged = node.see(sysfs, table)
    assert {device.bus_id: numbers(device)["power_watts"] for device in merged.devices} == {BUS1: 50.0, BUS0: 60.0}


def _numbered(*fans, taken=0.0, space="tool"):
    return reported("tool", [(card(n), {"fan_ratio": fan}) for n, fan in enumerate(fans)], taken=taken, space=space)


def _identities(*devices, taken=0.0, space="tool"):
    return reported(
        "tool", [(device, {}) for device in devices], poll="identity", taken=taken, life=900, interval=300, space=space
    )


@pytest.mark.parametrize("space", ["tool", ""])
@pytest.mark.parametrize("who", [{"bus_id": (BUS0, BUS1)}, {"uuid": (UUID0, UUID1)}], ids=["by address", "by uuid"])
def test_failed_inventory_changes_no_known_device(who, space):
    ((word, names),) = who.items()
    first, second = (card(n, **{word: name}) for n, name in enumerate(names))
    node = Node()
    before = node.see(_numbered(0.5, 0.6, space=space), _identities(first, second, space=space))
    after = node.see(_numbered(0.5, 0.7, taken=5.0, space=space), now=6.0)
    assert [device.id for device in after.devices] == [device.id for device in before.devices] == list(names)
    assert [numbers(device) for device in after.devices] == [{"fan_ratio": 0.5}, {"fan_ratio": 0.7}]
    assert after.events == ()


def test_renumbered_devices_wait_for_their_identities():
    """Card 0 of three is lost: index 0 is the former index 1, and no card may get its readings."""
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
    renumbered = _identities(*(card(n, bus_id=bus) for n, bus in enumerate(buses[1:])), taken=6.0)
    merged = node.see(left, _numbered(0.2, 0.3, taken=5.0), renumbered, now=7.0)
    assert [numbers(d).get("fan_ratio") for d in merged.devices] == [None, 0.2, 0.3]
    assert merged.problems == ()


@pytest.mark.parametrize("between", [(0.9,), ()], ids=["one left", "none left"])
def test_numbers_are_not_trusted_after_a_shorter_list(between):
    """After a list with fewer cards, the indices may belong to other cards than before."""
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


def test_no_card_is_lost_while_numbers_are_ambiguous():
    """The indices of the only source changed: the lost card is unknown until the source reports identities."""
    who = [card(n, uuid=uuid) for n, uuid in enumerate((UUID0, UUID1))]
    node = Node()
    node.see(_numbered(0.1, 0.2), _identities(*who))
    merged = node.see(_numbered(0.2, taken=5.0), _identities(*who), now=6.0)
    assert (merged.devices, merged.events) == ((), ())
    merged = node.see(_numbered(0.2, taken=5.0), _identities(card(0, uuid=UUID1), taken=6.0), now=7.0)
    assert [(d.id, d.up, numbers(d)) for d in merged.devices] == [(UUID0, False, {}), (UUID1, True, {"fan_ratio": 0.2})]


def test_ambiguous_address_without_a_domain_is_reported():
    sysfs = reported(
        "sysfs", [(card(None, bus_id="0000:33:00.0"), {}), (card(None, bus_id="0001:33:00.0"), {})], form="data"
    )
    merged = Node().see(sysfs, reported("tool", [(card(0, bus_id="33:00.0"), {})], form="text"))
    assert len(merged.devices) == 3
    assert [(source, "could be any of" in problem.text) for source, problem in merged.problems] == [("tool", True)]


def test_inventory_adds_what_the_fast_poll_lacks():
    inventory = reported(
        "tool", [(card(0, uuid=UUID0, model="X"), {}), (card(1, uuid=UUID1, model="X"), {})], poll="inventory", life=900
    )
    fast = reported("tool", [(card(0), {"power_watts": 50.0}), (card(1), {"power_watts": 60.0})], taken=5.0)
    merged = Node().see(inventory, fast, now=6.0)
    assert [(d.uuid, d.model, numbers(d)["power_watts"]) for d in merged.devices] == [
        (UUID0, "X", 50.0),
        (UUID1, "X", 60.0),
    ]


def test_readings_of_a_device_that_the_newest_list_lacks_are_dropped():
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


def test_readings_before_a_card_went_down_are_not_shown():
    """The newest list contains the card, and says that it does not answer."""
    slow = reported("tool", [(card(0, bus_id=BUS0), {"fan_ratio": 0.5})], poll="slow", life=180, lists_devices=False)
    fast = reported("tool", [(card(0, bus_id=BUS0, up=False), {})], taken=5.0)
    (device,) = Node().see(slow, fast, now=6.0).devices
    assert (device.up, numbers(device)) == (False, {})


SPACE = "ascend-physical"
CARDS = [(card(at, vendor="ascend", bus_id=f"0000:0{at}:00.0"), {"power_watts": 90.0}) for at in (4, 5)]


def listing(**more):
    return reported("npu-smi", CARDS, space=SPACE, form="text", **more)


def links(*indices, poll="link", metric="link_up", space=SPACE, taken=0.0):
    devices = [(card(index, vendor="ascend"), {metric: {"roce": 1.0}}) for index in indices]
    return reported("hccn-tool", devices, poll=poll, lists_devices=False, space=space, form="text", taken=taken)


def seen_with(*reports):
    node = Node()
    node.see(listing())
    return {device.index: numbers(device) for device in node.see(listing(taken=1.0), *reports, now=1.0).devices}


def test_readings_are_joined_by_the_index_of_the_same_space() -> None:
    devices = seen_with(links(5), links(5, poll="flaps", metric="link_recovery_errors_total"))
    assert devices[5] == {"power_watts": 90.0, "link_up.roce": 1.0, "link_recovery_errors_total.roce": 1.0}
    assert "link_up.roce" not in devices[4]


def test_device_that_no_list_contains_is_not_shown() -> None:
    assert sorted(seen_with(links(4, 9))) == [4, 5]
    assert Node().see(links(4)).devices == ()


def test_index_of_another_space_joins_nothing() -> None:
    for space in ("", "other"):
        assert all("link_up.roce" not in values for values in seen_with(links(4, 5, space=space)).values())


def test_a_device_is_lost_although_an_older_answer_speaks_of_it() -> None:
    node = Node()
    node.see(listing())
    node.see(listing(taken=1.0), links(4, 5), now=1.0)
    rest = reported("npu-smi", CARDS[:1], space=SPACE, form="text", taken=2.0)
    assert [device.up for device in node.see(rest, links(4, 5), now=2.0).devices] == [True, False]


def test_the_newest_answer_counts_and_the_list_names_the_device() -> None:
    node = Node()
    node.see(listing())
    older, newer = links(4, taken=1.0), links(4, poll="ports", taken=2.0, metric="link_up")
    (first, _) = node.see(listing(taken=1.0), older, newer, now=2.0).devices
    assert (first.id, first.device) == ("0000:04:00.0", "4")
    assert [(reading.source, reading.taken) for reading in first.readings if reading.metric == "link_up"] == [
        ("hccn-tool", 2.0)
    ]


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


def test_report_about_an_unlisted_card_is_ignored() -> None:
    """A list that has changed since may have renumbered its cards."""
    cards = [chip("0", "0", 0), chip("1", "0", 1)]
    usages = reported("npu-smi", [(chip("1", "0", 1), {"fan_ratio": 0.5})], poll="usages", lists_devices=False)
    assert numbers(Node().see(listed(cards), usages).devices[1])["fan_ratio"] == 0.5
    assert "fan_ratio" not in numbers(Node().see(listed(cards[:1]), usages).devices[0])


@pytest.mark.parametrize(
    ("list_of", "joined"), [([chip("5", "0", 5)], True), ([chip("5", "0", 5), chip("5", "1", 5)], False)]
)
def test_card_answer_belongs_to_its_only_chip(list_of: list[Device], joined: bool) -> None:
    board = reported("npu-smi", [(chip("5", None, 5), {"fan_ratio": 0.5})], poll="board", lists_devices=False)
    devices = Node().see(listed(list_of), board).devices
    assert any("fan_ratio" in numbers(device) for device in devices) is joined


def test_chips_with_one_index_have_different_names() -> None:
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


def test_unidentified_device_is_shown_once() -> None:
    node = Node()
    for now in (0.0, 1.0):
        merged = node.see(reported("tool", [(card(None), {"power_watts": 1.0})], taken=now), now=now)
        assert [(device.id, device.index) for device in merged.devices] == [("nvidia:unnumbered", None)]


PARENT = card(0, "amd", bus_id="0000:05:00.0")
PART = card(1, "amd", bus_id="0000:05:00.1", partition="1", parent=0)


def partition_list(taken: float) -> SourceReport:
    return reported("amd-smi", [(PARENT, {}), (PART, {})], poll="list", taken=taken, life=1000.0)


def partition_metric(taken: float) -> SourceReport:
    values = [(card(0, "amd"), {"power_watts": 500.0}), (card(1, "amd"), {"utilization_ratio": 0.5})]
    return reported("amd-smi", values, poll="metric", taken=taken, life=1000.0)


def test_poll_without_partitions_refers_to_the_one_of_its_index() -> None:
    for newest, older in ((partition_list(2.0), partition_metric(1.0)), (partition_metric(2.0), partition_list(1.0))):
        merged = Node().see(newest, older, now=3.0)
        found = [(d.id, d.device, d.parent, {r.metric: r.value for r in d.readings}) for d in merged.devices]
        assert found == [
            ("0000:05:00.0", "0", None, {"power_watts": 500.0}),
            ("0000:05:00.0/1", "0:1", "0000:05:00.0", {"utilization_ratio": 0.5}),
        ]


def test_ambiguous_index_without_a_partition_is_ignored() -> None:
    parts = [(card(0, "nvidia"), {}), (card(0, "nvidia", partition="1", parent=0), {})]
    lists = reported("tool", parts, poll="list", taken=2.0)
    plain = reported("tool", [(card(0, "nvidia", partition="1"), {"power_watts": 9.0})], poll="metric", taken=1.0)
    merged = Node().see(lists, plain, now=3.0)
    assert [len(device.readings) for device in merged.devices] == [0, 0]
