"""When polls are due, which sources are needed often, and which are released until when."""

from dataclasses import replace

import pytest

from telemetry_daemon.config.settings import SourceSettings
from telemetry_daemon.polling import poll_intervals
from telemetry_daemon.polling.poll_intervals import FastPollNeed, Releases
from telemetry_parsers.model import Absent, Command, Files, Library, MergedDevice, MergedReading, Poll, Snapshot

FAST = Poll("readings", Command((("tool",),)), interval=15.0)
SLOW = Poll("slow", Command((("tool", "-a"),)), tier="slow", interval=60.0)
LIBRARY = Poll("readings", Library("nvml"), interval=2.0)
NEEDED, NOT_NEEDED = FastPollNeed(), FastPollNeed(False, 0.0)


@pytest.mark.parametrize(
    ("poll", "settings", "state", "need", "seconds"),
    [
        pytest.param(FAST, SourceSettings(), "ok", NEEDED, 15.0, id="its own"),
        pytest.param(FAST, SourceSettings(interval=5.0), "ok", NEEDED, 5.0, id="configured"),
        pytest.param(SLOW, SourceSettings(interval=5.0), "ok", NEEDED, 60.0, id="configured for the fast tier only"),
        pytest.param(FAST, SourceSettings(), "failed", NEEDED, 15.0, id="failing"),
        pytest.param(FAST, SourceSettings(), "missing", NEEDED, 15.0, id="missing tool"),
        pytest.param(LIBRARY, SourceSettings(), "missing", NEEDED, 60.0, id="missing library"),
        pytest.param(FAST, SourceSettings(), "no_devices", NEEDED, 60.0, id="nothing there"),
        pytest.param(FAST, SourceSettings(), "not_supported", NEEDED, 60.0, id="no way to list is known"),
        pytest.param(
            replace(SLOW, lists_devices=False),
            SourceSettings(),
            "not_supported",
            NEEDED,
            3600.0,
            id="not of this product",
        ),
        pytest.param(FAST, SourceSettings(), None, NEEDED, 15.0, id="never asked"),
        pytest.param(FAST, SourceSettings(), "ok", NOT_NEEDED, 300.0, id="a cheaper source gives it all"),
        pytest.param(SLOW, SourceSettings(), "ok", NOT_NEEDED, 60.0, id="slow polls go on"),
        pytest.param(FAST, SourceSettings(mode="always"), "ok", NOT_NEEDED, 15.0, id="always"),
        pytest.param(FAST, SourceSettings(mode="inventory"), "ok", NEEDED, 300.0, id="inventory"),
    ],
)
def test_interval_depends_on_state_and_need(poll, settings, state, need, seconds):
    assert poll_intervals.current_interval(poll, settings, state, need) == seconds


@pytest.mark.parametrize(
    ("request_", "expensive"),
    [(Command((("tool",),)), True), (Files(("/sys/*",)), False), (Library("nvml"), False)],
)
def test_tools_are_expensive(request_, expensive):
    assert poll_intervals.runs_tool([Poll("readings", request_)]) is expensive


def snapshot(*readings):
    device = MergedDevice("amd", 0, "x", "0", "", readings=tuple(MergedReading(*reading) for reading in readings))
    return Snapshot("node", 0.0, 0.0, 0.0, devices=(device,))


@pytest.mark.parametrize(
    ("readings", "covered"),
    [
        pytest.param([("power_watts", "", 5.0, "tool")], False, id="it alone"),
        pytest.param([("power_watts", "", 5.0, "sysfs"), ("memory_used_bytes", "", 5.0, "tool")], False, id="both"),
        pytest.param([("power_watts", "", 5.0, "sysfs"), ("fan_ratio", "", 0.5, "tool")], True, id="only others"),
        pytest.param([("power_watts", "", 5.0, "sysfs"), ("up", "", 1.0, "sysfs")], True, id="another alone"),
        pytest.param([("power_watts", "", Absent.NOT_REPORTED, "tool")], False, id="no source has it"),
        pytest.param([], False, id="no readings"),
    ],
)
def test_tool_is_covered_by_cheaper_sources(readings, covered):
    assert poll_intervals.is_covered(snapshot(*readings), "tool", "amd") is covered
    assert not poll_intervals.is_covered(snapshot(*readings), "tool", "nvidia")


def test_need_ends_after_five_minutes():
    rested = poll_intervals.updated_need(FastPollNeed(), "auto", is_covered=True, now=0.0)
    assert rested == FastPollNeed(False, 0.0)
    needed = poll_intervals.updated_need(rested, "auto", is_covered=False, now=10.0)
    assert needed == FastPollNeed(True, 10.0)
    assert poll_intervals.updated_need(needed, "auto", is_covered=True, now=309.0) == needed
    assert poll_intervals.updated_need(needed, "auto", is_covered=True, now=310.0) == FastPollNeed(False, 310.0)
    assert poll_intervals.updated_need(FastPollNeed(), "always", is_covered=True, now=0.0) == FastPollNeed()


def test_last_release_counts() -> None:
    now = 1000.0
    releases = Releases(lambda: now)
    releases.release("nvml")
    now += 1e9
    assert "telemetry resume nvml" in releases.release_text("nvml")
    assert releases.release_text("amd-smi") == ""
    assert (releases.resume("nvml"), releases.release_text("nvml"), releases.resume("nvml")) == (True, "", False)
    releases.release("nvml")
    releases.release("nvml", 60)
    now += 59.5
    assert "for another 1 s" in releases.release_text("nvml")
    now += 0.5
    assert (releases.release_text("nvml"), releases.resume("nvml")) == ("", False)
