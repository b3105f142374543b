"""Simulated sources as the rest of the daemon sees them: polls, captures, reports, and a node merged from them."""

from __future__ import annotations

import copy
import json
import re
from importlib.metadata import entry_points

import pytest

from kits.fed_node import DemoNode
from simulate.fast_motion import FastMotion
from telemetry_daemon.simulate.cards import VALUE_FUNCTIONS, CardState
from telemetry_daemon.simulate.demo import SIMULATED_VENDORS, DemoError, parse_demo, parse_faults
from telemetry_daemon.simulate.jobs import simulated_parser
from telemetry_daemon.simulate.simulation import NO_FAULTS, FaultRates
from telemetry_daemon.simulate.source import SimulatedSource, parse
from telemetry_exporters.judgement.verdict import judge as judge_devices
from telemetry_parsers.codec.captures import capture_from_plain, capture_to_plain
from telemetry_parsers.metrics import BY_KEY, CORE_KEYS
from telemetry_parsers.model import Absent, Capture, Command, Library, Output, Report
from telemetry_parsers.vendors import VENDOR_BY_WORD, VENDOR_WORDS


def all_reports(motion):
    return {poll: motion.report(poll) for poll in motion.polls}


@pytest.mark.parametrize("vendor", VENDOR_WORDS)
def test_source_reports_what_it_declares(vendor):
    motion = FastMotion(vendor)
    reports = all_reports(motion)
    readings = [reading for report in reports.values() for reading in report.readings]
    parser, demo = motion.source.parser, VENDOR_BY_WORD[vendor].demo
    assert (parser.vendor, parser.name) == (vendor, demo.source)
    assert {reading.metric for reading in readings} == set(parser.gives)
    assert len(set(parser.gives)) == len(parser.gives), "each metric comes from one poll"
    assert [poll.name for poll in parser.polls if poll.lists_devices] == ["readings"]
    for report in reports.values():
        assert (report.outcome, report.problems) == ("ok", ())
        assert len({(r.device, r.metric, r.label) for r in report.readings}) == len(report.readings)
        assert report.index_space == parser.name
        assert dict(report.facts)["tool_version"] == demo.tool_version
        assert all(0 <= process.device < 4 for process in report.processes)
        assert [device.index for device in report.devices] == [0, 1, 2, 3]
        for device in report.devices:
            assert (device.simulated, device.vendor, device.model) == (True, vendor, demo.card.model)
            assert device.serial.startswith("SIM-")
            assert all((device.uuid, device.driver))
            assert re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", device.bus_id)
            assert dict(device.facts)["power_kind"] in ("average", "instant")
    for reading in readings:
        metric = BY_KEY[reading.metric]
        assert reading.value is not Absent.IMPLAUSIBLE
        has_label = metric.label and isinstance(reading.value, float)
        assert re.fullmatch(r"[a-z0-9_]+" if has_label else "", reading.label)
        if reading.metric in ("health", "recovery_action", "performance_level", "engine_utilization_ratio"):
            assert reading.label in metric.words


@pytest.mark.parametrize("word", SIMULATED_VENDORS)
def test_metrics_are_those_of_the_real_sources(word):
    loaded = [entry.load() for entry in entry_points(group="telemetry.parsers")]
    real = {key for parser in loaded if parser.vendor == SIMULATED_VENDORS[word].word for key in parser.gives}
    assert set(SimulatedSource(word, 1).parser.gives) - real == set()


