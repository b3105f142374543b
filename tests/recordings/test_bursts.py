"""One file per burst, six per hour, six per day for the same fault; no card or source uses up the files of others."""

from dataclasses import dataclass, field, replace

import pytest

from telemetry_daemon.recordings.alarms import Alarm, FlightFilePolicy, Severity

MINUTE, HOUR = 60.0, 3600.0
LOST = Alarm("lost", "GPU-1", Severity.CRITICAL)
HOT = Alarm("throttled_by_heat", "GPU-1", Severity.SERIOUS)
CRASH = Alarm("xid_31", "GPU-1", Severity.MINOR)


@dataclass
class Night:
    now: float = 1e6
    bursts: FlightFilePolicy = field(init=False)

    def __post_init__(self) -> None:
        self.bursts = FlightFilePolicy(lambda: self.now)

    def files(self, alarm: Alarm, *, every: float, times: int) -> int:
        written = 0
        for _ in range(times):
            written += self.bursts.start_burst(alarm) is not None
            self.now += every
        return written


@pytest.mark.parametrize(
    ("every", "times", "files"),
    [
        (0.0, 1000, 1),
        (30.0, 20, 1),  # ten minutes
        (30.0, 240, 4),  # two hours, of which each ten minutes are a burst
        (3 * MINUTE, 100, 6),  # five hours
        (5 * HOUR, 10, 10),  # less than six a day
    ],
)
def test_files_of_one_fault(every: float, times: int, files: int) -> None:
    assert Night().files(LOST, every=every, times=times) == files


def test_six_files_an_hour_whatever_happens_and_one_of_a_fault_that_is_new() -> None:
    night = Night()
    written = [night.files(card(number, f"tool {number % 2}"), every=3 * MINUTE, times=1) for number in range(40)]
    assert (sum(written[:20]), sum(written)) == (6, 12)
    night.files(LOST, every=3 * MINUTE, times=100)
    assert night.files(card(2), every=0, times=1) == 1


XID, OTHER_XID = (
    Alarm("xid_79", "GPU-1", Severity.CRITICAL, "nvml"),
    Alarm("xid_79", "GPU-2", Severity.CRITICAL, "nvml"),
)
STUCK = Alarm("stuck", "rocm-smi", Severity.CRITICAL, "rocm-smi")
HOURS_MOST_OF_GPU_1 = [
    Alarm(f"cause {severity} {number}", "GPU-1", severity, "nvml") for severity in Severity for number in range(9)
]
INVENTED = [
    Alarm(cause, f"GPU-X{cause}", severity, "plugin") for severity in Severity for cause in ("a", "b", "c", "d", "e")
]


@pytest.mark.parametrize(
    ("alarms", "others", "files"),
    [
        ([XID] * 9, OTHER_XID, 2),
        (HOURS_MOST_OF_GPU_1, OTHER_XID, 3),
        (HOURS_MOST_OF_GPU_1[18:], OTHER_XID, 2),
        (INVENTED, STUCK, 4),
        ([replace(LOST, subject=f"GPU-{number}") for number in range(9)], STUCK, 4),
        ([HOT, replace(HOT, cause="uncorrected_errors")], XID, 2),
    ],
)
def test_one_card_and_one_source_leave_files_of_the_hour_to_others(
    alarms: list[Alarm], others: Alarm, files: int
) -> None:
    night = Night()
    assert sum(night.files(alarm, every=121.0, times=1) for alarm in alarms) == files
    assert night.files(others, every=0, times=1) == 1


def first_loss(number: int, source: str = "nvml", up_seconds: float = 600.0) -> Alarm:
    return Alarm("lost", f"GPU-{number}", Severity.CRITICAL, source, up_seconds)


@pytest.mark.parametrize(
    ("alarms", "files"),
    [
        ([first_loss(number) for number in range(20, 30)], 10),
        ([first_loss(number, up_seconds=599.0) for number in range(20, 30)], 0),
        ([first_loss(20)] * 5, 1),
        ([replace(first_loss(20), severity=Severity.MINOR)], 0),  # in a maintenance
        ([replace(first_loss(20), cause="xid_79")], 0),
        ([first_loss(1)], 0),  # its loss has a file of this hour
        ([first_loss(number, "plugin") for number in range(20, 40)], 16),
        ([first_loss(number, f"tool {number % 2}") for number in range(20, 60)], 32),
    ],
)
def test_the_first_loss_of_a_card_that_was_up_for_a_while_has_a_file_whatever_the_hour_had(
    alarms: list[Alarm], files: int
) -> None:
    night = Night()
    for number in range(8):
        night.files(card(number, f"tool {number % 2}"), every=121.0, times=1)
    assert sum(night.files(alarm, every=61.0, times=1) for alarm in alarms) == files


