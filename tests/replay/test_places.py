"""Where in a recording a capture is, whatever the clocks of the machine did; and moments as people write them."""

from __future__ import annotations

import pytest

from telemetry_daemon.replay.moments import moment
from telemetry_daemon.replay.places import Survey, placed
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.model import Capture, Library

BEGUN = 1_795_000_000.0  # 2026-11-18 11:06:40 UTC


def capture(at: float, poll: str = "fast", *, wall: float | None = None, seconds: float = 0.0) -> Capture:
    wall_time = BEGUN + at if wall is None else wall
    return Capture("smi", poll, Library("x"), seconds=seconds, wall_time=wall_time, monotonic_time=5000.0 + at)


def places(*captures: Capture) -> list[tuple[float, float]]:
    return [(one.place, one.age) for one in placed(captures)]


def test_the_beginning_is_where_polls_come_again() -> None:
    told = (capture(-170, "inventory"), capture(-40, "slow"), capture(-2), capture(0), capture(2), capture(4, "slow"))
    assert places(*told) == [(0, 170), (0, 40), (0, 2), (0, 0), (2, 0), (4, 0)]


def test_one_capture_of_each_poll_is_a_moment() -> None:
    assert places(capture(0, "inventory"), capture(3), capture(5, "slow")) == [(0, 5), (0, 2), (0, 0)]


def test_a_place_is_where_an_answer_was_there() -> None:
    assert places(capture(0), capture(0), capture(1, seconds=5.0), capture(5.5)) == [(0, 0), (0, 0), (6, 0), (6, 0.5)]


@pytest.mark.parametrize("wall", [0.0, BEGUN - 1e6, BEGUN + 1e6])
def test_a_jump_of_the_wall_clock_does_not_matter(wall: float) -> None:
    assert places(capture(0), capture(0), capture(2, wall=wall), capture(4)) == [(0, 0), (0, 0), (2, 0), (4, 0)]


def test_after_a_reboot_it_goes_on_without_a_pause() -> None:
    told = (capture(0), capture(0), capture(9), capture(-4000), capture(-3998), capture(-3990))
    assert [place for place, _ in places(*told)] == [0, 0, 9, 9, 11, 19]


def test_after_a_day_without_a_capture_it_goes_on_without_a_pause() -> None:
    told = (capture(0), capture(0), capture(9), capture(9 + 9e4), capture(9 + 9e4 + 2), capture(5e9))
    assert [place for place, _ in places(*told)] == [0, 0, 9, 9, 11, 11]


def test_a_survey_tells_length_time_and_pace() -> None:
    told = [capture(at) for at in range(0, 21, 2)] + [capture(20.5, "slow")]
    survey = Survey.of(told)
    assert (survey.length, survey.wall_time) == (18.5, BEGUN + 2)
    assert survey.counts == {("smi", "fast"): 11, ("smi", "slow"): 1}
    assert survey.intervals() == {("smi", "fast"): pytest.approx(1.8), ("smi", "slow"): 0.0}


SURVEY = Survey(length=7200.0, wall_time=BEGUN)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("0", 0.0),
        ("90", 90.0),
        ("90s", 90.0),
        ("1h30m", 5400.0),
        ("end", 7200.0),
        ("end-30s", 7170.0),
        ("END-1.5", 7198.5),
        ("11:06:40", 0.0),
        ("11:06:39", 0.0),  # the recording begins within this second
        ("12:00", 3200.0),
        ("2026-11-18T11:07:40Z", 60.0),
        ("2026-11-18 11:07:40", 60.0),
        ("2026-11-18T12:07:40+01:00", 60.0),
    ],
)
def test_moments(text: str, place: float) -> None:
    assert moment(text).place(SURVEY) == pytest.approx(place)


def test_a_time_of_day_after_midnight_is_of_the_next_day() -> None:
    assert moment("00:30").place(Survey(length=86_400.0, wall_time=BEGUN)) == pytest.approx(
        12.89 * 3600 + 1796, abs=200
    )


@pytest.mark.parametrize(
    "text", ["", "soon", "-30s", "end30s", "end-", "25:00", "12:60", "2026-13-01", "1y", "９０", "1e3", "end-end"]
)
def test_what_is_no_moment_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(ValueError, match="is no moment of a recording; write 90s"):
        moment(text)


@pytest.mark.parametrize("text", ["3h", "end-3h", "11:00", "2026-11-17T11:06:40Z", "2027-01-01"])
def test_a_moment_outside_the_recording_is_refused_with_its_times(text: str) -> None:
    with pytest.raises(CommandError, match=r"outside the recording, which is of 2026-11-18 11:06:40 UTC to .* \(2 h"):
        moment(text).place(SURVEY)
