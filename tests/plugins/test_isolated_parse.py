"""What an isolated parser may do, and what of its report is believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits import workers
from plugins import distributions
from telemetry_daemon.processes.process import Launch, Process, launch

PARSE_TROUBLE = {
    "raises": ("raise KeyError('temp')", "internal", "KeyError: 'temp' (module_a.py line "),
    "exits": ("import os; os._exit(9)", "killed", "the worker exited with status 9"),
    "crashes": (
        "import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), 11)",
        "killed",
        "the worker was ended by SIGSEGV",
    ),
    "returns nothing": ("return None", "internal", "parse returned NoneType, not a Report"),
    "returns NaN": ("return Report(readings=(Reading(0, 'power_watts', float('nan')),))", "internal", "not plain data"),
    "returns junk": ("return Report(devices=('a',))", "internal", "AttributeError"),
    "returns a wrong outcome": ("return Report(outcome='fine')", "internal", "its report cannot be read: outcome: expected one of"),
    "returns too much": ("return Report(index_space='x' * (9 << 20))", "too_much_output", "the limit is 8388608"),
    "lists others' cards": ("return Report(devices=(Device('nvidia', 0),))", "internal", "device 0 is of vendor 'nvidia'"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "reason", "said"), PARSE_TROUBLE.values(), ids=PARSE_TROUBLE)
def test_parse_never_raises_and_says_what_was_wrong(
    site: distributions.Site, code: str, reason: str, said: str
) -> None:
    more = (
        f"def trouble(capture):\n    {code}\nimport dataclasses\nPARSER = dataclasses.replace(PARSER, parse=trouble)\n"
    )
    site.install("telemetry-a", {"acme-smi": "module_a:PARSER"}, {"module_a": distributions.source(more=more)})
    with site.load() as loaded:
        report = distributions.parser_named(loaded, "acme-smi").parse(distributions.capture())
        assert (report.outcome, report.reason) == ("failed", reason)
        assert (report.devices, report.readings) == ((), ())
        (problem,) = report.problems
        assert problem.where == "plugin acme-smi"
        assert said in problem.text


HANGING = "import dataclasses, time\nPARSER = dataclasses.replace(PARSER, parse=lambda capture: time.sleep(3600))\n"


def test_a_parser_that_hangs_is_a_timeout_and_one_that_cannot_be_killed_too(site: distributions.Site) -> None:
    held: list[workers.UnkillableProcess] = []

    def holding(what: Launch) -> Process:
        held.append(workers.UnkillableProcess(launch(what)))
        held[-1].held = bool(len(held) > 1)  # the first one only describes
        return held[-1]

    site.launcher = holding
    site.install("telemetry-a", {"a": "module_a:PARSER"}, {"module_a": distributions.source("acme-a", more=HANGING)})
    with site.load(patience=replace(distributions.PATIENT, parse_seconds=0.5)) as loaded:
        parser = distributions.parser_named(loaded, "acme-a")
        said = []
        for _ in range(2):
            report = parser.parse(distributions.capture())
            assert (report.outcome, report.reason) == ("failed", "timeout")
            said.append(report.problems[0].text)
        assert "did not answer before the deadline" in said[0]
        assert f"worker {held[1].pid} does not end" in said[1]
        assert len(held) == 2
        held[1].let_go()


def test_readings_that_were_not_declared_are_not_believed(site: distributions.Site) -> None:
    more = """
    import dataclasses
    def more(capture):
        readings = (Reading(0, "power_watts", 80.0), Reading(0, "fan_ratio", 0.5), Reading(3, "power_watts", 1.0))
        return Report(devices=(Device("acme", 0),), readings=readings)
    PARSER = dataclasses.replace(PARSER, parse=more)
    """
    site.install("telemetry-a", {"acme-smi": "module_a:PARSER"}, {"module_a": distributions.source(more=more)})
    with site.load() as loaded:
        report = distributions.parser_named(loaded, "acme-smi").parse(distributions.capture())
        assert [(reading.metric, reading.value) for reading in report.readings] == [("power_watts", 80.0)]
        assert [problem.text for problem in report.problems] == [
            "fan_ratio is not among the metrics that the parser gives",
            "power_watts is about device 3 of 1",
        ]
