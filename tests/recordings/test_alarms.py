"""What raises an alarm and what does not: events, readings that turn bad, sources that hang or fail."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kits.planted_faults import FAULTS, WELL
from kits.snapshots import device, poll, reading
from telemetry_daemon.recordings.alarms import Alarm, AlarmDetector, Severity
from telemetry_parsers.model import Absent, Health, MergedDevice, State
from telemetry_parsers.past import PastEvent
from telemetry_parsers.readings import ReadingKey, Readings, Shape

ID = "GPU-1"


# The initial readings of every card: healthy.
GOOD = WELL | dict.fromkeys(
    [
        ("throttled", "prochot"),
        ("ecc_uncorrected_total", "dram"),
        ("health", "alarm"),
        ("health", "critical"),
        ("recovery_action", "drain_and_reset"),
        ("row_remap_failed", ""),
    ],
    0.0,
)

SHAPES: dict[tuple[ReadingKey, ...], Shape] = {}


def card(reads: Mapping[tuple[str, str], float], lacks: tuple[tuple[str, str], ...] = ()) -> MergedDevice:
    """Return a card; equal readings give the same shape, as at each poll of the store."""
    readings = {key: value for key, value in (GOOD | dict(reads)).items() if key not in lacks}
    its = Readings.of([reading(metric, value, label) for (metric, label), value in readings.items()])
    shape = SHAPES.setdefault(its.shape.keys, its.shape)
    return replace(device(0, id=ID), readings=Readings(shape, its.values, its.origins))


def health(state: State, name: str = "fast") -> Mapping[tuple[str, str], Health]:
    return {("nvml", name): poll("nvml", name, state)}


class Watched:
    def __init__(self) -> None:
        self.alarms: list[Alarm] = []
        self.now = 1e6
        self.detector = AlarmDetector(self.alarms.append, lambda: self.now)

    def after_polls(self, *cards: MergedDevice) -> list[Alarm]:
        for card in cards:
            self.detector.update((card,), {})
        return self.alarms

    def after_states(self, *states: State) -> list[Alarm]:
        for state in states:
            self.detector.update((), health(state))
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
    assert Watched().after_polls(well, bad) == [Alarm(cause, ID, source="nvml")]
    assert Watched().after_polls(well, bad, card(FAULTS[fault].reads), bad) == [Alarm(cause, ID, source="nvml")]
    assert Watched().after_polls(well, bad, well, bad) == [Alarm(cause, ID, source="nvml")] * 2
    assert Watched().after_polls(bad, card(FAULTS[fault].reads)) == [], "its start was not seen"


DRAM, SRAM = ("ecc_uncorrected_total", "dram"), ("ecc_uncorrected_total", "sram")
ERRORS = Alarm("uncorrected_errors", ID, source="nvml")


def test_more_errors_are_another_alarm_and_those_of_a_place_that_is_reported_later_are_not() -> None:
    assert Watched().after_polls(*(card({DRAM: count}) for count in (1.0, 1.0, 2.0, 0.0, 1.0))) == [ERRORS] * 2
    assert Watched().after_polls(card({DRAM: 3.0}), card({DRAM: 3.0, SRAM: 5.0})) == []
    in_its_place = card({SRAM: 0.0}, (DRAM,)), card({SRAM: 1.0}, (DRAM,))
    assert Watched().after_polls(card({DRAM: 0.0}, (SRAM,)), *in_its_place) == [ERRORS]


@pytest.mark.parametrize(("fault", "cause"), [("uncorrected error", "uncorrected_errors"), ("alarm", "unhealthy")])
def test_fault_first_reported_by_a_slow_poll_raises_no_alarm(fault: str, cause: str) -> None:
    """After a start, a reload or a resume the fast poll comes first; the slow poll may report faults of weeks ago."""
    reads = FAULTS[fault].reads
    fast, slow = card({}, lacks=tuple(reads)), card(reads)
    assert Watched().after_polls(fast, slow) == []
    assert Watched().after_polls(fast, slow, fast, slow) == [], "the slow poll failed once"
    assert Watched().after_polls(card({}), fast, slow) == [Alarm(cause, ID, source="nvml")], "it was known before"
    absent = device(0, *(reading(key[0], Absent.NOT_PERMITTED, key[1]) for key in reads), id=ID)
    assert Watched().after_polls(slow, absent, slow) == [], "it cannot be read for a while"
    assert Watched().after_polls(slow, device(0, id=ID), card(reads)) == [], "it had no readings for a while"


@pytest.mark.parametrize(
    "fault", ["warning", "narrow PCIe", "at its cap, as it says", "throttled", "corrected errors", "pages retired"]
)
def test_harmless_readings_raise_no_alarm(fault: str) -> None:
    assert Watched().after_polls(card({}), card(FAULTS[fault].reads)) == []


@pytest.mark.parametrize(
    ("fault", "causes"),
    [
        ("over the critical limit", ["over_critical"]),
        ("critical without a limit", ["over_critical"]),
        ("critical memory without a limit", ["over_critical"]),
        ("over the shutdown limit", ["over_critical"]),
        ("hot without a limit", []),
        ("close to the slowdown limit", []),
    ],
)
def test_heat_of_a_card_that_reports_nothing_of_throttling(fault: str, causes: list[str]) -> None:
    silent = tuple(key for key in GOOD if key[0] == "throttled")
    cool, hot = card({}, silent), card(FAULTS[fault].reads, (*silent, *FAULTS[fault].lacks))
    assert [alarm.cause for alarm in Watched().after_polls(cool, hot, hot)] == causes
    assert [alarm.cause for alarm in Watched().after_polls(cool, hot, cool, hot)] == causes * 2
    assert Watched().after_polls(hot, card(FAULTS[fault].reads, silent)) == [], "its start was not seen"
    assert Watched().after_polls(card({}), card(FAULTS[fault].reads, FAULTS[fault].lacks)) == [], "its throttling tells"


@pytest.mark.parametrize(
    ("event", "alarms"),
    [
        ("lost", [Alarm("lost", ID, Severity.CRITICAL, "nvml")]),
        ("gpu_lost", [Alarm("gpu_lost", ID, Severity.CRITICAL, "nvml")]),
        ("xid_79", [Alarm("xid_79", ID, Severity.CRITICAL, "nvml")]),
        ("xid_94", [Alarm("xid_94", ID, source="nvml")]),
        ("xid_31", [Alarm("xid_31", ID, Severity.MINOR, "nvml")]),
        ("link_down", [Alarm("link_down", ID, source="nvml")]),
        ("returned", []),
    ],
)
def test_events_raise_alarms(event: str, alarms: list[Alarm]) -> None:
    watched = Watched()
    watched.after_polls(card({}))
    watched.detector.add_event(PastEvent(0.0, ID, event))
    assert watched.alarms == alarms


@pytest.mark.parametrize(
    ("before", "alarms"),
    [
        ((), []),
        ((device(0, id=ID, up=None),), []),
        ((device(0, id=ID),), [Alarm("lost", ID, Severity.CRITICAL)]),
        ((card({}), device(0, id=ID, up=None)), [Alarm("lost", ID, Severity.CRITICAL, "nvml")]),
        ((card({}), device(0, id="GPU-2")), [Alarm("lost", ID, Severity.CRITICAL)]),
    ],
)
def test_a_card_that_was_lost_while_the_daemon_was_down_is_in_no_capture(
    before: tuple[MergedDevice, ...], alarms: list[Alarm]
) -> None:
    watched = Watched()
    watched.after_polls(*before)
    watched.detector.add_event(PastEvent(0.0, ID, "lost"))
    assert watched.alarms == alarms


def test_loss_has_the_time_since_the_card_returned() -> None:
    watched = Watched()
    for up_seconds, away_seconds in ((900.0, 60.0), (30.0, 3600.0), (700.0, 0.0)):
        watched.after_polls(card({}))
        watched.now += up_seconds / 2
        watched.after_polls(card({DRAM: up_seconds}))
        watched.now += up_seconds / 2
        watched.detector.add_event(PastEvent(0.0, ID, "lost"))
        watched.after_polls(device(0, id=ID, up=False))
        watched.now += away_seconds
        watched.detector.add_event(PastEvent(0.0, ID, "returned"))
    assert [alarm.up_seconds for alarm in watched.alarms if alarm.cause == "lost"] == [900.0, 30.0, 700.0]


@pytest.mark.parametrize(
    ("states", "alarms"),
    [
        (("ok", "stuck", "stuck"), [Alarm("stuck", "nvml", Severity.CRITICAL, "nvml")]),
        (
            ("ok", "failed", "failed", "stuck"),
            [Alarm("failed", "nvml", Severity.MINOR, "nvml"), Alarm("stuck", "nvml", Severity.CRITICAL, "nvml")],
        ),
        (("ok", "failed", "ok", "failed"), [Alarm("failed", "nvml", Severity.MINOR, "nvml")] * 2),
        (("missing", "failed"), []),
        (("ok", "released", "ok", "suspended", "no_devices", "missing"), []),
    ],
)
def test_failing_sources_raise_alarms(states: tuple[State, ...], alarms: list[Alarm]) -> None:
    assert Watched().after_states(*states) == alarms
