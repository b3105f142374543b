"""What raises an alarm: events, readings that turn bad, sources that stick or fail; and what does not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kits.planted_faults import FAULTS, WELL, Fault
from kits.snapshots import device, poll, reading
from telemetry_daemon.recording.alarms import Alarm, Alarms
from telemetry_exporters.past import PastEvent
from telemetry_parsers.model import Health, MergedDevice, State

ID = "GPU-1"


def card(reads: Mapping[tuple[str, str], float], lacks: tuple[tuple[str, str], ...] = ()) -> MergedDevice:
    known = {key: value for key, value in (WELL | dict(reads)).items() if key not in lacks}
    return device(0, *(reading(metric, value, label) for (metric, label), value in known.items()), id=ID)


def health(state: State, name: str = "fast") -> Mapping[tuple[str, str], Health]:
    return {("nvml", name): poll("nvml", name, state)}


class Heard:
    def __init__(self) -> None:
        self.alarms: list[Alarm] = []
        self.watch = Alarms(self.alarms.append)

    def sees(self, *cards: MergedDevice) -> list[Alarm]:
        """The alarms when the card is so, one after the other."""
        for one in cards:
            self.watch.see((one,), {})
        return self.alarms

    def hears(self, *states: State) -> list[Alarm]:
        for state in states:
            self.watch.see((), health(state))
        return self.alarms


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("throttled by heat", "throttled_by_heat"),
        ("throttled by the processor's heat", "throttled_by_heat"),
        ("uncorrected error", "uncorrected_errors"),
        ("alarm", "unhealthy"),
        ("critical", "unhealthy"),
        ("recovery action", "recovery_needed"),
        ("row remap failed", "row_remap_failed"),
    ],
)
def test_readings_that_turn_bad(fault: str, cause: str) -> None:
    bad, well = card(FAULTS[fault].reads), card({})
    assert Heard().sees(well, bad) == [Alarm(cause, ID)]
    assert Heard().sees(well, bad, card(FAULTS[fault].reads), bad) == [Alarm(cause, ID)]
    assert Heard().sees(well, bad, well, bad) == [Alarm(cause, ID)] * 2
    assert Heard().sees(bad, card(FAULTS[fault].reads)) == [], "nobody saw it begin"


@pytest.mark.parametrize(
    "fault", ["warning", "narrow PCIe", "at its cap, as it says", "throttled", "corrected errors", "pages retired"]
)
def test_readings_that_are_no_alarm(fault: str) -> None:
    assert Heard().sees(card({}), card(FAULTS[fault].reads)) == []


def test_more_errors_are_another_alarm() -> None:
    errors = [card({("ecc_uncorrected_total", "dram"): count}) for count in (1.0, 1.0, 2.0, 0.0, 1.0)]
    assert Heard().sees(*errors) == [Alarm("uncorrected_errors", ID)] * 2


def test_a_card_without_readings_for_a_while_is_known_again() -> None:
    hot = card(FAULTS["throttled by heat"].reads)
    assert Heard().sees(hot, device(0, id=ID), card(FAULTS["throttled by heat"].reads)) == []


@pytest.mark.parametrize(
    ("event", "alarms"),
    [
        ("lost", [Alarm("lost", ID)]),
        ("xid_79", [Alarm("xid_79", ID)]),
        ("xid_31", [Alarm("xid_31", ID, is_minor=True)]),
        ("link_down", [Alarm("link_down", ID)]),
        ("error_80e01801", [Alarm("error_80e01801", ID)]),
        ("returned", []),
        ("removed", []),
    ],
)
def test_events(event: str, alarms: list[Alarm]) -> None:
    heard = Heard()
    heard.watch.event(PastEvent(0.0, ID, event))
    assert heard.alarms == alarms


@pytest.mark.parametrize(
    ("states", "alarms"),
    [
        (("ok", "stuck", "stuck"), [Alarm("stuck", "nvml")]),
        (("stuck",), [Alarm("stuck", "nvml")]),
        (("ok", "failed", "failed", "stuck"), [Alarm("failed", "nvml", is_minor=True), Alarm("stuck", "nvml")]),
        (("ok", "failed", "ok", "failed"), [Alarm("failed", "nvml", is_minor=True)] * 2),
        (("failed", "failed"), []),
        (("missing", "failed"), []),
        (("ok", "released", "ok", "suspended", "no_devices", "missing"), []),
    ],
)
def test_sources(states: tuple[State, ...], alarms: list[Alarm]) -> None:
    assert Heard().hears(*states) == alarms


def test_every_fault_that_is_bad_by_the_verdict_raises_an_alarm() -> None:
    """But heat beyond a limit, which throttles or shuts down a card and is an alarm by that."""
    silent = [name for name, fault in FAULTS.items() if fault.severity == "bad" and not _alarms_of(fault)]
    assert all("critical" in FAULTS[name].word or "lost" in FAULTS[name].word for name in silent), silent


def _alarms_of(fault: Fault) -> list[Alarm]:
    heard = Heard()
    for metric, label in fault.reads:
        if metric == "event_open":
            heard.watch.event(PastEvent(0.0, ID, label))
    return heard.sees(card({}), card(fault.reads, fault.lacks))
