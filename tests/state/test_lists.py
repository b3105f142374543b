"""Which of a source's lists says who is there: the most frequent one, and what is newer than its end."""

from __future__ import annotations

from state.clocked_store import CARDS, FAST, INVENTORY, Node
from telemetry_daemon.state.health import PollResult
from telemetry_parsers.model import Report


def test_nobody_knows_what_is_there_while_the_most_frequent_list_fails():
    """A list of minutes ago, fresh as it is, must not hold the cards up beside a source that fails; a new one does."""
    node = Node()
    node.put(poll=INVENTORY)
    node.put(poll=FAST)
    assert node.ups() == [True, True]
    node.now += 2.0
    node.fail("timeout", FAST)
    assert node.ups() == []
    node.now += 2.0
    node.fail("timeout", FAST)
    node.now += 2.0
    node.put(poll=INVENTORY)
    assert node.ups() == [True, True], "listed since it began to fail"
    node.now += 2.0
    node.fail("timeout", FAST)
    assert node.ups() == [True, True]


def test_a_rarer_list_and_what_it_told_are_back_as_soon_as_the_most_frequent_one_is():
    node = Node()
    node.put(poll=INVENTORY)
    node.put(Report(devices=CARDS.devices), poll=FAST)
    node.now += 2.0
    node.fail("timeout", FAST)
    assert node.powers() == []
    node.now += 2.0
    node.put(Report(devices=CARDS.devices), poll=FAST)
    assert (node.ups(), node.powers()) == ([True, True], [50.0, 60.0])


def test_a_rarer_list_does_not_hold_cards_up_when_the_most_frequent_one_is_too_old():
    """Its thread may wait for a poll that hangs: nothing failed yet, and nobody knows."""
    node = Node()
    node.put(poll=INVENTORY)
    node.put(poll=FAST)
    node.now += 9.9
    assert node.ups() == [True, True]
    node.now += 0.1
    assert node.ups() == []


def test_a_list_that_never_came_puts_none_of_the_others_in_doubt():
    node = Node()
    node.fail("exit_status", FAST)
    node.put(poll=INVENTORY)
    node.now += 2.0
    node.fail("exit_status", FAST)
    assert node.ups() == [True, True]


def test_a_list_that_a_version_cannot_give_decides_nothing():
    node = Node()
    node.put(poll=INVENTORY)
    node.put(poll=FAST)
    node.now += 2.0
    node.put(None, PollResult("not_supported"), FAST)
    assert node.ups() == [True, True]


def test_a_rarer_list_that_fails_costs_itself():
    node = Node()
    node.put(poll=FAST)
    node.fail("timeout", INVENTORY)
    assert node.ups() == [True, True]


def test_a_lost_card_stays_lost_while_nobody_knows():
    node = Node()
    node.put(poll=INVENTORY)
    node.put(poll=FAST)
    node.now += 2.0
    node.put(Report(devices=CARDS.devices[:1]), poll=FAST)
    node.now += 2.0
    node.fail("timeout", FAST)
    assert node.ups() == [False]
