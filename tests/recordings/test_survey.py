"""Positions of captures in a recording despite clock changes, and times as users write them."""

import pytest

from telemetry_daemon.recordings.survey import Survey, parse_time, placed_captures
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.model import Capture, Library

BEGUN = 1_795_000_000.0  # 2026-11-18 11:06:40 UTC


def capture(at: float, poll: str = "fast", *, wall: float | None = None, seconds: float = 0.0) -> Capture:
    wall_time = BEGUN + at if wall is None else wall
    return Capture("smi", poll, Library("x"), seconds=seconds, wall_time=wall_time, monotonic_time=5000.0 + at)


AT_START = (capture(-170, "inventory"), capture(-40, "slow"), capture(-2))
OF_DAYS = (capture(9 + 9e4), capture(9 + 9e4 + 2), capture(5e9))
PLACES: dict[str, tuple[tuple[Capture, ...], list[tuple[float, float]]]] = {
    "it begins where polls come again": ((*AT_START, capture(0)), [(0, 170), (0, 40), (0, 2), (0, 0)]),
    "one of each poll is a moment": ((capture(0, "x"), capture(3), capture(5, "y")), [(0, 5), (0, 2), (0, 0)]),
    "where an answer was there": ((capture(0), capture(0), capture(1, seconds=5.0)), [(0, 0), (0, 0), (6, 0)]),
    "the wall clock jumps": ((capture(0), capture(0), capture(2, wall=0.0)), [(0, 0), (0, 0), (2, 0)]),
    "after a reboot": ((capture(0), capture(0), capture(-4000), capture(-3998)), [(0, 0)] * 3 + [(2, 0)]),
    "after a day without": ((capture(0), capture(0), *OF_DAYS), [(0, 0)] * 3 + [(2, 0)] * 2),
}


@pytest.mark.parametrize(("captures", "expected"), PLACES.values(), ids=PLACES)
def test_offset_and_age_of_each_capture(captures: tuple[Capture, ...], expected: list[tuple[float, float]]) -> None:
    assert [(placed_capture.position, placed_capture.age) for placed_capture in placed_captures(captures)] == expected


def test_a_survey_reports_length_time_and_pace() -> None:
    captures = [capture(at) for at in range(0, 21, 2)] + [capture(20.5, "slow")]
    survey = Survey.from_captures(captures)
    assert (survey.length, survey.wall_times.at(0.0)) == (18.5, BEGUN + 2)
    assert survey.counts == {("smi", "fast"): 11, ("smi", "slow"): 1}
    assert survey.intervals() == {("smi", "fast"): pytest.approx(1.8), ("smi", "slow"): 0.0}


def surveyed(*times: tuple[float, float]) -> Survey:
    survey = Survey(length=times[-1][0])
    for position, wall_time in times:
        survey.wall_times.add(position, wall_time)
    return survey


SURVEY = surveyed((0.0, BEGUN), (7200.0, BEGUN + 7200.0))


@pytest.mark.parametrize(
    "text", ["", "soon", "-30s", "end30s", "end-", "25:00", "12:60", "2026-13-01", "1y", "９０", "1e3", "end-end"]
)
def test_invalid_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time in a recording; write 90s"):
        parse_time(text)


@pytest.mark.parametrize("text", ["3h", "end-3h", "11:00", "2026-11-17T11:06:40Z", "2027-01-01"])
def test_a_moment_outside_the_recording_is_refused_with_its_times(text: str) -> None:
    with pytest.raises(CommandError, match=r"outside the recording of 2026-11-18 11:06:40 UTC to .* \(2 h"):
        parse_time(text).position(SURVEY)


def hours_off(*pairs: tuple[float, float]) -> Survey:
    """Return a minute of captures, one per second; from these positions on the clock is ahead by the given hours."""

    def wall(position: float) -> float:
        return BEGUN + position + 3600.0 * next((hours for begin, hours in reversed(pairs) if position >= begin), 0.0)

    return surveyed(*((float(at), wall(at)) for at in range(61)))


HOUR_LATER = hours_off((30, 1))
TWICE = hours_off((20, 1), (40, -1))


@pytest.mark.parametrize(
    ("survey", "position", "time"),
    [
        (HOUR_LATER, 29.5, BEGUN + 29.5),
        (HOUR_LATER, 30.0, BEGUN + 3630.0),
        (TWICE, 60.0, BEGUN - 3540.0),
        (surveyed((0, 0.0), (0, BEGUN), (2, BEGUN + 2)), 0.0, BEGUN),
        (surveyed((0, BEGUN), (2, 0.0), (4, BEGUN + 4), (6, BEGUN + 6)), 3.0, BEGUN + 3),
        (surveyed(*((at, BEGUN + 1.0001 * at) for at in range(0, 86_400, 60))), 86_340.0, BEGUN + 86_348.6),
        (surveyed(*((at, at % 4 // 2 * 1e6) for at in range(10_000))), 1.0, 1.0),
    ],
)
def test_a_time_is_what_the_clock_reported_there(survey: Survey, position: float, time: float) -> None:
    assert survey.wall_times.at(position) == pytest.approx(time, abs=1.0)


@pytest.mark.parametrize(
    ("survey", "text", "position"),
    [
        (SURVEY, "90", 90.0),
        (SURVEY, "1h30m", 5400.0),
        (SURVEY, "end", 7200.0),
        (SURVEY, "end-30s", 7170.0),
        (SURVEY, "11:06:40", 0.0),
        (SURVEY, "11:06:39", 0.0),  # the recording begins within this second
        (SURVEY, "12:00", 3200.0),
        (SURVEY, "2026-11-18T11:07:40Z", 60.0),
        (SURVEY, "2026-11-18T12:07:40+01:00", 60.0),
        (surveyed((0.0, BEGUN), (86_400.0, BEGUN + 86_400.0)), "00:30", 48_200.0),  # of the next day
        (HOUR_LATER, "11:06:50", 10.0),
        (HOUR_LATER, "12:07:20", 40.0),
        (HOUR_LATER, "2026-11-18T11:07:10Z", 30.0),
        (TWICE, "10:07:30", 50.0),
        (TWICE, "end-5s", 55.0),
    ],
)
def test_a_time_is_found_where_the_clock_reported_it(survey: Survey, text: str, position: float) -> None:
    assert parse_time(text).position(survey) == pytest.approx(position)


@pytest.mark.parametrize("text", ["11:30", "2026-11-18T11:30:00Z"])
def test_a_time_at_which_the_node_was_down_is_refused_with_when_it_was_not(text: str) -> None:
    says = (
        r"is of 2026-11-18 11:06:40 UTC to .* 11:07:10 UTC, then 2026-11-18 12:07:10 UTC to .* 12:07:40 UTC \(60 s|1 m"
    )
    with pytest.raises(CommandError, match=says):
        parse_time(text).position(HOUR_LATER)


def test_after_a_reboot_a_time_is_that_of_the_second_boot() -> None:
    before = [capture(at) for at in range(10)]
    after = [capture(at - 4000, wall=BEGUN + 3600 + at) for at in range(10)]
    survey = Survey.from_captures([*before, *after])
    assert survey.wall_times.at(0.0) == BEGUN + 1
    assert survey.wall_times.at(survey.length) == BEGUN + 3609
    assert parse_time("12:06:45").position(survey) == pytest.approx(survey.length - 4)
