"""Which sources are released, and until when."""

from __future__ import annotations

import pytest

from telemetry_daemon.polling.releases import Releases


class Hand:
    """A clock moved by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hand:
    return Hand()


def test_a_release_without_a_time_lasts_until_resumed(clock: Hand) -> None:
    releases = Releases(clock)
    releases.release("nvml")
    clock.now += 1e9
    assert "telemetry resume nvml" in releases.text_of("nvml")
    assert releases.text_of("amd-smi") == ""
    assert (releases.resume("nvml"), releases.text_of("nvml"), releases.resume("nvml")) == (True, "", False)


def test_a_release_for_a_time_ends_by_itself(clock: Hand) -> None:
    releases = Releases(clock)
    releases.release("nvml", 60)
    clock.now += 59.5
    assert "for 1 s more" in releases.text_of("nvml")
    clock.now += 0.5
    assert (releases.text_of("nvml"), releases.resume("nvml")) == ("", False)


def test_the_last_release_counts(clock: Hand) -> None:
    releases = Releases(clock)
    releases.release("nvml")
    releases.release("nvml", 10)
    clock.now += 11
    assert releases.text_of("nvml") == ""
