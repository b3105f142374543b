"""More than one output of a tool becomes one report."""

from telemetry_parsers.combining import combine_reports
from telemetry_parsers.model import Absent, Device, Event, Problem, Process, Reading, Report

BUS = "0000:33:00.0"


def report(*devices, readings=(), **more):
    return Report(devices=devices, readings=tuple(readings), **more)


def test_sightings_of_a_device_are_combined():
    table = report(Device("x", 0, model="A"), readings=[Reading(0, "power_watts", 5.0)])
    query = report(Device("x", 0, uuid="GPU-1234-abcd", bus_id=BUS), readings=[Reading(0, "fan_ratio", 0.5)])
    combined = combine_reports([table, query])
    assert combined.devices == (Device("x", 0, model="A", uuid="GPU-1234-abcd", bus_id=BUS),)
    assert combined.readings == (Reading(0, "power_watts", 5.0), Reading(0, "fan_ratio", 0.5))


def test_reports_of_different_cards_are_joined():
    combined = combine_reports([report(Device("x", n), readings=[Reading(0, "power_watts", float(n))]) for n in (4, 2)])
    assert [device.index for device in combined.devices] == [4, 2]
    assert [(r.device, r.value) for r in combined.readings] == [(0, 4.0), (1, 2.0)]


def test_first_number_wins_over_absences_and_later_numbers():
    values = [Absent.NOT_REPORTED, 1.0, 2.0, Absent.IMPLAUSIBLE]
    combined = combine_reports([report(Device("x", 0), readings=[Reading(0, "power_watts", v)]) for v in values])
    assert [reading.value for reading in combined.readings] == [1.0]


def test_positions_follow_their_devices():
    """Parents, processes and events point to the right device after devices were combined."""
    first = report(Device("x", 7))
    second = report(
        Device("x", 0),
        Device("x", 7),
        Device("x", 1, partition="0", parent=1),
        processes=(Process(1, 42, "train"),),
        events=(Event(0, "79"),),
    )
    combined = combine_reports([first, second])
    assert [(d.index, d.parent) for d in combined.devices] == [(7, None), (0, None), (1, 0)]
    assert [process.device for process in combined.processes] == [0]
    assert [event.device for event in combined.events] == [1]


def test_outcome_is_the_best_and_problems_are_kept():
    bad = Report(outcome="failed", reason="exit_status", problems=(Problem("line 1", "no"),), unknown_fields=("b",))
    good = report(Device("x", 0), facts=(("tool_version", "1"),), unknown_fields=("a",))
    combined = combine_reports([bad, good])
    assert (combined.outcome, combined.problems, combined.unknown_fields) == ("ok", bad.problems, ("b", "a"))
    assert combined.facts == (("tool_version", "1"),)
    assert combine_reports([bad]).reason == "exit_status"


def test_contradicting_identities_are_two_devices():
    for fact in ({"bus_id": "0000:09:00.0"}, {"uuid": "GPU-1111-aaaa"}, {"serial": "S1"}):
        other = {name: value[:-1] + "2" for name, value in fact.items()}
        assert len(combine_reports([report(Device("x", 0, **fact)), report(Device("x", 0, **other))]).devices) == 2


def test_two_rows_of_one_output_are_two_devices():
    assert len(combine_reports([report(Device("x", 0), Device("x", 0)), report()]).devices) == 2


def test_devices_without_identity_are_never_combined():
    assert len(combine_reports([report(Device("x")), report(Device("x"))]).devices) == 2


def test_the_processes_of_a_device_come_from_one_output():
    listed = report(Device("x", 0), processes=(Process(0, 10, "p"), Process(0, 11, "q")))
    assert [process.pid for process in combine_reports([listed, listed]).processes] == [10, 11]


def test_single_report_is_not_copied():
    single = report(Device("x", 0))
    assert combine_reports([single]) is single
