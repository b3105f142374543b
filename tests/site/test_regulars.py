"""Regular clients are known by the times of their requests, whoever else asks."""

from __future__ import annotations

import random

import pytest

from telemetry_daemon.site.regulars import MISSED_TURNS, Regulars


def asked(*times):
    regulars = Regulars()
    for at in sorted(times):
        regulars.came(at)
    return regulars


def every(seconds, count, begin=100.0):
    return [begin + seconds * turn for turn in range(count)]


@pytest.mark.parametrize(
    ("times", "now", "expected"),
    [
        ([], 100, None),
        ([100], 101, None),
        ([100, 101], 101, None),
        (every(1, 3), 102, 103),
        (every(1, 3), 102.99, 103),
        (every(1, 3), 103.04, 103),
        (every(1, 3), 103.1, 104),
        (every(15, 3), 130, 145),
        (every(60, 10), 641, 700),
        ([100, 101, 103], 103, None),
        ([100, 100.01, 101.98, 102], 102, None),
        (every(400, 5), 1700, None),
        ([100, 115.3, 129.9, 145.1], 146, 159.5),
        ([*every(15, 3), *every(15, 3, 104)], 131, 145),
        ([*every(15, 3), *every(15, 3, 104)], 135, 145),
        ([*every(15, 4), *every(15, 4, 104)], 146, 149),
        ([*every(15, 4), *every(30, 3, 107)], 168, 175),
        ([*every(15, 4), 103.3, 119.9, 131], 146, 160),  # a person beside a scraper
    ],
)
def test_the_next_request_is_expected_when_it_comes(times, now, expected):
    turn = asked(*(at for at in times if at <= now)).next_turn(now)
    if expected is None:
        assert turn is None
    else:
        assert turn.opens < expected < turn.closes
        assert turn.closes - turn.opens < 1.3
        assert turn.opens > expected - 0.3


def test_one_that_stopped_is_expected_a_few_times_and_then_no_more():
    regulars = asked(*every(10, 5))
    turns = []
    now = 141.0
    while (turn := regulars.next_turn(now)) is not None:
        turns.append(round((turn.opens + turn.closes) / 2))
        now = turn.closes + 0.001
    assert turns == [150 + 10 * missed for missed in range(MISSED_TURNS)]


def test_one_that_was_away_for_a_turn_is_expected_at_its_next():
    regulars = asked(*every(10, 5), 160.0)
    turn = regulars.next_turn(161.0)
    assert turn.opens < 170 < turn.closes


@pytest.mark.parametrize(("interval", "jitter"), [(1.0, 0.02), (15.0, 0.15), (1.003, 0.0), (14.98, 0.1)])
def test_one_that_is_not_quite_regular_is_met_nearly_always(interval, jitter):
    chance, regulars, met = random.Random(7), Regulars(), 0
    for turn_number in range(200):
        at = 100 + turn_number * interval + chance.uniform(-jitter, jitter)
        turn = regulars.next_turn(at)
        met += turn is not None and turn.opens <= at <= turn.closes
        regulars.came(at)
    assert met >= 190


def test_two_at_once_that_drift_past_each_other_are_both_expected():
    chance, regulars, met = random.Random(7), Regulars(), 0
    times = sorted([100 + 15 * turn for turn in range(400)] + [103 + 15.01 * turn for turn in range(400)])
    for at in times:
        turn = regulars.next_turn(at)
        met += turn is not None and turn.opens <= at <= turn.closes
        regulars.came(at + chance.uniform(0, 0.001))
    assert met >= 0.95 * len(times)


def test_a_crowd_at_random_times_is_hardly_ever_waited_for():
    chance, regulars, at, open_seconds = random.Random(7), Regulars(), 0.0, 0.0
    while at < 1000:
        step = chance.expovariate(0.5)
        turn = regulars.next_turn(at)
        open_seconds += 0 if turn is None else max(0.0, min(at + step, turn.closes) - max(at, turn.opens))
        at += step
        regulars.came(at)
    assert open_seconds < 250
