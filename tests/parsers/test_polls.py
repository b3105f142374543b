"""Command lines of tools, reasons of their error texts, and metrics of their targets."""

from dataclasses import replace

import pytest

from kits.captures import registered_parsers
from telemetry_parsers import units
from telemetry_parsers.model import Absent, Command, Device, Poll, Problem, Reading, Report
from telemetry_parsers.reports.draft import Draft, problem_by_text
from telemetry_parsers.reports.targets import fact, identity, metric, parsed, state, switch, value_of
from telemetry_parsers.text.answers import MAX_PROBLEMS, ErrorText, capped, error_report, failed_midway
from telemetry_parsers.text.lines import lines

PARSERS = registered_parsers()


def polls_of(source: str) -> dict[str, Poll]:
    return {poll.name: poll for poll in PARSERS[source].polls}


def lines_of(poll: Poll) -> tuple[tuple[str, ...], ...]:
    assert isinstance(poll.request, Command)
    return poll.request.alternatives


@pytest.mark.parametrize("source", ["amd-smi", "rocm-smi"])
def test_a_run_may_be_killed_without_harm_to_other_users_of_the_library(source: str) -> None:
    for poll in polls_of(source).values():
        assert isinstance(poll.request, Command)
        assert ("RSMI_MUTEX_THREAD_ONLY", "1") in poll.request.env
        assert poll.request.on_deadline == "kill"
        assert poll.wakes


def test_no_poll_of_rocm_smi_measures_for_long_changes_anything_or_lists_what_overwrites_itself() -> None:
    asked = {word for poll in polls_of("rocm-smi").values() for line in lines_of(poll) for word in line[1:]}
    assert not asked & {"-b", "--showbw", "-s", "--showclkfrq", "-e", "--showevents", "--showtempgraph"}
    assert all(word.startswith(("--show", "--json", "--version", "-a", "vram", "gtt")) for word in asked)


def test_a_rocm_smi_that_lacks_a_flag_is_asked_for_less_and_at_last_for_the_table() -> None:
    lines = lines_of(polls_of("rocm-smi")["readings"])
    asked = [set(line) - {"--json"} for line in lines[:3]]
    assert asked[0] > asked[1] > asked[2] > {"rocm-smi"}
    assert lines[-2:] == (("rocm-smi", "-a", "--json"), ("rocm-smi",))


def test_hccn_tool_is_asked_of_each_chip_that_others_list_and_measures_nothing() -> None:
    polls = polls_of("hccn-tool").values()
    lines = [line for poll in polls for line in lines_of(poll)]
    assert all(isinstance(poll.request, Command) and poll.request.per == "device" for poll in polls)
    assert all("{device}" in line and "-g" in line for line in lines)
    assert not {"-bandwidth", "-ping", "-optical", "-s"} & {word for line in lines for word in line}


def test_error_texts_have_reasons() -> None:
    for text, status, outcome, reason in [
        ("x: Permission denied", 1, "failed", "no_permission"),
        ("ioctl: Operation not permitted", None, "failed", "no_permission"),
        ("Driver is not loaded.", 0, "failed", "driver_gone"),
        ("could not communicate with the driver", 9, "failed", "driver_gone"),
        ("bash: foo-smi: command not found", 127, "failed", "exit_status"),
        ("/bin/sh: 1: foo-smi: not found", 127, "failed", "exit_status"),
        ("foo-smi: error while loading shared libraries: libfoo.so.2: cannot open", 127, "failed", "library_mismatch"),
        ("Segmentation fault (core dumped)", 139, "failed", "killed"),
        ("foo-smi: unrecognized option '--json'", 1, "wrong_request", None),
        ("Error: 17 of 18 things went wrong", 4, "failed", "exit_status"),
        ("Error: 17 of 18 things went wrong", 0, "failed", "not_understood"),
        ("Traceback (most recent call last):", None, "failed", "not_understood"),
    ]:
        report = error_report(lines(f"first words\n{text}\n"), status)
        assert report is not None
        assert (report.outcome, report.reason) == (outcome, reason)
        assert report.problems[0].where == "line 2"
        assert report.problems[0].text.startswith(text)
        assert not report.readings
        assert not report.devices


def test_text_without_an_error_has_no_error_report() -> None:
    assert error_report(lines("all is well: 42C\n"), 1) is None


def test_known_error_wins_over_an_earlier_unknown_one() -> None:
    report = error_report(lines("Error: giving up\nopen: permission denied\n"), 1)
    assert report is not None
    assert report.reason == "no_permission"


