"""Owners' energy: the card's counter divided among them, or an estimate from its power, which the record says."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits.billed_node import START, Node, by_name, has, job
from telemetry_parsers.model import MergedReading
from telemetry_parsers.ownership import Claim

COUNTER = "energy_joules_total"


def run_counted(node: Node, seconds: float, watts: float, start: float = 0.0) -> float:
    """Let time pass on cards whose counter runs at this power; return the counter."""
    for _ in range(int(seconds / 2)):
        start += 2 * watts
        node.more = {COUNTER: start}
        node.runs(2.0)
    return start


def warm(node: Node, start: float = 0.0) -> float:
    """Let the counter grow until the ledger accepts it as a counter; return its value."""
    node.more = {COUNTER: start}
    node.poll()
    return run_counted(node, 4.0, node.power, start)


def test_counter_is_billed_instead_of_power() -> None:
    node = Node(power=100.0)
    counted = warm(node)
    node.power = 645.0
    node.gives(has(job("a")))
    run_counted(node, 100.0, 200.0, counted)
    record = by_name(node.ends())["a"]
    assert record.energy_joules == pytest.approx(200.0 * 100.0, rel=0.03)
    assert [card.energy_source for card in record.cards] == ["counter"]
    assert record.cards[0].readings["power_watts"].mean == pytest.approx(645.0)


@pytest.mark.parametrize("more", [{}, {COUNTER: 5.0}], ids=["no counter", "a counter that never grows"])
def test_energy_is_estimated_without_a_counter(more) -> None:
    node = Node(power=300.0, more=more)
    node.poll()
    node.gives(has(job("a")))
    node.runs(100.0)
    record = by_name(node.ends())["a"]
    assert record.energy_joules == pytest.approx(300.0 * 98.0, rel=0.03)
    assert [card.energy_source for card in record.cards] == ["estimated"]


def test_stopped_counter_is_replaced_by_an_estimate() -> None:
    node = Node(power=300.0)
    counted = warm(node)
    node.gives(has(job("a")))
    counted = run_counted(node, 100.0, 300.0, counted)
    node.runs(1000.0)
    now = node.ledger.update_totals_by_owner("GPU-a")["job", "a"].energy_joules
    assert now == pytest.approx(300.0 * 1100.0, rel=0.01)
    run_counted(node, 500.0, 200.0, counted)
    record = by_name(node.ends())["a"]
    assert record.energy_joules == pytest.approx(300.0 * 1100.0 + 200.0 * 500.0, rel=0.01)
    assert [card.energy_source for card in record.cards] == ["estimated"]


def test_rarely_growing_counter_is_used() -> None:
    node = Node(power=30.0)
    counted = warm(node)
    node.gives(has(job("a")))
    for _ in range(10):  # watt-hours
        counted += 3600.0
        node.more = {COUNTER: counted}
        node.runs(120.0)
    node.power = 0.0
    node.runs(600.0)
    record = by_name(node.ends())["a"]
    assert [card.energy_source for card in record.cards] == ["counter"]
    assert record.energy_joules == pytest.approx(9 * 3600.0)  # the first step was drawn before it came


def test_rarely_read_counter_is_used() -> None:
    """The power shows at once that a card is busy; the counter is read once a minute."""
    node, counted = Node(), 0.0
    for minute, watts in enumerate((50.0, 50.0, 50.0, 700.0, 700.0)):
        node.power = watts
        if minute == 3:
            node.gives(has(job("a")))
        read_at = node.now + 2.0
        for _ in range(31):
            node.now += 2.0
            device = node.device("GPU-a")
            counter = MergedReading(COUNTER, "", counted, "nvml", read_at, 60.0)
            node.see([replace(device, readings=(*device.readings, counter))])
        counted += 62.0 * watts
    assert [card.energy_source for card in by_name(node.ends())["a"].cards] == ["counter"]


def test_counter_starts_again_after_a_reset_or_pause() -> None:
    node = Node()
    counted = warm(node, 1e6)
    node.gives(has(job("a")))
    run_counted(node, 20.0, 100.0, counted)
    run_counted(node, 20.0, 100.0, 0.0)
    node.now += 3600.0
    run_counted(node, 20.0, 100.0, 5e8)
    energy = by_name(node.ends())["a"].energy_joules
    assert energy == pytest.approx(100.0 * 54.0, rel=0.05)


def test_energy_and_its_source_survive_a_restart() -> None:
    node = Node()
    counted = warm(node)
    node.gives(has(job("a")))
    counted = run_counted(node, 60.0, 100.0, counted)
    kept = {record.owner.name: record for record in node.kept().jobs}
    assert kept["a"].cards[0].energy_source == "counter"
    node = node.restarted(5.0)
    run_counted(node, 60.0, 100.0, counted + 500.0)
    assert by_name(node.ends())["a"].energy_joules == pytest.approx(100.0 * 120.0, rel=0.05)


CHANGES = st.lists(
    st.tuples(st.lists(st.sampled_from("abc"), max_size=2, unique=True), st.integers(1, 20), st.floats(1.0, 700.0)),
    min_size=1,
    max_size=12,
)


@given(CHANGES)
@settings(max_examples=30)
def test_owners_and_rest_equal_the_counter(changes: list[tuple[list[str], int, float]]) -> None:
    node = Node(power=100.0)
    counted = warm(node)
    node.power = 5000.0
    for names, polls, watts in changes:
        node.gives(*(has(job(name), 1.0 / len(names)) for name in names))
        counted = run_counted(node, 2.0 * polls, watts, counted)
    billed = sum(record.energy_joules or 0.0 for record in node.ends())
    assert billed == pytest.approx(counted, rel=1e-6, abs=1e-6)


OWNERS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(50, 700)), min_size=2, max_size=8)


@given(OWNERS, st.integers(0, 9), st.sampled_from([0.0, 1.0]))
@settings(max_examples=20)
def test_each_owner_has_its_part_of_the_counter(changes: list[tuple[str, int]], phase: int, lag: float) -> None:
    """Owners change every 7 seconds; the change triggers a reading of the counter, at once or a second later."""
    node, joules, expected = Node(), 0.0, {"nobody": 0.0}
    starts = {30 + 7 * number: change for number, change in enumerate(changes)}
    watts, holder = 100, "nobody"
    for second in range(30 + 7 * len(changes) + 30):
        if second in starts or second == 30 + 7 * len(changes):
            name, watts = starts.get(second, ("", 100))
            holder = f"{name}{second}" if name else "nobody"
            started, begun = START + second, second
        is_news = second >= 30 and second == begun + lag
        if is_news:
            node.gives(*([has(job(holder), started=started)] if holder != "nobody" else []))
        readings = {"power_watts": float(watts)} if second % 2 == 0 else {}
        if second % 10 == phase or is_news:
            readings[COUNTER] = joules
        see(node, second, readings)
        joules += watts
        expected[holder] = expected.get(holder, 0.0) + watts
    found = {name: record.energy_joules or 0.0 for name, record in by_name(node.ends()).items()}
    allowed = 0.01 if lag == 0.0 else 0.1
    del found["nobody"], expected["nobody"]
    assert found == {name: pytest.approx(energy, abs=allowed * 4900) for name, energy in expected.items()}


def see(node: Node, second: int, readings: dict[str, float]) -> None:
    """Show the card with the readings of that second, and the newest others."""
    newest = node.more | {f"{name}@": second for name in readings} | readings
    node.more, node.now = newest, float(second)
    values = tuple(
        MergedReading(name, "", newest[name], "nvml", float(newest[f"{name}@"]), 10.0 if name == COUNTER else 2.0)
        for name in (COUNTER, "power_watts")
        if name in newest
    )
    node.see([replace(node.device("GPU-a"), readings=values)])


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0.5, 1.0, 2.0, 3.9, 4.1, 30.0]),
        st.one_of(st.none(), st.floats(0, 1000)),
        st.sampled_from(["nvml", "dcgm"]),
        st.lists(
            st.tuples(st.sampled_from("abcd"), st.sampled_from([0.1, 0.25, 1 / 3]), st.floats(-60, 0)), max_size=3
        ),
        st.sampled_from(["", "", "", "restart", "gone", "ended", "step"]),
    ),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=40)
def test_owners_and_rest_equal_the_devices_counters(steps):
    node, before, previous, begun = Node(), 0.0, {}, {}
    watched, is_there = 0.0, False
    for elapsed, value, source, owners, what in steps:
        node.now += elapsed
        shares = {name: (share, ago) for name, share, ago in owners}
        begun = {name: begun.get(name, node.wall + ago) for name, (_, ago) in shares.items()}
        node.gives(*(has(job(name), share, begun[name]) for name, (share, _) in shares.items()))
        if what == "restart":
            before += counted(node)
            node = node.restarted(5.0)
            previous, is_there = {}, False
        node.wall_ahead += 100.0 if what == "step" else 0.0
        node.claims = tuple(Claim(job(name), ended=node.wall - 1.0) for name in "abcd") if what == "ended" else ()
        readings = () if value is None else (MergedReading("power_watts", "", value, source, node.now, 2.0),)
        node.see([] if what == "gone" else [replace(node.device("GPU-a"), readings=readings)])
        watched += elapsed if is_there and what != "gone" else 0.0
        is_there = what != "gone"
        now = node.ledger.update_totals_by_owner("GPU-a")
        assert all(now[key].seconds >= previous[key].seconds for key in now.keys() & previous.keys())
        previous = now
    records = node.ends()
    assert sum(record.seconds for record in records) == pytest.approx(watched, rel=1e-9)
    total = sum(record.energy_joules or 0.0 for record in records)
    assert total == pytest.approx(before + counted(node), rel=1e-9, abs=1e-6)


def counted(node: Node) -> float:
    device = replace(node.device("GPU-a"), readings=(MergedReading("power_watts", "", 0.0, "nvml", node.now, 2.0),))
    (device,) = node.accumulator.with_counters([device])
    return sum(
        float(reading.value)  # type: ignore[arg-type]  # this one is always a number
        for reading in device.readings
        if reading.metric == "energy_estimated_joules_total"
    )
