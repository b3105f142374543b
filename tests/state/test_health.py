"""The states of sources, from captures and reports: the table of outcomes and states."""

import pytest

from telemetry_daemon.state import health
from telemetry_daemon.state.health import PollResult
from telemetry_parsers.model import Capture, Command, Device, Failure, Poll, Problem, Report, SourceReport

REQUEST = Command((("tool",),))
POLL = Poll("readings", REQUEST, interval=15.0)


def capture(failure=None, *, taken=100.0, seconds=0.3):
    return Capture("tool", "readings", REQUEST, failure=failure, seconds=seconds, wall_time=1e9, monotonic_time=taken)


@pytest.mark.parametrize(
    ("failure", "report", "on_bus", "expected"),
    [
        pytest.param(Failure("missing", None, "not found"), None, 0, ("missing", None), id="not installed"),
        pytest.param(Failure("failed", "timeout", "10 s"), None, 0, ("failed", "timeout"), id="deadline"),
        pytest.param(Failure("stuck", None, "pid 7"), None, 0, ("stuck", None), id="wedged"),
        pytest.param(Failure("suspended", None, ""), None, 1, ("suspended", None), id="all asleep"),
        pytest.param(None, Report(devices=(Device("x"),)), 1, ("ok", None), id="good"),
        pytest.param(None, Report("no_devices"), 0, ("no_devices", None), id="no device of its kind"),
        pytest.param(None, Report("no_devices"), 2, ("failed", "driver_gone"), id="no device, but on the bus"),
        pytest.param(None, Report("not_mine"), 0, ("not_mine", None), id="another vendor's tool"),
        pytest.param(None, Report("wrong_request"), 0, ("not_supported", None), id="no alternative works"),
        pytest.param(None, Report("failed", "no_permission"), 0, ("failed", "no_permission"), id="error text"),
        pytest.param(None, Report("failed"), 0, ("failed", "not_understood"), id="garbage"),
        pytest.param(None, None, 0, ("failed", "internal"), id="the parser broke"),
    ],
)
def test_each_outcome_has_a_state_and_reason(failure, report, on_bus, expected):
    result = health.result_of(capture(failure), report, on_bus)
    assert (result.state, result.reason) == expected


def test_text_of_the_tool_is_kept():
    report = Report("failed", "driver_gone", problems=(Problem("line 1", "driver not loaded"),))
    assert health.result_of(capture(), report, 0).detail == "driver not loaded"


@pytest.mark.parametrize(
    ("interval", "seconds", "life"),
    [(1.0, 0.1, 10.0), (2.0, 0.1, 10.0), (15.0, 0.3, 45.0), (15.0, 20.0, 60.0), (300.0, 1.0, 900.0)],
)
def test_report_lives_three_intervals(interval, seconds, life):
    """A report lives max(10 s, 3 × max(interval, duration)) from the start of its capture."""
    assert health.expiry_time(100.0, interval, seconds) == 100.0 + life


def attempts(*results):
    found = None
    for number, result in enumerate(results):
        found = health.health_after("tool", POLL, capture(taken=100.0 + number), result, 15.0, found)
    return found


def test_failures_are_counted_by_reason():
    timeout, stuck, ok = PollResult("failed", "timeout"), PollResult("stuck"), PollResult("ok")
    found = attempts(timeout, ok, PollResult("failed", "exit_status"), timeout, stuck, PollResult("missing"))
    assert dict(found.failures) == {"timeout": 3, "exit_status": 1}


def test_last_success_survives_failures():
    assert attempts(PollResult("ok"), PollResult("failed", "timeout")).last_success == 1e9
    assert attempts(PollResult("failed", "timeout")).last_success is None


def status(*results, now=101.0):
    """Return the status of a source whose inventory, fast and slow poll had these results."""
    polls = [
        Poll("inventory", REQUEST, tier="inventory", interval=300.0),
        Poll("readings", REQUEST, interval=15.0, lists_devices=False),
        Poll("slow", REQUEST, tier="slow", interval=60.0, lists_devices=False),
    ]
    poll_healths = [
        health.health_after("tool", poll, capture(), result, poll.interval, None)
        for poll, result in zip(polls, results, strict=False)
    ]
    return health.source_status("tool", "nvidia", poll_healths, (), (), cpu_seconds=1.5, now=now)