def test_a_tools_own_words_come_first_and_bring_their_remedy() -> None:
    own_texts = [ErrorText("no foo found", "no_devices", None, "plug one in")]
    report = error_report(lines("Error: no FOO found, permission denied\n"), 0, own_texts)
    assert report is not None
    assert report.outcome == "no_devices"
    assert report.problems[0].text.endswith("(plug one in)")


@pytest.mark.parametrize(("status", "reason"), [(1, "exit_status"), (-9, "killed")])
def test_a_torn_list_keeps_its_problems_and_loses_the_rest(status: int, reason: str) -> None:
    report = failed_midway(Report(problems=(Problem("line 3", "cut off"),), facts=(("tool_version", "1"),)), status)
    assert (report.outcome, report.reason, len(report.problems)) == ("failed", reason, 2)
    assert report.facts == (("tool_version", "1"),)


def test_many_problems_are_reported_as_a_count() -> None:
    problems = [Problem(f"line {number}", "bad") for number in range(1000)]
    shown = capped(problems)
    assert len(shown) == MAX_PROBLEMS
    assert shown[-1].text == f"and {1000 - MAX_PROBLEMS + 1} more problems"
    assert capped(problems[:MAX_PROBLEMS]) == tuple(problems[:MAX_PROBLEMS])


BAD = Absent.NOT_UNDERSTOOD


def test_value_is_read_with_the_unit_of_its_target() -> None:
    for target, text, unit, value in [
        (metric("power_cap_watts", unit="W"), "300", "", 300.0),
        (metric("power_cap_watts"), "300000 mW", "", 300.0),
        (metric("power_cap_watts"), "300", "", BAD),
        (metric("power_cap_watts"), "300", "W", 300.0),
        (metric("power_cap_watts"), "300000", "mw", 300.0),
        (metric("power_cap_watts"), "300", "MHz", BAD),
        (metric("power_cap_watts"), "N/A", "MHz", Absent.NOT_REPORTED),
        (metric("voltage_volts", "core"), "830", "mV", 0.83),
        (metric("power_cap_watts", unit="W", if_zero=Absent.NOT_SUPPORTED), "0.0 W", "", Absent.NOT_SUPPORTED),
        (metric("power_cap_watts", unit="W", words={"none": Absent.NOT_SUPPORTED}), "None", "", Absent.NOT_SUPPORTED),
        (metric("fan_rpm"), "1200 RPM", "", 1200.0),
        (switch("ecc_enabled", {"on": 1.0}), "ON", "", 1.0),
        (switch("ecc_enabled", {"on": 1.0}), "1", "", BAD),
        (switch("ecc_enabled", {"on": 1.0}), "N/A", "", Absent.NOT_REPORTED),
        (state("ecc_enabled", {"on": 1.0}), "Default", "", None),
        (parsed("pcie_link_generation", lambda text, unit: units.pcie_generation(text)), "16.0", "", 4.0),
        (parsed("fan_rpm", lambda text, unit: units.quantity(text, units.RPM, unit)), "1200", "RPM", 1200.0),
    ]:
        assert value_of(target, text, unit) == value


def test_first_values_of_a_reading_and_device_are_kept() -> None:
    draft = Draft("amd", wording=problem_by_text, words={"failed": Absent.NOT_REPORTED})
    card = draft.device("0000:01:00.0", Device("hygon", 3))
    for text in ("Failed", "-40", "57", "60"):
        draft.store(card, (metric("temperature_celsius", "core", unit="C"),), text, "line 1")
    draft.describe(card, Device("amd", 7, model="one"), {"slot": "4", "node": None})
    draft.store(card, (identity("model"), fact("slot")), "another", "line 2")
    report = draft.report()
    assert report.devices == (Device("hygon", 3, model="one", facts=(("slot", "4"),)),)
    assert report.readings == (Reading(0, "temperature_celsius", 57.0, "core"),)
    assert [problem.text for problem in report.problems] == ['"-40" is implausible']


def test_readings_keep_their_order_when_one_is_overruled() -> None:
    draft = Draft("amd")
    first, second = draft.device(0), draft.device(1)
    for position, key in ((first, "fan_ratio"), (second, "fan_ratio"), (first, "utilization_ratio")):
        draft.set_value(position, metric(key), 0.0)
    draft.replace_reading(Reading(first, "fan_ratio", Absent.IMPLAUSIBLE))
    draft.replace_device(first, replace(draft.device_at(first), up=False))
    assert [item.metric for item in draft.readings_of(first)] == ["fan_ratio", "utilization_ratio"]
    assert [(item.device, item.value) for item in draft.report().readings] == [
        (0, Absent.IMPLAUSIBLE),
        (1, 0.0),
        (0, 0.0),
    ]
    assert [device.up for device in draft.report().devices] == [False, True]
