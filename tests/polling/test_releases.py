"""Which sources are released, and until when."""

from __future__ import annotations

from telemetry_daemon.polling.releases import Releases


def test_a_release_lasts_until_resumed_or_for_its_time_and_the_last_one_counts() -> None:
    now = 1000.0
    releases = Releases(lambda: now)
    releases.release("nvml")
    now += 1e9
    assert "telemetry resume nvml" in releases.text_of("nvml")
    assert releases.text_of("amd-smi") == ""
    assert (releases.resume("nvml"), releases.text_of("nvml"), releases.resume("nvml")) == (True, "", False)
    releases.release("nvml")
    releases.release("nvml", 60)
    now += 59.5
    assert "for 1 s more" in releases.text_of("nvml")
    now += 0.5
    assert (releases.text_of("nvml"), releases.resume("nvml")) == ("", False)
