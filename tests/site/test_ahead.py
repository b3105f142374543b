"""A page is ready when a regular client asks for it, is never older than the newest snapshot, and is made for nobody else."""

from __future__ import annotations

import asyncio
import gzip
import random

import pytest

from kits import snapshots as kit
from kits.stepped_loop import SteppedLoop
from telemetry_daemon.site.regulars import MISSED_TURNS, Regulars
from telemetry_daemon.site.routes import Site
from telemetry_daemon.web.messages import Request
from telemetry_exporters.prometheus import text_page

POLL_SECONDS = 2.0


class Node:
    """A site on a stepped loop, with a snapshot that counts its polls; notes which pages were made, and when."""

    def __init__(self):
        self.loop = SteppedLoop()
        self.polls = 0
        self.looks = []
        self._snapshot = kit.snapshot()
        self.site = Site(self._newest, lambda: (True, ""), lambda _: b"")
        self.site.make_ahead(self.loop)
        self.poll()

    def _newest(self):
        self.looks.append(self._snapshot)
        return self._snapshot

    def poll(self):
        """A new snapshot, and word of it to the site."""
        self.polls += 1
        self._snapshot = kit.snapshot(kit.device(0, kit.reading("power_watts", float(self.polls))))
        self.site.snapshot_changed()

    def scrape(self, encoding="gzip", query=""):
        """The page that a client gets, and whether it was made for an earlier look."""
        before = list(self.looks)
        body = b"".join(self.site.respond(Request("GET", "/metrics", query, {"accept-encoding": encoding})).body)
        page = gzip.decompress(body) if encoding else body
        if not query:
            assert page == text_page(self._snapshot)
        return any(look is self._snapshot for look in before)

    def scraped_every(self, seconds, times, **request):
        """One scrape after the other; whether each was ready."""
        ready = []
        for _ in range(times):
            self.loop.advance(seconds)
            ready.append(self.scrape(**request))
        return ready


@pytest.mark.parametrize("interval", [1.0, 15.0])
@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_regular_client_finds_the_page_made_of_a_snapshot_that_came_since_its_last_turn(interval, encoding):
    node, ready = Node(), []
    for _ in range(6):
        node.loop.advance(interval / 3)
        node.poll()
        ready += node.scraped_every(interval * 2 / 3, 1, encoding=encoding)
    assert ready == [False] * 3 + [True] * 3


def test_a_page_is_made_once_for_a_turn_however_many_polls_there_are_before_it():
    node = Node()
    node.scraped_every(15.0, 4)
    node.looks.clear()
    for _ in range(14):
        node.loop.advance(1.0)
        node.poll()
    assert node.looks == []
    assert node.scraped_every(1.0, 1) == [True]
    assert len(node.looks) == 2  # shortly before the scrape, and the scrape


def test_after_a_poll_between_the_making_and_the_scrape_the_page_is_made_anew():
    node = Node()
    node.scraped_every(15.0, 4)
    node.loop.advance(14.9)
    node.poll()
    node.poll()
    assert node.scraped_every(0.1, 1) == [True]
    assert node.scraped_every(15.0, 1) == [True]


def test_polls_that_end_at_once_have_the_page_made_once():
    node = Node()
    node.scraped_every(15.0, 4)
    node.loop.advance(14.9)
    turns = node.loop.turns
    for _ in range(11):
        node.poll()
    assert node.scraped_every(0.05, 1) == [True]
    assert node.loop.turns == turns + 1


def test_a_client_that_stopped_costs_nothing_after_a_few_turns():
    node = Node()
    node.scraped_every(1.0, 5)
    node.looks.clear()
    for _ in range(40):
        node.loop.advance(0.25)
        node.poll()
    assert len(node.looks) <= 2 * MISSED_TURNS
    assert node.loop.timers == []
    turns = node.loop.turns
    node.loop.advance(3600.0)
    node.poll()
    assert node.loop.turns == turns


def test_two_clients_at_the_same_interval_in_other_phases_both_find_it_ready():
    node, ready = Node(), []
    for _ in range(8):
        ready += node.scraped_every(4.0, 1)
        node.poll()
        ready += node.scraped_every(11.0, 1)
        node.poll()
    assert ready[6:] == [True] * 10


def test_nothing_is_made_for_one_that_asks_now_and_then_or_for_some_names_only():
    node = Node()
    for seconds in (3.0, 8.0, 1.0, 21.0):
        node.scraped_every(seconds, 1)
    node.scraped_every(5.0, 6, query="name[]=accelerator_up")
    assert node.loop.timers == []


def test_before_a_loop_is_named_nothing_is_made_ahead():
    looks = []
    site = Site(lambda: looks.append(1) or kit.snapshot(), lambda: (True, ""), lambda _: b"")
    for _ in range(5):
        site.respond(Request("GET", "/metrics"))
        site.snapshot_changed()
    assert len(looks) == 5


def test_a_poll_that_ends_after_the_loop_disturbs_nobody():
    loop = asyncio.new_event_loop()
    moments = iter([100.0, 101.0, 102.0, 103.0])
    moment = [0.0]
    loop.time = lambda: moment[0]
    site = Site(kit.snapshot, lambda: (True, ""), lambda _: b"")
    site.make_ahead(loop)
    for moment[0] in moments:
        site.respond(Request("GET", "/metrics"))
    moment[0] = 103.97
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    site.snapshot_changed()


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


def test_a_crowd_at_random_times_is_hardly_ever_waited_for():
    chance, regulars, at, open_seconds = random.Random(7), Regulars(), 0.0, 0.0
    while at < 1000:
        step = chance.expovariate(0.5)
        turn = regulars.next_turn(at)
        open_seconds += 0 if turn is None else max(0.0, min(at + step, turn.closes) - max(at, turn.opens))
        at += step
        regulars.came(at)
    assert open_seconds < 250
