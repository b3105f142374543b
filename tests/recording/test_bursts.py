"""One file for a burst, six in an hour, six a day of the same fault; a job that crashes leaves room for a card that is lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from telemetry_daemon.recording.alarms import Alarm
from telemetry_daemon.recording.bursts import Bursts

MINUTE, HOUR = 60.0, 3600.0
LOST = Alarm("lost", "GPU-1")
CRASH = Alarm("xid_31", "GPU-1", is_minor=True)


@dataclass
class Night:
    """Alarms at times that a test says."""

    now: float = 1e6
    bursts: Bursts = field(init=False)

    def __post_init__(self) -> None:
        self.bursts = Bursts(lambda: self.now)

    def files(self, alarm: Alarm, *, every: float, times: int) -> int:
        """How many files these alarms are worth."""
        written = 0
        for _ in range(times):
            written += self.bursts.begins(alarm)
            self.now += every
        return written


@pytest.mark.parametrize(
    ("every", "times", "files"),
    [
        (0.0, 1000, 1),
        (0.1, 1000, 1),
        (30.0, 20, 1),  # ten minutes
        (30.0, 240, 6),  # two hours, of which each ten minutes are a burst
        (3 * MINUTE, 100, 6),  # five hours
        (11 * MINUTE, 100, 6),
        (5 * HOUR, 10, 10),  # less than six a day
    ],
)
def test_files_of_one_fault(every: float, times: int, files: int) -> None:
    assert Night().files(LOST, every=every, times=times) == files


def test_other_faults_are_worth_files_when_one_is_not_any_more() -> None:
    night = Night()
    night.files(LOST, every=3 * MINUTE, times=100)
    assert night.files(Alarm("lost", "GPU-2"), every=3 * MINUTE, times=1) == 1


def test_six_files_an_hour_whatever_happens() -> None:
    night = Night()
    written = [night.files(Alarm("lost", f"GPU-{number}"), every=3 * MINUTE, times=1) for number in range(40)]
    assert sum(written[:20]) == 6
    assert sum(written) == 12


def test_crashing_jobs_leave_half_of_the_hour() -> None:
    night = Night()
    crashes = sum(
        night.files(Alarm("xid_31", f"GPU-{number}", is_minor=True), every=3 * MINUTE, times=1) for number in range(10)
    )
    assert crashes == 3
    assert night.files(LOST, every=0, times=1) == 1


def test_what_is_worse_begins_a_burst_of_its_own_and_what_is_not_does_not() -> None:
    night = Night()
    assert [night.bursts.begins(each) for each in (CRASH, CRASH, LOST, CRASH, LOST)] == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_a_burst_that_is_not_worth_a_file_does_not_hide_another() -> None:
    night = Night()
    for number in range(3):
        night.files(Alarm("xid_13", f"GPU-{number}", is_minor=True), every=3 * MINUTE, times=1)
    assert [night.bursts.begins(each) for each in (CRASH, LOST)] == [False, True]


def test_files_of_the_daemon_before_count() -> None:
    now = 1e6
    recent = [now - 60.0 * number for number in range(6)]
    assert not Bursts(lambda: now, recent).begins(LOST)
    assert Bursts(lambda: now, [now - 2 * HOUR] * 6).begins(LOST)


def test_names_without_number_are_forgotten_in_turn() -> None:
    night = Night()
    for number in range(10_000):
        night.bursts.begins(Alarm("lost", str(number)))
    assert len(night.bursts._of_fault) <= 4096
