"""How a vendor's sources fared, in one word: by it the kernel's facts are judged."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry_daemon.doctor.fared import Fared, fared
from telemetry_daemon.polling.cross_check import WHERE
from telemetry_parsers.model import MergedDevice, MergedReading, Problem, Snapshot, SourceStatus


def status(name: str, state: Any, *problems: str, vendor: str = "amd") -> SourceStatus:
    return SourceStatus(name, vendor, state, problems=tuple(Problem(where, "") for where in problems))


def device(source: str, vendor: str = "amd", up: bool | None = True) -> MergedDevice:
    return MergedDevice(vendor, 0, source, "0", "", up=up, readings=(MergedReading("power_watts", "", 1.0, source),))


CASES: list[Any] = [
    pytest.param([], [], Fared("amd"), False, id="nothing"),
    pytest.param([status("a", "ok")], [device("a")], Fared("amd", read_by=("a",)), True, id="well"),
    pytest.param([status("a", "ok")], [], Fared("amd"), False, id="well without cards"),
    pytest.param([status("a", "ok")], [device("a", up=False)], Fared("amd"), False, id="a card that is lost"),
    pytest.param(
        [status("a", "ok"), status("b", "missing")],
        [device("a")],
        Fared("amd", read_by=("a",), missing=("b",)),
        True,
        id="another tool is not there",
    ),
    pytest.param(
        [status("a", "ok"), status("b", "failed")],
        [device("a")],
        Fared("amd", ("a",), bad=("b",)),
        False,
        id="one fails",
    ),
    pytest.param(
        [status("a", "ok", WHERE)],
        [device("a")],
        Fared("amd", ("a",), incomplete=("a",)),
        False,
        id="a card is not listed",
    ),
    pytest.param([status("a", "ok", "line 3")], [device("a")], Fared("amd", ("a",)), True, id="another problem"),
    pytest.param([status("a", "suspended")], [], Fared("amd", asleep=("a",)), True, id="asleep"),
    pytest.param(
        [status("a", "ok", vendor="hygon")], [device("a")], Fared("amd", ("a",)), True, id="read by another's source"
    ),
    pytest.param(
        [status("a", "disabled"), status("b", "missing"), status("c", "not_mine")],
        [],
        Fared("amd", missing=("b",), is_switched_off=True),
        False,
        id="switched off",
    ),
    pytest.param(
        [status("a", "disabled"), status("b", "failed")], [], Fared("amd", bad=("b",)), False, id="one is switched off"
    ),
    pytest.param([status("a", "failed", vendor="hygon")], [], Fared("amd"), False, id="another vendor's fails"),
]


@pytest.mark.parametrize(("statuses", "devices", "expected", "is_well"), CASES)
def test_how_it_fared(
    statuses: list[SourceStatus], devices: list[MergedDevice], expected: Fared, is_well: bool
) -> None:
    snapshot = Snapshot("n", 1e9, 0.0, 60.0, devices=tuple(devices), sources=tuple(statuses))
    found = fared(snapshot, "amd")
    assert (found, found.is_well) == (expected, is_well)
