"""The store: known devices and readings over time, and which list of a source decides about presence."""

from dataclasses import replace

import pytest

from state.clocked_store import CARDS, FAST, INVENTORY, Node
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_parsers.model import (
    REASONS,
    Absent,
    Device,
    Event,
    Identity,
    Reading,
    Report,
    Sample,
)


def fed(*polls):
    node = Node()
    for poll in polls:
        node.put(poll=poll)
    return node


def forgets(node, device_id):
    return bool(node.store.forget(lambda lost: lost.id == device_id))


def test_snapshot_is_kept_until_a_change():
    node = fed(FAST)
    first = node.store.snapshot()
    assert node.store.snapshot() is first
    node.store.facts.set_daemon_metric(
        "telemetry_config_last_reload_successful", (Sample("telemetry_config_last_reload_successful", 1.0),)
    )
    assert node.store.snapshot() is not first


def test_readings_expire():
    node = Node()
    assert node.store.targets("tool").devices == ()
    node.put()
    node.now += 9.9
    assert (node.powers(), node.store.targets("tool").devices) == ([50.0, 60.0], ("0", "1"))
    node.now += 0.1
    assert (node.powers(), node.ups()) == ([], [None, None])
    assert [status.up for status in node.store.snapshot().sources] == [False]


def test_suspension_expires_readings():
    node = fed(FAST)
    assert node.powers() == [50.0, 60.0]
    node.slept += 8 * 3600.0
    assert (node.powers(), node.ups()) == ([], [None, None])
    assert [status.up for status in node.store.snapshot().sources] == [False]
    node.put()
    assert (node.powers(), node.ups()) == ([50.0, 60.0], [True, True])


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        *((PollResult("failed", reason), [None, None]) for reason in REASONS),
        (PollResult("stuck"), [None, None]),
        (PollResult("released"), [None, None]),
        (PollResult("missing"), []),
        (PollResult("not_mine"), []),
    ],
    ids=lambda item: f"{item.state} {item.reason}" if isinstance(item, PollResult) else "",
)
def test_known_cards_stay_listed_while_their_source_fails(result, shown):
    node = fed(FAST)
    last_read = node.wall
    node.now += 40.0
    node.put(None, result)
    devices = node.store.snapshot().devices
    assert [(device.up, device.last_read, list(device.readings)) for device in devices] == [
        (up, last_read, []) for up in shown
    ]
    node.now += 2.0
    node.put()
    assert [(device.up, device.last_read) for device in node.store.snapshot().devices] == [(True, None)] * 2


def test_remembered_cards_are_listed_if_the_first_poll_fails():
    before = fed(FAST)
    node = Node(before.store.identities())
    assert node.ups() == []
    node.fail("timeout")
    assert [(device.up, device.last_read) for device in node.store.snapshot().devices] == [(None, None)] * 2


@pytest.mark.parametrize(
    ("result", "left"),
    [
        (PollResult("failed", "timeout"), [50.0, 60.0]),
        (PollResult("failed", "not_understood"), [50.0, 60.0]),
        (PollResult("failed", "driver_gone"), [Absent.NOT_REPORTED] * 2),
        (PollResult("failed", "no_permission"), [Absent.NOT_REPORTED] * 2),
        (PollResult("failed", "library_mismatch"), [Absent.NOT_REPORTED] * 2),
        (PollResult("missing"), [Absent.NOT_REPORTED] * 2),
    ],
)
def test_some_failures_end_all_reports_of_the_source(result, left):
    node = fed(INVENTORY)
    node.put()
    node.now += 2.0
    node.put(None, result)
    assert node.powers() == []
    node.put(Report(devices=CARDS.devices))
    assert node.powers() == left


@pytest.mark.parametrize(
    ("result", "left"),
    [
        (PollResult("failed", "no_permission"), [True, True]),
        (PollResult("failed", "driver_gone"), []),
        (PollResult("missing"), [True, True]),
    ],
)
def test_poll_that_only_adds_may_be_forbidden_alone(result, left):
    node = fed(FAST)
    node.put(None, result, replace(INVENTORY, lists_devices=False))
    assert node.ups() == left


