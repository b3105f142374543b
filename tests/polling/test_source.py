"""One attempt at a poll: read, parsed and judged; every failure is an answer, too."""

import math

import pytest

from kits.fake_tools import Answer, ToolFolder
from telemetry_daemon.config.settings import PollSettings, SourceSettings
from telemetry_daemon.polling.source import PciView, Source
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.tool_reader import CommandReader
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Capture, Command, Device, Poll, Report

REQUEST = Command((("acme-smi", "--json"), ("acme-smi",)))


def parse(capture: Capture) -> Report:
    """Read a number of watts; "bad option" stands for an unknown flag, "crash" for a bug of the parser."""
    text = capture.outputs[0].text.strip()
    if text == "bad option":
        return Report("wrong_request")
    if text == "crash":
        raise KeyError(text)
    if text == "broken":
        return Report("failed", "not_understood")
    if text == "none":
        return Report("no_devices")
    return Report(devices=(Device("acme", 0),), readings=(reading(0, "power_watts", float(text)),))


class Bench:
    """A source of a fake tool, and its captures."""

    def __init__(self, folder, settings=SourceSettings(), pci=PciView(), *, wakes=False, lists=True):  # noqa: B008  # frozen
        self.tools = ToolFolder(folder / "tools")
        self.poll = Poll("readings", REQUEST, deadline=20.0, wakes=wakes, lists_devices=lists)
        self.captured: list[Capture] = []
        reader = CommandReader("acme-smi", folder / "locks", environment=self.tools.environment)
        parser = SourceParser("acme-smi", "acme", ("power_watts",), (self.poll,), parse)
        self.source = Source(parser, {"readings": reader}, settings, lambda _vendor: pci, Clock(), self._keep)

    def _keep(self, capture, report):
        self.captured.append(capture)

    def ask(self, limit_seconds=math.inf):
        return self.source.run_poll(self.poll, Targets(), limit_seconds)


def test_good_answer_is_ok(tmp_path):
    bench = Bench(tmp_path)
    bench.tools.prints("acme-smi", "81.5\n")
    answer = bench.ask()
    assert (answer.result.state, answer.report.readings[0].value) == ("ok", 81.5)
    assert bench.captured == [answer.capture]


def test_unknown_flag_is_remembered(tmp_path):
    bench = Bench(tmp_path)
    bench.tools.answers("acme-smi", {"--json": Answer("bad option\n", status=2)}, Answer("81.5\n"))
    assert bench.ask().result.state == "ok"
    assert bench.ask().result.state == "ok"
    assert bench.tools.calls("acme-smi") == ["--json", "", ""]


def test_unusable_command_lines_are_not_supported(tmp_path):
    bench = Bench(tmp_path)
    bench.tools.prints("acme-smi", "bad option\n")
    answer = bench.ask()
    assert (answer.result.state, answer.result.reason) == ("not_supported", None)
    assert bench.tools.calls("acme-smi") == ["--json", ""]
    costs = [capture.cpu_seconds for capture in bench.captured]
    assert answer.capture.cpu_seconds == sum(costs) > costs[-1], "each command line that was tried is counted"


def test_failed_fallback_is_not_remembered(tmp_path):
    """If the last command line fails as well, the tool is broken: the next poll starts with the first line."""
    bench = Bench(tmp_path)
    spoken = tmp_path / "spoken"
    bench.tools.script("acme-smi", f'[ -e {spoken} ] && exec echo 81.5\n[ "$*" ] && echo bad option || echo broken')
    assert bench.ask().result.reason == "not_understood"
    spoken.touch()
    assert bench.ask().result.state == "ok"
    assert bench.tools.calls("acme-smi") == ["--json", "", "--json"]


def test_parser_error_is_logged_once(tmp_path, caplog):
    bench = Bench(tmp_path)
    bench.tools.prints("acme-smi", "crash\n")
    result = bench.ask().result
    assert (result.state, result.reason) == ("failed", "internal")
    assert caplog.records[0].exc_info is not None
    bench.ask()
    assert len(caplog.records) == 1, "a bug is logged once, and not at each poll"


ASLEEP, AWAKE, OFF = PciView(2, 1), PciView(2, 0), SourceSettings(mode="never")


@pytest.mark.parametrize(
    ("printed", "bench", "expected", "calls"),
    [
        pytest.param("81.5", {"pci": ASLEEP, "wakes": True}, ("suspended", None), 0, id="a card sleeps"),
        pytest.param(
            "81.5",
            {"pci": ASLEEP, "wakes": True, "settings": SourceSettings(wake_suspended=True)},
            ("ok", None),
            1,
            id="a card sleeps and may be woken",
        ),
        pytest.param("81.5", {"pci": AWAKE, "wakes": True}, ("ok", None), 1, id="all are awake"),
        pytest.param("81.5", {"settings": OFF}, ("disabled", None), 0, id="switched off"),
        pytest.param(
            "81.5",
            {"settings": SourceSettings(polls={"readings": PollSettings("never")})},
            ("disabled", None),
            0,
            id="this poll is switched off",
        ),
        pytest.param(
            "81.5",
            {"settings": SourceSettings(polls={"another": PollSettings("never")})},
            ("ok", None),
            1,
            id="another poll is switched off",
        ),
        pytest.param("none", {"pci": AWAKE}, ("failed", "driver_gone"), 1, id="no device, but the bus has some"),
        pytest.param("none", {"pci": AWAKE, "lists": False}, ("no_devices", None), 1, id="a poll that lists none"),
    ],
)
def test_state_depends_on_settings_and_bus(tmp_path, printed, bench, expected, calls):
    bench = Bench(tmp_path, **bench)
    bench.tools.prints("acme-smi", printed + "\n")
    result = bench.ask().result
    assert ((result.state, result.reason), len(bench.tools.calls("acme-smi"))) == (expected, calls)


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [((), []), (("0000:1a:00.0",), []), (("0000:1a:00.0", "0000:1b:00.0"), ["PCI bus"])],
)
def test_missing_devices_of_the_bus_are_a_problem(tmp_path, addresses, expected):
    bench = Bench(tmp_path, pci=PciView(len(addresses), 0, addresses))
    bench.tools.prints("acme-smi", "81.5\n")
    answer = bench.ask()
    assert answer.result.state == "ok"
    assert [problem.where for problem in answer.report.problems] == expected


def test_limit_shortens_the_deadline(tmp_path):
    bench = Bench(tmp_path, SourceSettings(deadline=20.0))
    bench.tools.sleeps("acme-smi")
    result = bench.ask(limit_seconds=0.2).result
    assert (result.state, result.reason) == ("failed", "timeout")
