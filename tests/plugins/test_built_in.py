"""Our own parsers: described without being imported, and imported by their first capture."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from telemetry_daemon.plugins import built_in
from telemetry_daemon.plugins.candidates import Candidates
from telemetry_daemon.plugins.loading import load
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.processes.targets import load as load_target
from telemetry_parsers.model import Capture, Output

DESCRIBED = built_in.descriptions()


def test_each_is_what_its_description_says() -> None:
    found = {item.plugin: item.target for item in find().parsers if item.built_in}
    assert found.keys() == DESCRIBED.keys()
    for name, target in found.items():
        assert built_in.description(load_target(target)) == DESCRIBED[name]


BROKEN = {
    "does not import": ("telemetry_parsers.vendors.no_such:PARSER", "ModuleNotFoundError: No module named"),
    "has no parser": (
        "telemetry_parsers.vendors.cnmon:NONE",
        "BrokenProtocolError: telemetry_parsers.vendors",
    ),
    "is another one": (
        "telemetry_parsers.vendors.efsmi:PARSER",
        "does not match built_in.json; run `make docs` to update that file",
    ),
}


@pytest.mark.parametrize(("target", "said"), BROKEN.values(), ids=BROKEN)
def test_one_that_cannot_be_imported_costs_its_own_captures(target: str, said: str) -> None:
    parser = built_in.imported_when_needed(DESCRIBED["cnmon"], target)
    report = parser.parse(Capture("cnmon", parser.polls[0].name, parser.polls[0].request, (Output(text="x"),)))
    assert (report.outcome, report.reason) == ("failed", "internal")
    (problem,) = report.problems
    assert problem.where == "parser cnmon"
    assert problem.text.startswith("cannot be loaded: ")
    assert said in problem.text


def test_one_that_can_be_imported_again_reads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = built_in.imported_when_needed(DESCRIBED["cnmon"], "telemetry_parsers.vendors.cnmon:PARSER")
    capture = Capture("cnmon", parser.polls[0].name, parser.polls[0].request, (Output(text="No such device"),))
    with monkeypatch.context() as broken:
        broken.setitem(sys.modules, "telemetry_parsers.vendors.cnmon", None)
        assert parser.parse(capture).reason == "internal"
    assert parser.parse(capture).outcome == "no_devices"


def test_one_without_a_description_is_reported() -> None:
    known, unknown = (item for item in find().parsers if item.plugin in ("cnmon", "efsmi"))
    with load(Candidates((known, replace(unknown, plugin="newest")))) as loaded:
        assert [item.parser.name for item in loaded.parsers] == [known.plugin]
        (failure,) = loaded.failures
        assert failure.plugin == "newest"
        assert failure.text.startswith("is not described in built_in.json, which `make docs` writes: ")