def test_devices_wait_for_the_first_inventory():
    node = Node()
    node.store.await_inventories({("tool", "readings"): "nvidia", ("nvml", "inventory"): "nvidia"})
    node.put()
    assert (node.ups(), node.store.readiness()) == ([], (False, "waiting for the first poll of nvml"))
    node.put(None, PollResult("missing"), INVENTORY, "nvml")
    assert (node.ups(), node.store.readiness()) == ([True, True], (True, "ready"))


def test_lost_device_is_forgotten():
    node = fed(FAST)
    events = node.put(replace(CARDS, devices=CARDS.devices[:1], readings=CARDS.readings[:1]))
    assert [(event.id, event.kind) for event in events] == [("0000:53:00.0", "lost")]
    assert node.ups() == [True, False]
    assert not forgets(node, "0000:33:00.0")
    assert node.store.lost_ids() == ("0000:53:00.0",)
    assert forgets(node, "0000:53:00.0")
    assert (node.ups(), node.store.lost_ids()) == ([True], ())


def test_device_listed_as_down_is_not_lost():
    node = Node()
    node.put(replace(CARDS, devices=(CARDS.devices[0], replace(CARDS.devices[1], up=False))))
    assert (node.ups(), node.store.lost_ids(), forgets(node, "0000:53:00.0")) == ([True, False], (), False)


def test_device_lost_while_the_daemon_was_down():
    gone = Identity("0000:99:00.0", "nvidia", "2", "X", bus_id="0000:99:00.0", listed_by=("tool",))
    node = Node((gone,))
    assert node.ups() == []
    node.put()
    assert [(device.id, device.up) for device in node.store.snapshot().devices][-1] == ("0000:99:00.0", False)


DAY = 24 * 3600.0


@pytest.mark.parametrize("step", [30 * 365 * DAY, -10 * 365 * DAY], ids=["forward", "back"])
def test_device_is_lost_for_a_week_despite_clock_steps(step):
    """A node may start with a wrong clock: a loss by that clock is not seven days old after a step."""
    node = fed(FAST)
    only_first = replace(CARDS, devices=CARDS.devices[:1], readings=CARDS.readings[:1])
    node.put(only_first)
    node.wall_at_start += step
    node.now += 6 * DAY
    node.put(only_first)
    assert node.ups() == [True, False]
    node.now += DAY
    node.put(only_first)
    assert node.ups() == [True]


def test_earlier_loss_keeps_its_time():
    gone = Identity("0000:99:00.0", "nvidia", "2", "X", bus_id="0000:99:00.0", listed_by=("tool",), lost_since=3e9)
    node = Node((gone,))
    node.wall_at_start += 2e9
    node.put()
    assert [identity.lost_since for identity in node.store.identities() if identity.id == gone.id] == [3e9]


def test_changes_between_polls_are_reported_with_the_next():
    """The first inventory's time runs out between two polls: a scrape notices that the card is lost."""
    gone = Identity("0000:99:00.0", "nvidia", "2", "X", bus_id="0000:99:00.0", listed_by=("tool",))
    node = Node((gone,))
    node.store.await_inventories({("tool", "readings"): "nvidia", ("nvml", "inventory"): "nvidia"})
    node.now += 14.9
    assert node.put() == ()
    node.now += 0.1
    assert node.ups() == [True, True, False]
    events = [(event.id, event.kind) for event in node.put()]
    assert sorted(events) == [("0000:33:00.0", "appeared"), ("0000:53:00.0", "appeared"), ("0000:99:00.0", "lost")]
    assert node.put() == ()


def test_events_are_counted_once_each():
    node = Node()
    node.put(replace(CARDS, events=(Event(1, "79", wall_time=1234.0),)))
    node.put()
    readings = {(r.metric, r.label): r.value for r in node.store.snapshot().devices[1].readings}
    assert readings[("events_total", "79")] == 1.0
    assert readings[("event_last_timestamp_seconds", "79")] == 1234.0


