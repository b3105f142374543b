"""The findings of a device: each fault alone, several at once, and the same in all outputs."""

import json
import re
from dataclasses import replace

import pytest

from kits import snapshots as kit
from kits.planted_faults import FAULTS, NO_FAULTS, WELL, Fault, node_with, planted, readings_with
from telemetry_exporters.documents.snapshot_json import render
from telemetry_exporters.judgement.overview import rows, troubles
from telemetry_exporters.judgement.verdict import CONDITIONS, Severity, judge
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.terminal.table import Detail, table
from telemetry_parsers.model import Absent

GRAVE = [Severity.BAD, Severity.WARNING, Severity.QUIET]


def findings(*devices):
    return judge(kit.snapshot(*devices))[devices[0].id]


@pytest.mark.parametrize("fault", {**FAULTS, **NO_FAULTS}.values(), ids={**FAULTS, **NO_FAULTS})
def test_each_fault_has_its_word(fault):
    worst, *_ = findings(*planted(0, fault))
    assert (worst.word, worst.severity.value) == (fault.word, fault.severity)


def test_conditions_are_ordered_and_have_remedies():
    assert [condition.severity for condition in CONDITIONS] == sorted(
        (condition.severity for condition in CONDITIONS), key=GRAVE.index
    )
    assert all(bool(condition.remedy) == (condition.severity is not Severity.QUIET) for condition in CONDITIONS)


def test_conditions_match_the_documented_table():
    def shape(word):
        return re.sub(r"\d+", "0", word).replace("link ", "links ").replace("drain and ", "")

    found = {
        (shape(finding.word), finding.severity) for fault in FAULTS.values() for finding in findings(*planted(0, fault))
    }
    in_fleet = {("0 links down", Severity.WARNING)}
    assert {(shape(condition.example), condition.severity) for condition in CONDITIONS} <= found | in_fleet


def test_findings_are_ordered_worst_first():
    bad = {
        ("temperature_celsius", "core"): 90.0,
        ("throttled", "sw_thermal"): 1.0,
        ("throttled", "sw_power_cap"): 1.0,
        ("event_open", "xid_79"): 1.0,
        ("event_open", "xid_94"): 1.0,
    }
    words = [finding.word for finding in findings(*planted(0, Fault("", "", bad)))]
    assert words == ["xid_79", "xid_94", "over 87 °C", "throttled by heat", "at power cap"]


def test_absent_readings_change_no_condition():
    absent = [kit.reading(metric, Absent.NOT_SUPPORTED, label) for metric, label in WELL]
    assert [finding.word for finding in findings(kit.device(0, *absent))] == ["unknown"]
    some = [kit.reading("power_watts", 100.0), kit.reading("ecc_uncorrected_total", Absent.NOT_REPORTED, "all")]
    assert [finding.word for finding in findings(kit.device(0, *some))] == ["ok"]


@pytest.mark.parametrize(
    ("others", "word", "severity"),
    [
        ((2, 2, 2), "1 link down", "warning"),
        ((2, 2), "1 link down", "quiet"),  # too few to know the usual count
        ((1, 1, 2), "1 link down", "quiet"),
        ((), "1 link down", "quiet"),
    ],
)
def test_down_link_counts_if_most_cards_of_the_model_have_it_up(others, word, severity):
    one_down = Fault("", "", {("link_up", "1"): 0.0})
    cards = [kit.device(0, *readings_with(one_down))]
    cards += [
        kit.device(number, *readings_with(one_down if up == 1 else Fault("", "")))
        for number, up in enumerate(others, start=1)
    ]
    worst, *_ = findings(*cards)
    assert (worst.word, worst.severity.value) == (word, severity)


def test_card_without_links_is_found_if_its_peers_have_links():
    dark = Fault("", "", {("link_up", "0"): 0.0, ("link_up", "1"): 0.0})
    cards = [kit.device(0, *readings_with(dark)), *(kit.device(n, *readings_with(Fault("", ""))) for n in (1, 2, 3))]
    assert findings(*cards)[0].word == "2 links down"
    assert [finding.word for finding in judge(kit.snapshot(*cards))[cards[1].id]] == ["ok"]


