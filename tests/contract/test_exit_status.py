"""Whole data with an exit status that is not 0 is read, and the status is told as a problem."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.captures import Case, own_cases, registered_parsers
from telemetry_parsers.model import Capture, Command, Output

PARSERS = registered_parsers()
# A tool ends with it for other reasons than a query that failed: see QUIET_STATUSES of rocm.words.
STATUS = 3
CASES = [case for case in own_cases() if any(isinstance(poll.request, Command) for poll in PARSERS[case.tool].polls)]


def with_status(capture: Capture, status: int) -> Capture:
    return replace(capture, outputs=tuple(_with_status(output, status) for output in capture.outputs))


def _with_status(output: Output, status: int) -> Output:
    return replace(output, status=status)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_bad_exit_status_beside_whole_data_is_told_and_costs_nothing(case: Case) -> None:
    parser = PARSERS[case.tool]
    for capture in case.captures(parser):
        good = parser.parse(with_status(capture, 0))
        if good.outcome != "ok":
            continue
        bad = parser.parse(with_status(capture, STATUS))
        told = [problem.text for problem in bad.problems if f"exit status {STATUS}" in problem.text]
        assert told, bad.problems
        if bad.outcome == "ok":
            assert (bad.devices, bad.readings) == (good.devices, good.readings)
        else:  # what is cut off is not whole
            assert (bad.outcome, bad.reason) == ("failed", "exit_status")
