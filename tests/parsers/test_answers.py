"""Error texts become reasons with the line quoted, and never anything else."""

from __future__ import annotations

import pytest

from telemetry_parsers.model import Capture, Failure, Library, Problem, Report
from telemetry_parsers.text.answers import MOST_PROBLEMS, ErrorText, capped, error_report, failed_midway, not_read
from telemetry_parsers.text.lines import lines


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


def test_a_known_error_outweighs_an_earlier_cry() -> None:
    report = error_report(lines("Error: giving up\nopen: permission denied\n"), 1)
    assert report is not None
    assert report.reason == "no_permission"


def test_a_tools_own_words_come_first_and_bring_their_remedy() -> None:
    own = [ErrorText("no foo found", "no_devices", None, "plug one in")]
    report = error_report(lines("Error: no FOO found, permission denied\n"), 0, own)
    assert report is not None
    assert report.outcome == "no_devices"
    assert report.problems[0].text.endswith("(plug one in)")


def test_a_readers_failure_is_passed_on() -> None:
    failure = Failure("stuck", "timeout", "no answer in 10 s")
    report = not_read(Capture("foo", "readings", Library("foo", ("a",)), failure=failure))
    assert report is not None
    assert (report.outcome, report.reason, report.problems[0].text) == ("failed", "timeout", "no answer in 10 s")


def test_a_capture_that_was_read_has_no_such_report() -> None:
    assert not_read(Capture("foo", "readings", Library("foo", ("a",)))) is None


@pytest.mark.parametrize(("status", "reason"), [(1, "exit_status"), (-9, "killed")])
def test_a_torn_list_keeps_its_problems_and_loses_the_rest(status: int, reason: str) -> None:
    report = failed_midway(Report(problems=(Problem("line 3", "cut off"),), facts=(("tool_version", "1"),)), status)
    assert (report.outcome, report.reason, len(report.problems)) == ("failed", reason, 2)
    assert report.facts == (("tool_version", "1"),)


def test_many_problems_are_told_as_a_count() -> None:
    problems = [Problem(f"line {number}", "bad") for number in range(1000)]
    shown = capped(problems)
    assert len(shown) == MOST_PROBLEMS
    assert shown[-1].text == f"and {1000 - MOST_PROBLEMS + 1} more problems"
    assert capped(problems[:MOST_PROBLEMS]) == tuple(problems[:MOST_PROBLEMS])
