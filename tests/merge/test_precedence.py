"""The choice between readings of several sources or polls, and derived readings."""

from dataclasses import replace

import pytest

from merge.reports import Node, card, numbers, reported, values
from telemetry_parsers.merge.merge_state import MergeState
from telemetry_parsers.merge.merged import merge
from telemetry_parsers.merge.report_columns import check_report
from telemetry_parsers.model import Absent, Process, Reading

BUS0 = "0000:33:00.0"
GIB = float(1 << 30)


def report(source, readings, **more):
    facts = more.pop("facts", ())
    return reported(source, [(card(0, bus_id=BUS0, facts=facts), readings)], **more)


def only(merged):
    assert len(merged.devices) == 1
    return merged.devices[0]


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        pytest.param(
            [report("tool", {"power_watts": 50.0}, form="text"), report("sysfs", {"power_watts": 51.0}, form="data")],
            (51.0, "sysfs"),
            id="data before text",
        ),
        pytest.param(
            [report("table", {"power_watts": 50.0}, form="text"), report("json", {"power_watts": 51.0}, form="json")],
            (51.0, "json"),
            id="JSON before text",
        ),
        pytest.param(
            [
                report("tool", {"power_watts": 50.0}, form="text"),
                report("sysfs", {"power_watts": Absent.NOT_PERMITTED}, form="data"),
            ],
            (50.0, "tool"),
            id="a number before an absence",
        ),
        pytest.param(
            [report("a", {"power_watts": Absent.NOT_REPORTED}), report("b", {"power_watts": Absent.NOT_PERMITTED})],
            (Absent.NOT_PERMITTED, "b"),
            id="the most telling absence",
        ),
        pytest.param(
            [report("a", {"power_watts": 50.0}, poll="slow"), report("a", {"power_watts": 51.0}, taken=1.0)],
            (51.0, "a"),
            id="the newer of two polls",
        ),
        pytest.param(
            [
                report("a", {"power_watts": 50.0}),
                report("a", {"power_watts": 51.0}, poll="slow", taken=1.0, interval=60.0),
            ],
            (50.0, "a"),
            id="the poll that runs more often before a newer one",
        ),
        pytest.param(
            [report("a", {"power_watts": 50.0}), report("b", {"power_watts": 51.0}, taken=1.0)],
            (50.0, "a"),
            id="of two alike always the same, whichever was asked last",
        ),
        pytest.param(
            [report("a", {"power_watts": 0.0}, form="data"), report("b", {"power_watts": 7.0}, form="text")],
            (0.0, "a"),
            id="zero is a number",
        ),
    ],
)
def test_number_and_cheap_source_win(reports, expected):
    """The cheaper source wins, but a number wins over an absence."""
    reading = next(r for r in only(Node().see(*reports)).readings if r.metric == "power_watts")
    assert (reading.value, reading.source) == expected


