"""Built-in parsers load at their first capture; isolated parsers may do little, and their reports are checked."""

import sys
from dataclasses import replace

import pytest

from kits import workers
from plugins import distributions
from telemetry_daemon.plugins import built_in
from telemetry_daemon.plugins.candidates import Candidates
from telemetry_daemon.plugins.loading import load_parsers
from telemetry_daemon.plugins.sources import find_parsers
from telemetry_daemon.processes.process import LaunchRequest, Process, launch
from telemetry_daemon.processes.targets import load_target
from telemetry_parsers.model import Capture, Output

DESCRIBED = built_in.read_descriptions()


def test_parsers_match_their_descriptions() -> None:
    found = {item.plugin: item.target for item in find_parsers().parsers if item.is_built_in}
    assert found.keys() == DESCRIBED.keys()
    for name, target in found.items():
        assert built_in.describe(load_target(target)) == DESCRIBED[name]


BROKEN = {
    "does not import": ("telemetry_parsers.vendors.no_such:PARSER", "ModuleNotFoundError: No module named"),
    "has no parser": (
        "telemetry_parsers.vendors.cnmon:NONE",
        "PluginProtocolError: telemetry_parsers.vendors",
    ),
    "is another one": (
        "telemetry_parsers.vendors.efsmi:PARSER",
        "does not match built_in.json; run `make docs` to update that file",
    ),
}


@pytest.mark.parametrize(("target", "text"), BROKEN.values(), ids=BROKEN)
def test_parser_that_cannot_be_imported_fails_its_captures(target: str, text: str) -> None:
    parser = built_in.lazy_parser(DESCRIBED["cnmon"], target)
    report = parser.parse(Capture("cnmon", parser.polls[0].name, parser.polls[0].request, (Output(text="x"),)))
    assert (report.outcome, report.reason) == ("failed", "internal")
    (problem,) = report.problems
    assert problem.where == "parser cnmon"
    assert problem.text.startswith("cannot be loaded: ")
    assert text in problem.text


def test_parser_recovers_once_it_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = built_in.lazy_parser(DESCRIBED["cnmon"], "telemetry_parsers.vendors.cnmon:PARSER")
    capture = Capture("cnmon", parser.polls[0].name, parser.polls[0].request, (Output(text="No such device"),))
    with monkeypatch.context() as broken:
        broken.setitem(sys.modules, "telemetry_parsers.vendors.cnmon", None)
        assert parser.parse(capture).reason == "internal"
    assert parser.parse(capture).outcome == "no_devices"


def test_parser_without_a_description_is_reported() -> None:
    described, undescribed = (item for item in find_parsers().parsers if item.plugin in ("cnmon", "efsmi"))
    with load_parsers(Candidates((described, replace(undescribed, plugin="newest")))) as loaded:
        assert [item.parser.name for item in loaded.parsers] == [described.plugin]
        (failure,) = loaded.failures
        assert failure.plugin == "newest"
        assert failure.text.startswith("is not described in built_in.json, which `make docs` writes: ")


# The parser's behaviour, the reason, and the text of its problem; the last ones end its process.
PARSE_TROUBLE = (
    ("raise KeyError('temp')", "internal", "KeyError: 'temp' (module_a.py line "),
    ("return None", "internal", "parse returned NoneType, not a Report"),
    ("return Report(readings=(Reading(0, 'power_watts', float('nan')),))", "internal", "not JSON data"),
    ("return Report(devices=('a',))", "internal", "AttributeError"),
    ("return Report(outcome='fine')", "internal", "its report cannot be read: outcome: expected one of"),
    ("return Report(index_space='x' * (9 << 20))", "too_much_output", "the limit is 8388608"),
    ("return Report(devices=(Device('nvidia', 0),))", "internal", "device 0 has the vendor 'nvidia'"),
    ("import os; os._exit(9)", "killed", "the worker exited with status 9"),
)


def test_parse_errors_are_reported(site: distributions.Site) -> None:
    lines = [f"    if capture.poll == '{number}':\n        {row[0]}\n" for number, row in enumerate(PARSE_TROUBLE)]
    replaced = "import dataclasses\nPARSER = dataclasses.replace(PARSER, parse=trouble)\n"
    more = f"def trouble(capture):\n{''.join(lines)}{replaced}"
    site.install("telemetry-a", {"acme-smi": "module_a:PARSER"}, {"module_a": distributions.source(more=more)})
    with site.load() as loaded:
        parser = distributions.parser_named(loaded, "acme-smi")
        for number, (_, reason, text) in enumerate(PARSE_TROUBLE):
            report = parser.parse(distributions.capture(poll=str(number)))
            assert (report.outcome, report.reason) == ("failed", reason)
            assert (report.devices, report.readings) == ((), ())
            (problem,) = report.problems
            assert problem.where == "plugin acme-smi"
            assert text in problem.text


HANGING = "import dataclasses, time\nPARSER = dataclasses.replace(PARSER, parse=lambda capture: time.sleep(3600))\n"


def test_hanging_parser_is_a_timeout(site: distributions.Site) -> None:
    held: list[workers.UnkillableProcess] = []

    def holding(what: LaunchRequest) -> Process:
        held.append(workers.UnkillableProcess(launch(what)))
        held[-1].held = bool(len(held) > 1)  # the first worker only describes the parser
        return held[-1]

    site.launcher = holding
    site.install("telemetry-a", {"a": "module_a:PARSER"}, {"module_a": distributions.source("acme-a", more=HANGING)})
    with site.load(limits=replace(distributions.PATIENT, parse_seconds=0.5)) as loaded:
        parser = distributions.parser_named(loaded, "acme-a")
        texts = []
        for _ in range(2):
            report = parser.parse(distributions.capture())
            assert (report.outcome, report.reason) == ("failed", "timeout")
            texts.append(report.problems[0].text)
        assert "did not answer before the deadline" in texts[0]
        assert f"worker {held[1].pid} does not exit" in texts[1]
        assert len(held) == 2
        held[1].let_go()