def test_card_with_mig_is_reported_with_its_instances():
    motion = FastMotion("h100mig", 2)
    report = motion.report()
    assert [device.parent for device in report.devices] == [None, None, 0, 0, 0, 1, 1, 1]
    assert [device.partition for device in report.devices[2:5]] == ["0", "1", "2"]
    assert {device.model.split(" MIG ")[-1] for device in report.devices[2:]} == {"3g.40gb", "2g.20gb", "1g.10gb"}
    assert len({device.uuid for device in report.devices}) == 8
    of_metric = {}
    for reading in report.readings:
        of_metric.setdefault(reading.metric, {})[reading.device] = reading.value
    assert set(of_metric["utilization_ratio"]) == set(range(2, 8))
    assert set(of_metric["power_watts"]) == {0, 1}
    total = of_metric["memory_total_bytes"]
    assert sum(total[part] for part in (2, 3, 4)) < total[0]


def test_lifetime_counters_survive_a_reset():
    card = CardState(VENDOR_BY_WORD["nvidia"].demo, 0, corrected_errors=3, uncorrected_errors=1)
    card.reset()
    card.corrected_errors += 2
    assert VALUE_FUNCTIONS["ecc_corrected_total"](card)["dram"] == 2
    assert VALUE_FUNCTIONS["ecc_corrected_lifetime_total"](card)["dram"] == 5
    assert VALUE_FUNCTIONS["ecc_uncorrected_lifetime_total"](card)["dram"] == 1


def test_running_job_is_a_process_of_its_cards():
    motion = FastMotion("nvidia", 8)
    report = motion.report("slow")
    counted = {r.device for r in report.readings if r.metric == "processes" and r.value > 0.0}
    assert counted == {process.device for process in report.processes} != set()
    assert all(process.pid > 0 and process.name and process.memory_used_bytes > 0 for process in report.processes)


@pytest.mark.parametrize("vendor", VENDOR_WORDS)
def test_recorded_capture_replays_to_the_same_report(vendor):
    motion = FastMotion(vendor, 8)
    motion.now += 100.0
    for poll in motion.polls:
        capture = motion.capture(poll)
        replayed = capture_from_plain(json.loads(json.dumps(capture_to_plain(capture))))
        assert replayed == capture
        parser = simulated_parser(replayed)
        assert parser.parse(replayed) == motion.source.parser.parse(capture)
        assert parser == motion.source.parser


def test_real_capture_is_not_mistaken_for_a_simulated_one():
    for request in (Command((("hy-smi",),)), Library("nvml"), Library("simulator")):
        assert simulated_parser(Capture("rocm-smi", "readings", request)) is None


EVENT = {"device": 2, "code": "xid_31", "text": "", "wall_time": 1.0, "is_ongoing": False}
DATA = FastMotion("nvidia", 2).capture().outputs[0].data


def parsed(data) -> Report:
    return parse(Capture("nvml", "readings", Library("simulator"), (Output(data=data),)))


def changed(path, value):
    """Return the data with another value at this path."""
    data = copy.deepcopy(DATA)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (("values", 0, "power_watts"), "1", "'1' is not a valid Absent"),
        (("values", 0, "power_watts"), None, "found None"),
        (("values", 0, "horse_power"), 1.0, "expected only known metrics"),
        (("values",), [], "for each device"),
        (("report", "devices", 0, "index"), "0", "devices[0].index"),
        (("report", "devices", 1, "parent"), 1, "expected whole cards as parents"),
        (("report", "devices", 0, "vendor"), "acme", "expected one of the vendors"),
        (("report", "events"), [EVENT], "expected events and processes whose devices are in the report"),
    ],
)
def test_damaged_capture_is_a_failed_report(path, value, what):
    report = parsed(changed(path, value))
    assert (report.outcome, report.reason) == ("failed", "not_understood")
    (problem,) = report.problems
    assert problem.where == "readings"
    assert what in problem.text


def test_missing_data_fail_and_excessive_number_is_implausible():
    assert {parsed(data).outcome for data in (None, True, 1.5, "x", [DATA], {}, {"report": 1})} == {"failed"}
    assert parse(Capture("nvml", "readings", Library("simulator"))).outcome == "failed"
    far = parsed(changed(("values", 1, "power_watts"), 1e300))
    assert far.outcome == "ok"
    assert Absent.IMPLAUSIBLE in [reading.value for reading in far.readings if reading.metric == "power_watts"]


