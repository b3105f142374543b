"""A report within its limits is accepted; a larger report is cut to the limits, with a problem."""

from dataclasses import replace

import pytest

from telemetry_parsers import bounds
from telemetry_parsers.merge.admission import admit
from telemetry_parsers.model import Device, Event, Identity, Problem, Process, Reading, Report

LONG = "x" * 5000
CARDS = tuple(Device("amd", number, bus_id=f"0000:{number:02x}:00.0") for number in range(4))
ORDINARY = Report(
    devices=CARDS,
    readings=tuple(
        Reading(card, "temperature_celsius", 40.0, word) for card in range(4) for word in ("edge", "memory")
    ),
    events=(Event(0, "xid_79"),),
    processes=(Process(1, 4711, "python3", 1e9),),
    problems=(Problem("line 3", "not known"),),
    unknown_fields=("Drain",),
    facts=(("tool_version", "6.2"),),
)


def cards(count: int, start: int = 0) -> tuple[Device, ...]:
    return tuple(Device("amd", number, uuid=f"GPU-{number:08x}-b1c2") for number in range(start, start + count))


def test_ordinary_report_is_not_changed() -> None:
    assert admit(ORDINARY, ()).report is ORDINARY


@pytest.mark.parametrize(
    ("part", "items", "most"),
    [
        ("events", tuple(Event(0, f"code_{n}") for n in range(5000)), bounds.MAX_EVENTS),
        ("processes", tuple(Process(0, n, "a") for n in range(5000)), bounds.MAX_PROCESSES),
        ("unknown_fields", tuple(f"field {n}" for n in range(5000)), bounds.MAX_UNKNOWN_FIELDS),
        ("facts", tuple((f"fact_{n}", "a") for n in range(5000)), bounds.MAX_FACTS),
        ("readings", tuple(Reading(0, f"metric_{n}", 1.0) for n in range(40_000)), bounds.MAX_READINGS),
        ("readings", tuple(Reading(0, "link_up", 1.0, f"link{n}") for n in range(5000)), bounds.MAX_LABEL_VALUES),
    ],
)
def test_first_items_are_kept_if_there_are_too_many(part: str, items: tuple[object, ...], most: int) -> None:
    admitted = admit(replace(ORDINARY, **{part: items}), ())
    assert getattr(admitted.report, part) == items[:most]
    *before, problem = admitted.report.problems
    assert tuple(before) == ORDINARY.problems
    assert (problem.where, str(len(items)) in problem.text or str(len(items) - most) in problem.text) == (
        "too much",
        True,
    )
    assert admitted.dropped_devices == 0


def test_problems_beyond_the_limit_become_one() -> None:
    problems = tuple(Problem("line", f"problem {n}") for n in range(5000))
    kept = admit(replace(ORDINARY, problems=problems), ()).report.problems
    assert kept[:-1] == problems[: bounds.MAX_PROBLEMS]
    assert "5000 reported problems" in kept[-1].text


def test_facts_of_a_device_are_bounded_too() -> None:
    card = replace(CARDS[0], facts=tuple((f"fact_{n}", "a") for n in range(5000)))
    admitted = admit(replace(ORDINARY, devices=(card, *CARDS[1:])), ())
    assert len(admitted.report.devices[0].facts) == bounds.MAX_FACTS
    assert admitted.report.devices[1:] == CARDS[1:]


def test_whatever_becomes_a_name_or_a_line_is_cut() -> None:
    report = Report(
        devices=(Device("amd", 0, LONG, LONG, LONG, LONG, None, LONG, LONG, facts=((LONG, LONG),)),),
        readings=(Reading(0, "link_up", 1.0, LONG),),
        events=(Event(0, LONG),),
        processes=(Process(0, 1, LONG),),
        problems=(Problem(LONG, LONG),),
        unknown_fields=(LONG,),
        facts=((LONG, LONG),),
        index_space=LONG,
    )
    admitted = admit(report, ())
    assert len(repr(admitted.report)) < 16 * bounds.MAX_NAME_LENGTH + 2 * bounds.MAX_TEXT_LENGTH + 2000
    assert "were cut" in admitted.report.problems[-1].text
    assert len(admitted.report.problems) == 2


@pytest.mark.parametrize("position", range(12))
def test_each_long_text_is_cut(position: int) -> None:
    texts = ["a"] * 12
    texts[position] = LONG
    card = Device("amd", 0, *texts[:3], texts[3], None, texts[4], texts[5], facts=((texts[6], "b"),))
    report = Report(
        devices=(card,),
        readings=(Reading(0, "link_up", 1.0, texts[7]),),
        events=(Event(0, texts[8]),),
        processes=(Process(0, 1, texts[9]),),
        unknown_fields=(texts[10],),
        problems=(Problem("line", texts[11]),),
    )
    assert LONG not in repr(admit(report, ()).report)


def test_most_seen_devices_are_kept_if_there_are_too_many() -> None:
    """The known cards are last in the list, after hundreds of new ones."""
    honest = cards(2)
    identities = [Identity(card.uuid or "", "amd", "0", "", uuid=card.uuid, polls=1 << 9) for card in honest]
    report = Report(
        devices=(*cards(600, start=100), *honest),
        readings=tuple(Reading(position, "power_watts", float(position)) for position in range(602)),
        processes=(Process(601, 4711, "train"), Process(599, 4712, "none")),
    )
    admitted = admit(report, identities)
    assert admitted.dropped_devices == 602 - bounds.MAX_DEVICES
    accepted = admitted.report
    assert len(accepted.devices) == len(accepted.readings) == bounds.MAX_DEVICES
    assert accepted.devices[-2:] == honest
    assert [(accepted.devices[reading.device], reading.value) for reading in accepted.readings[-2:]] == [
        (honest[0], 600.0),
        (honest[1], 601.0),
    ]
    assert accepted.processes == (Process(bounds.MAX_DEVICES - 1, 4711, "train"),)


def test_partition_is_accepted_only_with_its_card() -> None:
    parts = tuple(Device("amd", None, uuid=f"MIG-{n:08x}", partition=str(n % 7), parent=n // 7) for n in range(1400))
    devices = admit(Report(devices=(*cards(200), *parts)), ()).report.devices
    assert len(devices) == bounds.MAX_DEVICES
    assert devices[:200] == cards(200)
    assert all(device.parent == position // 7 for position, device in enumerate(devices[200:]))
    crowded = admit(Report(devices=(*cards(300), *parts)), ()).report.devices
    assert crowded == cards(300)[: bounds.MAX_DEVICES]