def test_table_details_document_and_rows_agree_on_every_fault():
    node, ids = node_with({**FAULTS, **NO_FAULTS})
    document = {device["id"]: device["condition"] for device in json.loads(render(node))["devices"]}
    by_id = {row.device.id: row for row in rows(node)}
    names = {device.id: f"{device.vendor} {device.device} {device.model} " for device in node.devices}
    lines = {line.split()[1]: line for line in table(node, 0, Colour.NEVER).splitlines()[3 : 3 + len(node.devices)]}
    details = table(node, 0, Colour.NEVER, Detail.EVERYTHING)
    for name, fault in {**FAULTS, **NO_FAULTS}.items():
        row = by_id[ids[name]]
        assert document[row.device.id] == {"word": fault.word, "severity": fault.severity}, name
        assert (row.condition.word, row.condition.severity.value) == (fault.word, fault.severity), name
        assert lines[row.device.device].endswith(f"  {fault.word}"), name
        assert f"\n{names[row.device.id]}({fault.word}" in details, name


def test_no_condition_makes_the_table_wider_than_a_terminal():
    node, _ = node_with(FAULTS)
    lines = table(node, 80, Colour.NEVER).splitlines()[2 : 3 + len(node.devices)]
    assert max(map(len, lines)) <= 80


def test_troubles_name_devices_and_remedies_worst_first():
    node, _ = node_with(FAULTS)
    found = list(troubles(node))
    named = " ".join(trouble.what for trouble in found)
    for row in rows(node):
        needs_somebody = row.condition.severity in (Severity.BAD, Severity.WARNING) or row.device.up is None
        assert bool(re.search(rf"\b{row.device.device}\b", named)) == needs_somebody, row
    assert all(trouble.remedy for trouble in found)
    ranks = {f"{finding.headline}: {finding.meaning}": finding.rank for row in rows(node) for finding in row.findings}
    order = [ranks[trouble.why] for trouble in found if trouble.why != "unknown"]
    assert order == sorted(order)
    assert {trouble.severity for trouble in found} == {Severity.BAD, Severity.QUIET, Severity.WARNING}


def test_lost_and_broken_devices_are_grouped_and_come_before_sources_and_warnings():
    xid = [kit.reading("event_open", 1.0, "xid_79"), kit.reading("power_watts", 90.0)]
    hot = readings_with(Fault("", "", {("temperature_celsius", "core"): 90.0}))
    cards = [kit.device(number, *(hot if number == 1 else xid)) for number in (1, 3, 7)]
    lost = [kit.device(number, up=False) for number in (12, 13)]
    hung = kit.source(state="stuck", reason="timeout")
    listed = [
        (trouble.what, trouble.why.split(":")[0]) for trouble in troubles(kit.snapshot(*cards, *lost, sources=(hung,)))
    ]
    assert [why for _, why in listed] == ["lost", "Xid 79, fell off the bus", "stuck", "over 87 °C"]
    assert [what for what, _ in listed][:3] == ["nvidia 12, 13", "nvidia 3, 7", hung.source]
    (trouble, *_) = troubles(kit.snapshot(*lost))
    assert "`telemetry forget ID`" in trouble.remedy


@pytest.mark.parametrize(("source", "by_hand"), [("nvml", False), ("mtml", False), ("npu-smi", True)])
@pytest.mark.parametrize(
    "reason", ["timeout", "exit_status", "too_much_output", "killed", "driver_gone", "not_understood"]
)
@pytest.mark.parametrize("state", ["failed", "stuck"])
def test_no_remedy_says_to_run_a_library_by_hand(source, by_hand, reason, state):
    (trouble,) = troubles(kit.snapshot(sources=(kit.source(source, state=state, reason=reason),)))
    assert trouble.remedy
    assert "{" not in trouble.remedy
    if not by_hand:
        assert "by hand" not in trouble.remedy
        assert "its process" not in trouble.remedy


def test_remedy_for_a_released_source_is_the_resume_command():
    unread = replace(kit.device(0), up=None, last_read=kit.WALL_TIME - 9.0)
    for state, remedy in (
        ("released", "the source nvml is released: run `telemetry resume nvml`"),
        ("stuck", "find out why"),
    ):
        *_, trouble = troubles(kit.snapshot(unread, sources=(kit.source("nvml", state=state),)))
        assert (trouble.why, trouble.remedy.startswith(remedy)) == ("unknown", True)