OK, FAILED, STUCK = PollResult("ok"), PollResult("failed", "timeout", "10 s"), PollResult("stuck")
NOT_SUPPORTED, OFF = PollResult("not_supported"), PollResult("disabled")


@pytest.mark.parametrize(
    ("results", "now", "expected"),
    [
        pytest.param((OK, OK, OK), 101.0, ("ok", True), id="all good"),
        pytest.param((OK, OK, FAILED), 101.0, ("ok", True), id="a slow poll decides nothing"),
        pytest.param((OK, FAILED, OK), 101.0, ("failed", False), id="a fast poll does"),
        pytest.param((FAILED, OK, OK), 101.0, ("failed", False), id="a listing poll does"),
        pytest.param((FAILED, STUCK, OK), 101.0, ("stuck", False), id="the worst is shown"),
        pytest.param((OK, OK, OK), 144.9, ("ok", True), id="just fresh"),
        pytest.param((OK, OK, OK), 145.0, ("ok", False), id="no answer for too long"),
        pytest.param(
            (PollResult("missing"), PollResult("missing")),
            101.0,
            ("missing", None),
            id="missing is neither up nor down",
        ),
        pytest.param((PollResult("not_mine"),), 101.0, ("not_mine", None), id="not mine neither"),
        pytest.param((PollResult("disabled"),), 101.0, ("disabled", None), id="disabled neither"),
        pytest.param(
            (PollResult("no_devices"), PollResult("no_devices")), 101.0, ("no_devices", True), id="works, finds none"
        ),
        pytest.param((OK, PollResult("suspended")), 101.0, ("suspended", True), id="asleep is up"),
        pytest.param((OK,), 101.0, ("ok", True), id="not all polled yet"),
        pytest.param((OK, NOT_SUPPORTED), 101.0, ("ok", True), id="a fast poll that the product cannot answer"),
        pytest.param((NOT_SUPPORTED, OK), 101.0, ("failed", False), id="no way to list the devices is known"),
        pytest.param((OFF, OK), 101.0, ("ok", True), id="one poll is switched off"),
        pytest.param((OFF, FAILED), 101.0, ("failed", False), id="one poll is switched off, another failed"),
        pytest.param((NOT_SUPPORTED, FAILED), 101.0, ("failed", False), id="one cannot be answered, another failed"),
    ],
)
def test_source_is_as_bad_as_its_worst_poll(results, now, expected):
    found = status(*results, now=now)
    assert (found.state, found.up) == expected


def test_unsupported_slow_polls_are_no_failure():
    poll = Poll("link", REQUEST, tier="slow", lists_devices=False)
    polls = [health.health_after("tool", poll, capture(), NOT_SUPPORTED, 15.0, None)]
    found = health.source_status("tool", "ascend", polls, (), (), cpu_seconds=0.0, now=101.0)
    assert (found.state, found.up, found.problems) == ("not_supported", None, ())


def test_unsupported_poll_has_no_failure_and_no_success():
    found = attempts(PollResult("ok"), NOT_SUPPORTED, NOT_SUPPORTED)
    assert (found.failures, found.last_success) == ((), None)


def test_failure_is_a_problem_of_its_source():
    assert [(p.where, p.text) for p in status(OK, FAILED).problems] == [("readings", "10 s")]


def test_repeated_problem_is_reported_once():
    lost = Report(devices=(Device("nvidia"),), problems=(Problem("GPU 0", "it is lost"),))
    reports = [
        SourceReport("tool", poll, "nvidia", (), True, 2.0, 100.0, 110.0, lost) for poll in ("fast", "inventory")
    ]
    polls = [health.health_after("tool", POLL, capture(), OK, 15.0, None)]
    found = health.source_status("tool", "nvidia", polls, reports, (), cpu_seconds=0.0, now=101.0)
    assert found.problems == (Problem("GPU 0", "it is lost"),)