def rounds(node, count):
    """Yield the snapshot after each round of all polls, two seconds apart."""
    for _ in range(count):
        node.now += 2.0
        for source in node.simulated:
            for poll in source.parser.polls:
                node.ask(source, poll, poll.interval)
        yield node.store.snapshot()


@pytest.mark.parametrize(
    "faults", [FaultRates(fatal_events=75.0), FaultRates(lost_cards=75.0)], ids=["reset", "lost and back"]
)
def test_event_is_open_until_its_card_is_repaired(faults):
    seen = set()
    for snapshot in rounds(DemoNode("2xnvidia", faults=faults, seed=7), 120):
        for device in snapshot.devices:
            values = {(reading.metric, reading.label): reading.value for reading in device.readings}
            is_open = ("event_open", "xid_119") in values or ("event_open", "xid_79") in values
            seen.add((device.up, is_open))
            assert not device.up or is_open == (values["recovery_action", "reset"] == 1.0)
    assert seen >= {(True, False), (True, True)}
    assert ((False, True) in seen, (False, False) in seen) == (faults.lost_cards > 0.0, False)


@pytest.mark.parametrize(
    ("fault", "position", "seen"),
    [
        ("lost", 3, {"lost"}),
        ("hot", 0, {"near 87 °C", "over 87 °C", "throttled by heat"}),
        ("xid", 1, {"xid_119", "needs reset"}),
        ("flapping", 2, {"lost", "ok"}),
        ("hung", 0, {"unknown"}),
    ],
)
def test_staged_fault_is_the_only_condition(fault, position, seen):
    of_card, of_others = set(), set()
    for snapshot in rounds(DemoNode("4xnvidia", faults=NO_FAULTS, staged_faults=(fault,)), 75):
        for device, findings in zip(snapshot.devices, judge_devices(snapshot).values(), strict=True):
            words = {finding.word for finding in findings}
            (of_card if device.index == position or fault == "hung" else of_others).update(words)
    assert of_card >= seen - {"near 87 °C", "over 87 °C", "throttled by heat"}
    assert of_card & seen
    assert of_others <= {"ok", "at power cap"}


def test_unknown_fault_is_refused_with_suggestions():
    with pytest.raises(DemoError, match="'lots' is unknown; known: lost, hot, xid, hung, flapping"):
        parse_faults("hot, lots")
    assert parse_faults("") == ()


@pytest.mark.parametrize(
    "cards", ["210xnvidia", ",".join(f"2x{vendor}" for vendor in VENDOR_WORDS)], ids=["many cards", "every vendor"]
)
def test_merged_node_has_no_problems(cards):
    groups = parse_demo(cards)
    *_, snapshot = rounds(DemoNode(cards, faults=NO_FAULTS), 2)
    count = sum(count for _, count in groups)
    assert len(snapshot.devices) == len({device.bus_id for device in snapshot.devices}) == count
    assert len({device.uuid for device in snapshot.devices}) == count
    assert all(device.up and device.simulated for device in snapshot.devices)
    assert [problem for source in snapshot.sources for problem in source.problems] == []
    assert {source.version for source in snapshot.sources} == {
        VENDOR_BY_WORD[vendor].demo.tool_version for vendor, _ in groups
    }
    for device in snapshot.devices:
        values = {reading.metric: reading.value for reading in device.readings if isinstance(reading.value, float)}
        assert values["energy_estimated_joules_total"] > 0.0
        assert values.keys() >= {"busy_seconds_total", "memory_used_ratio"}
        assert device.driver


def test_nvidia_demo_shows_every_core_metric():
    motion = FastMotion("nvidia")
    shown = {r.metric for report in all_reports(motion).values() for r in report.readings}
    assert shown >= CORE_KEYS - {"info", "up", "memory_used_ratio"}
