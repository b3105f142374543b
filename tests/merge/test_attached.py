"""Sources without a list of devices: they speak of those that others list, and invent none."""

from __future__ import annotations

from merge.reports import Node, card, numbers, reported

SPACE = "ascend-physical"
CARDS = [(card(at, vendor="ascend", bus_id=f"0000:0{at}:00.0"), {"power_watts": 90.0}) for at in (4, 5)]


def listing(**more):
    return reported("npu-smi", CARDS, space=SPACE, form="text", **more)


def links(*indices, poll="link", metric="link_up", space=SPACE, taken=0.0):
    devices = [(card(index, vendor="ascend"), {metric: {"roce": 1.0}}) for index in indices]
    return reported("hccn-tool", devices, poll=poll, lists_devices=False, space=space, form="text", taken=taken)


def seen(*reports):
    """The devices after the list was seen alone, and then with these reports."""
    node = Node()
    node.see(listing())
    return {device.index: numbers(device) for device in node.see(listing(taken=1.0), *reports, now=1.0).devices}


def test_readings_are_joined_by_the_index_of_the_same_space() -> None:
    devices = seen(links(5), links(5, poll="flaps", metric="link_recovery_errors_total"))
    assert devices[5] == {"power_watts": 90.0, "link_up.roce": 1.0, "link_recovery_errors_total.roce": 1.0}
    assert "link_up.roce" not in devices[4]


def test_a_device_that_nobody_lists_is_none() -> None:
    assert sorted(seen(links(4, 9))) == [4, 5]
    assert Node().see(links(4)).devices == ()


def test_an_index_of_another_space_or_of_none_says_nothing() -> None:
    for space in ("", "other"):
        assert all("link_up.roce" not in values for values in seen(links(4, 5, space=space)).values())


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