def test_polls_that_take_turns_keep_their_arrangement():
    """The reused arrangement must not depend on the age of reports: rearranging eight cards takes 4 ms."""

    state, before, shown, arrangements = MergeState(), None, (None,) * 3, []
    for number in range(32):
        fast = report("nvml", {"power_watts": float(number)}, poll="fast", taken=float(number))
        counters, gpm = (
            report("nvml", {metric: 1.0}, poll=poll, taken=taken, interval=10.0, lists_devices=False)
            for metric, poll, taken in (
                ("energy_joules_total", "counters", 10.5 * (number // 10)),
                ("sm_active_ratio", "gpm", 10.5 * ((number + 5) // 10) - 5.0),
            )
        )
        shown = tuple(
            check_report(report, previous=old) for report, old in zip((fast, counters, gpm), shown, strict=True)
        )
        before = merge(shown, state, now=0.0, wall_time=0.0, previous=before)
        state = before.state
        arrangements.append(before.arrangement)
    # The number of lists in which a card was seen counts in powers of two.
    assert len({id(arrangement) for arrangement in arrangements[17:31]}) == 1
    # Pages keep their template while the readings keep their order.
    assert len({tuple(arrangement.devices[0].readings.shape.keys) for arrangement in arrangements[2:]}) == 1


@pytest.mark.parametrize("newer", [0, 1])
def test_the_newest_list_of_processes_counts(newer):
    """The arrangement does not depend on the age of reports, but an older list of processes must not win."""
    listing = report("s", {}, poll="list", taken=4.0)
    polls = [
        report("s", {}, poll=f"p{at}", taken=float(at == newer), processes=(Process(0, at, "a"),), lists_devices=False)
        for at in (0, 1)
    ]
    assert [process.pid for process in only(Node().see(listing, *polls)).processes] == [newer]


@pytest.mark.parametrize("newer", ["a", "b"])
def test_the_newest_source_of_a_host_metric_counts(newer):
    reports = []
    for source in ("a", "b"):
        report = reported(source, [], taken=float(source == newer))
        load = Reading(None, "telemetry_host_load1", float(source == "b"))
        reports.append(replace(report, report=replace(report.report, readings=(load,))))
    assert [reading.value for reading in Node().see(*reports).host] == [float(newer == "b")]


def test_the_next_source_takes_over_when_the_better_one_expires():
    sysfs = report("sysfs", {"power_watts": 51.0}, form="data", life=10.0)
    tool = report("tool", {"power_watts": 50.0}, form="text", life=45.0)
    node = Node()
    assert numbers(only(node.see(sysfs, tool, now=9.0)))["power_watts"] == 51.0
    assert numbers(only(node.see(sysfs, tool, now=10.0)))["power_watts"] == 50.0


def test_average_and_instantaneous_power_never_replace_one_another():
    """The kind of power_watts is fixed per device; a source of the other kind does not fill in."""
    node = Node()
    average = report("sysfs", {"power_watts": 51.0}, form="data", facts=(("power_kind", "average"),))
    instant = report("tool", {"power_watts": 90.0}, form="text", facts=(("power_kind", "instant"),))
    assert numbers(only(node.see(average, instant)))["power_watts"] == 51.0
    merged = only(node.see(instant))
    assert "power_watts" not in numbers(merged)
    assert dict(merged.facts)["power_kind"] == "average"


def test_a_counter_keeps_its_source():
    """Two sources count from different starts: the first chosen source stays."""
    node = Node()
    cheap = report("sysfs", {"energy_joules_total": 1000.0}, form="data")
    tool = report("tool", {"energy_joules_total": 5.0}, form="text")
    assert numbers(only(node.see(tool)))["energy_joules_total"] == 5.0
    assert numbers(only(node.see(cheap, tool)))["energy_joules_total"] == 5.0
    assert "energy_joules_total" not in numbers(only(node.see(cheap)))


def test_counter_waits_for_all_sources():
    """After a restart a card is known at once, and a tool may answer before the driver files are read."""
    node = Node()
    cheap = report("sysfs", {"energy_joules_total": 1000.0}, form="data")
    tool = report("tool", {"energy_joules_total": 5.0}, form="text")
    node.see(report("tool", {}))
    assert "energy_joules_total" not in numbers(only(node.see(tool, pending=("nvidia",))))
    assert numbers(only(node.see(tool, cheap)))["energy_joules_total"] == 1000.0
    assert numbers(only(node.see(tool, cheap, pending=("nvidia",))))["energy_joules_total"] == 1000.0


@pytest.mark.parametrize(
    ("used", "total", "ratio", "problems"),
    [
        (GIB, 4 * GIB, 0.25, 0),
        (0.0, 4 * GIB, 0.0, 0),
        (4 * GIB, 4 * GIB, 1.0, 0),
        (5 * GIB, 4 * GIB, Absent.IMPLAUSIBLE, 1),
    ],
)
def test_memory_ratio(used, total, ratio, problems):
    """Derived from used and total of one capture; an impossible pair stays as printed, with a problem."""
    merged = Node().see(report("tool", {"memory_used_bytes": used, "memory_total_bytes": total}))
    found = values(only(merged))
    assert (found["memory_used_bytes"], found["memory_total_bytes"], found["memory_used_ratio"]) == (used, total, ratio)
    assert len(merged.problems) == problems


def test_memory_ratio_never_mixes_captures():
    used = report("tool", {"memory_used_bytes": GIB}, taken=1.0)
    total = report("tool", {"memory_total_bytes": 2 * GIB}, poll="slow")
    assert "memory_used_ratio" not in values(only(Node().see(used, total)))


def test_printed_ratio_is_kept_if_none_can_be_derived():
    assert numbers(only(Node().see(report("tool", {"memory_used_ratio": 0.5}))))["memory_used_ratio"] == 0.5


def test_card_level_readings_are_counted_once():
    """Power, cap, energy and fan of a partition are dropped if its parent has them."""
    whole, part = card(0, bus_id=BUS0), card(None, bus_id=BUS0, partition="1", parent=0)
    report = reported(
        "sysfs",
        [
            (whole, {"power_watts": 500.0, "utilization_ratio": 0.5}),
            (part, {"power_watts": 500.0, "power_cap_watts": 750.0, "utilization_ratio": 0.25}),
        ],
    )
    found = [numbers(device) for device in Node().see(report).devices]
    assert found == [
        {"power_watts": 500.0, "utilization_ratio": 0.5},
        {"power_cap_watts": 750.0, "utilization_ratio": 0.25},
    ]


def test_declared_metric_without_a_reading_is_absent():
    found = values(only(Node().see(report("tool", {"power_watts": 5.0}, gives=("power_watts", "fan_ratio")))))
    assert found == {"power_watts": 5.0, "fan_ratio": Absent.NOT_REPORTED}


def test_value_out_of_range_is_implausible_from_any_source():
    found = values(only(Node().see(report("plugin", {"utilization_ratio": 42.0, "invented": 1.0}))))
    assert found == {"utilization_ratio": Absent.IMPLAUSIBLE}


def test_processes_come_from_one_source():
    first = reported("a", [(card(0, bus_id=BUS0), {})], form="data", processes=(Process(0, 1, "x"),))
    second = reported(
        "b", [(card(0, bus_id=BUS0), {})], form="text", processes=(Process(0, 1, "x"), Process(0, 2, "y"))
    )
    assert only(Node().see(first, second)).processes == (Process(0, 1, "x"),)


def test_positions_map_reported_to_merged_devices():
    """Each (source, poll) maps its positions to ids, so that events find their device."""
    merged = Node().see(reported("a", [(card(0, bus_id=BUS0), {})]), reported("b", [(card(4, bus_id=BUS0), {})]))
    assert merged.device_ids == {("a", "readings"): (BUS0,), ("b", "readings"): (BUS0,)}


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"umc": 2.0, "gfx": 0.0}, {"umc": 2.0, "gfx": 0.0}),
        ({"umc": Absent.NOT_PERMITTED}, {"umc": Absent.NOT_PERMITTED, "all": 2.0}),
        ({}, {"all": 2.0}),
    ],
    ids=["by place", "places that are not reported", "as a whole"],
)
def test_errors_are_shown_by_location_or_as_a_total(parts, expected):
    metric = "ecc_uncorrected_total"
    as_a_whole = report("tool", {metric: {"all": 2.0}})
    merged = Node().see(as_a_whole, report("sysfs", {metric: parts}, form="data"))
    assert values(only(merged)) == {f"{metric}.{label}": value for label, value in expected.items()}
