"""Whole data with an exit status that is not 0 is read, and the status is reported as a problem."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.captures import command_parsers, own_cases
from telemetry_parsers.model import Capture

PARSERS = command_parsers()
# A tool ends with it for other reasons than a query that failed: see QUIET_STATUSES of rocm.words.
STATUS = 3


def with_status(capture: Capture, status: int) -> Capture:
    return replace(capture, outputs=tuple(replace(output, status=status) for output in capture.outputs))


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_a_bad_exit_status_beside_whole_data_is_reported_and_costs_nothing(name: str) -> None:
    parser = PARSERS[name]
    for capture in (capture for case in own_cases(name) for capture in case.captures(parser)):
        good = parser.parse(with_status(capture, 0))
        if good.outcome != "ok":
            continue
        bad = parser.parse(with_status(capture, STATUS))
        assert any(f"exit status {STATUS}" in problem.text for problem in bad.problems), bad.problems
        if bad.outcome == "ok":
            assert (bad.devices, bad.readings) == (good.devices, good.readings)
        else:  # what is cut off is not whole
            assert (bad.outcome, bad.reason) == ("failed", "exit_status")