def test_ongoing_events_of_a_removed_source_are_closed():
    node = Node()
    faulty = replace(CARDS, events=(Event(1, "error_80e01801", is_ongoing=True),))

    def values():
        return {r.metric: r.value for r in node.store.snapshot().devices[1].readings if r.label == "error_80e01801"}

    node.put(faulty)
    assert values()["event_open"] == 1.0
    node.store.remove_source("tool")
    assert node.store.snapshot().devices == ()
    node.store.add_source(SourceFacts("tool", "nvidia", ("power_watts",)))
    node.put(faulty)
    assert (values()["event_open"], values()["events_total"]) == (1.0, 1.0)


def test_cpu_time_and_overruns_are_counted():
    node = fed(FAST)
    node.fail("timeout")
    node.store.count_overrun(("tool", "readings"))
    status = node.store.snapshot().sources[0]
    assert (status.cpu_seconds, status.polls[0].overruns) == (0.5, 1)


def test_removed_source_leaves_nothing_behind():
    node = fed(FAST)
    node.store.remove_source("tool")
    node.put()
    snapshot = node.store.snapshot()
    assert (snapshot.devices, snapshot.sources) == ((), ())


def test_counts_continue_for_a_recreated_source():
    node = fed(FAST)
    node.fail("timeout")
    node.store.count_overrun(("tool", "readings"))
    node.store.remove_source("tool")
    node.store.add_source(SourceFacts("tool", "nvidia", ("power_watts",)))
    assert node.store.snapshot().sources == ()
    node.fail("timeout")
    (poll,) = node.store.snapshot().sources[0].polls
    assert (poll.failures, poll.overruns, poll.last_success) == ((("timeout", 2),), 1, 1e9 + 100.0)


def test_sources_fail_independently():
    node = fed(FAST)
    other = Report(devices=(Device("amd", 0, bus_id="0000:83:00.0"),), readings=(Reading(0, "power_watts", 70.0),))
    node.store.add_source(SourceFacts("other", "amd", ()))
    node.put(other, source="other")
    node.fail("timeout")
    assert node.powers() == [70.0]


def test_presence_is_unknown_while_the_most_frequent_list_fails():
    """A fresh but older list must not keep cards up beside a failing source; a new list does."""
    node = fed(INVENTORY, FAST)
    assert node.ups() == [True, True]
    node.now += 2.0
    node.fail("timeout", FAST)
    assert node.ups() == [None, None]
    node.now += 2.0
    node.fail("timeout", FAST)
    node.now += 2.0
    node.put(poll=INVENTORY)
    assert node.ups() == [True, True], "listed since it began to fail"
    node.now += 2.0
    node.fail("timeout", FAST)
    assert node.ups() == [True, True]


def test_rarer_list_is_back_with_the_most_frequent_one():
    node = fed(INVENTORY)
    node.put(Report(devices=CARDS.devices), poll=FAST)
    node.now += 2.0
    node.fail("timeout", FAST)
    assert node.powers() == []
    node.now += 2.0
    node.put(Report(devices=CARDS.devices), poll=FAST)
    assert (node.ups(), node.powers()) == ([True, True], [50.0, 60.0])


def test_rarer_list_does_not_outlive_the_most_frequent_one():
    """The thread of the frequent list may be blocked by a poll that hangs."""
    node = fed(INVENTORY, FAST)
    node.now += 9.9
    assert node.ups() == [True, True]
    node.now += 0.1
    assert node.ups() == [None, None]


def test_missing_list_leaves_the_others_valid():
    node = Node()
    node.fail("exit_status", FAST)
    node.put(poll=INVENTORY)
    node.now += 2.0
    node.fail("exit_status", FAST)
    assert node.ups() == [True, True]


def test_unsupported_list_decides_nothing():
    node = fed(INVENTORY, FAST)
    node.now += 2.0
    node.put(None, PollResult("not_supported"), FAST)
    assert node.ups() == [True, True]


def test_failed_rarer_list_costs_only_itself():
    node = fed(FAST)
    node.fail("timeout", INVENTORY)
    assert node.ups() == [True, True]


def test_lost_card_stays_lost_while_lists_fail():
    node = fed(INVENTORY, FAST)
    node.now += 2.0
    node.put(Report(devices=CARDS.devices[:1]), poll=FAST)
    node.now += 2.0
    node.fail("timeout", FAST)
    assert node.ups() == [None, False]