def test_files_of_first_losses_are_none_of_the_hour_and_a_card_has_another_a_day_later() -> None:
    night = Night()
    assert sum(night.files(first_loss(number), every=121.0, times=1) for number in range(9)) == 9
    assert night.files(XID, every=0.0, times=1) == 1
    night.now += 24 * HOUR
    assert sum(night.files(first_loss(number), every=121.0, times=1) for number in range(16)) == 16


@pytest.mark.parametrize(("severity", "most"), [(Severity.MINOR, 3), (Severity.SERIOUS, 4), (Severity.CRITICAL, 6)])
def test_less_severe_alarms_leave_files_of_the_hour_to_severe_ones(severity: Severity, most: int) -> None:
    night = Night()
    alarms = [Alarm("fault", f"GPU-{number}", severity, f"tool {number % 3}") for number in range(10)]
    assert sum(night.files(alarm, every=3 * MINUTE, times=1) for alarm in alarms) == most
    assert night.files(LOST, every=0, times=1) == (severity is not Severity.CRITICAL)


def card(number: int, source: str = "nvml") -> Alarm:
    return Alarm("lost", f"GPU-{number}", Severity.CRITICAL, source)


@pytest.mark.parametrize(
    ("alarms", "files"),
    [
        ([(0, CRASH), (0, CRASH), (0, LOST), (0, CRASH), (0, LOST)], 2),
        ([(0, CRASH), (0, HOT), (0, CRASH), (60, LOST), (60, HOT)], 3),
        ([(0, HOT), (60, Alarm("throttled_by_heat", "GPU-2")), (75, LOST)], 2),
        ([(0, HOT), (110, HOT), (220, HOT), (330, HOT), (440, LOST)], 2),
        # a further card is in the first file while that may be rewritten
        ([(0, card(1)), (59, card(2)), (61, card(1)), (62, card(2))], 1),
        ([(0, card(1)), (61, card(2)), (122, card(3)), (123, card(4)), (183, HOT)], 3),
        # a card with an Xid that is lost after that
        ([(0, Alarm("xid_79", "GPU-1", Severity.CRITICAL)), (59, HOT), (75, LOST), (76, LOST)], 2),
    ],
)
def test_only_a_more_severe_alarm_starts_another_burst(alarms: list[tuple[float, Alarm]], files: int) -> None:
    night, begun = Night(), 1e6
    written = 0
    for after, alarm in alarms:
        night.now = begun + after
        written += night.files(alarm, every=0, times=1)
    assert written == files


def test_a_file_that_was_not_written_or_is_of_another_alarm_now_counts_no_more() -> None:
    night = Night()
    for number in range(20):
        entry = night.bursts.start_burst(card(number))
        assert entry is not None
        night.bursts.remove(entry)
        night.bursts.remove(entry)
        night.now += 3 * MINUTE
    for number in range(6):
        crash = night.bursts.start_burst(Alarm("xid_31", f"GPU-{number}", Severity.MINOR, "other"))
        assert (crash is not None) == (number < 3), "half of the hour is used up"
        assert night.bursts.start_burst(card(number, f"tool {number % 2}"), pending=crash)
        night.now += 3 * MINUTE
    assert night.bursts.start_burst(card(9)) is None


def test_a_burst_that_is_not_worth_a_file_does_not_hide_another() -> None:
    night = Night()
    for number in range(3):
        night.files(Alarm("xid_13", f"GPU-{number}", Severity.MINOR), every=3 * MINUTE, times=1)
    assert [night.files(alarm, every=0, times=1) for alarm in (CRASH, LOST)] == [0, 1]


def test_files_of_the_previous_daemon_count() -> None:
    now = 1e6
    recent = [now - 60.0 * number for number in range(6)]
    assert not FlightFilePolicy(lambda: now, recent).start_burst(LOST)
    assert FlightFilePolicy(lambda: now, [now - 2 * HOUR] * 6).start_burst(LOST)
