"""The daemon's view compared with the command's: tables of both, and the findings."""

from dataclasses import replace
from typing import Any

import pytest

from telemetry_daemon.doctor.cards import device_fault_findings, missing_card_findings
from telemetry_daemon.doctor.daemon import DaemonView, LocalDaemon, Unit, findings, notes, working_sources
from telemetry_parsers.model import Absent, MergedDevice, MergedReading, Snapshot, SourceStatus
from telemetry_parsers.replay_info import ReplayInfo
from telemetry_parsers.states import BUSY


def status(state: Any = "ok", reason: Any = None, detail: str = "") -> SourceStatus:
    return SourceStatus("nvml", "nvidia", state, reason, detail)


def device(position: int = 0, fan: Any = 0.3, **more: Any) -> MergedDevice:
    reading = MergedReading("fan_ratio", "", fan, "nvml")
    return MergedDevice("nvidia", position, f"id{position}", str(position), "H100", readings=(reading,), **more)


def snapshot(source: SourceStatus, *devices: MergedDevice) -> Snapshot:
    return Snapshot("n", 1e9, 0.0, 60.0, devices=devices, sources=(source,))


HERE = snapshot(status(), device())
BESIDE = LocalDaemon(unit=None, command_settings_hash="aa", command_version="1.0")
VIEW = DaemonView("the daemon", HERE, "1.0", {}, "aa")


def unit(active: str, enabled: str = "enabled", **more: str) -> Unit:
    return Unit({"LoadState": "loaded", "ActiveState": active, "UnitFileState": enabled, **more})


SERVICE, USER = "LD_LIBRARY_PATH", "the service works"


def there(source: SourceStatus, *devices: MergedDevice, **more: Any) -> DaemonView:
    return replace(VIEW, snapshot=snapshot(source, *devices), **more)


DENIED = status("failed", "no_permission", "denied")
# The command's view, the daemon's view, and the finding with its remedy.
CASES: dict[str, tuple[Snapshot, DaemonView, str, str]] = {
    "both see the same": (HERE, VIEW, "", ""),
    "version": (HERE, replace(VIEW, version="0.9"), "version 0.9, but this command has version 1.0", "restart"),
    "configuration": (HERE, replace(VIEW, settings_hash="bb"), "different settings", "--config"),
    "the service may not": (
        HERE,
        there(DENIED),
        "nvml is ok in this command, but failed (no_permission) in the daemon: denied",
        SERVICE,
    ),
    "not found": (HERE, there(status("missing")), "ok in this command, but missing in the daemon", SERVICE),
    "this user may not": (
        snapshot(DENIED),
        there(status()),
        "ok in the daemon, but failed (no_permission) in this command",
        USER,
    ),
    "the daemon uses the tool": (snapshot(status("stuck", None, BUSY), device()), VIEW, "", ""),
    "fewer": (snapshot(status(), device(), device(1)), VIEW, "1 nvidia device, but this command reads 2", SERVICE),
    "more": (HERE, there(status(), device(), device(1)), "2 nvidia devices, but this command reads 1", "dmesg"),
    "a reading": (
        HERE,
        there(status(), device(fan=Absent.NOT_PERMITTED)),
        "the daemon may not read fan_ratio, but this command may",
        SERVICE,
    ),
    "a simulation": (HERE, there(status("failed"), device(simulated=True), settings_hash=""), "", ""),
}


@pytest.mark.parametrize(("here", "view", "what", "remedy"), CASES.values(), ids=CASES)
def test_differences_between_both_views(here: Snapshot, view: DaemonView, what: str, remedy: str) -> None:
    found = list(findings(here, replace(BESIDE, view=view)))
    assert [finding.where for finding in found] == ["daemon"] * bool(what)
    assert all(what in finding.what and remedy in finding.remedy for finding in found)


def card_with(metric: str, label: str) -> MergedDevice:
    return replace(device(), readings=(MergedReading(metric, label, 1.0, "nvml"),))


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (device(), []),
        (device(up=False), [("nvidia 0", "lost: the driver no longer lists the device", "telemetry forget id0")]),
        (
            card_with("event_open", "xid_79"),
            [("nvidia 0", "Xid 79, fell off the bus: this error ends jobs", "--replay /f/xid_79 shows")],
        ),
        (card_with("event_open", "xid_31"), []),
        (
            card_with("health", "alarm"),
            [("nvidia 0", "alarm: the device reports this health", "a reset usually helps")],
        ),
    ],
)
def test_findings_of_a_card(bad: MergedDevice, expected: list[tuple[str, str, str]]) -> None:
    recorded = {cause: f"/f/{cause}" for cause in ("xid_79", "throttled_by_heat")}
    found = list(device_fault_findings([HERE, snapshot(status(), bad), snapshot(status(), bad)], recorded))
    assert len(found) == len(expected)
    for finding, (where, what, remedy) in zip(found, expected, strict=True):
        assert (finding.where, what in finding.what, remedy in finding.remedy) == (where, True, True)


@pytest.mark.parametrize(
    ("seen", "expected", "found"),
    [
        ([snapshot(status()), HERE], {"nvidia": 1}, 0),
        ([HERE], {"nvidia": 2}, 1),
        ([snapshot(status(), device(), device(1, up=False))], {"nvidia": 2}, 0),
        ([snapshot(status("suspended"))], {"nvidia": 2}, 0),
        ([snapshot(status("released"), device(up=None))], {"nvidia": 2}, 0),
    ],
)
def test_missing_cards_are_counted(seen: list[Snapshot], expected: dict[str, int], found: int) -> None:
    assert len(list(missing_card_findings(seen, expected))) == found


def looping(ended: str, restarts: str) -> Unit:
    more = {"Result": "exit-code", "ExecMainStatus": ended, "NRestarts": restarts}
    return unit("activating", SubState="auto-restart", **more)


@pytest.mark.parametrize(
    ("of_unit", "expected"),
    [
        (None, ""),
        (unit("inactive"), "is enabled, but not running"),
        (unit("active", "disabled"), "is active, but no answer in time"),
        (unit("failed", Result="exit-code", ExecMainStatus="78"), "has failed (exit-code, status 78)"),
        (unit("activating", SubState="start", Result="success", NRestarts="1"), ""),
        (looping("75", "1"), ""),
        (looping("69", "43"), "restarts repeatedly (exit-code, status 69, 43 times)"),
    ],
)
def test_silent_daemon_is_explained_by_its_unit(of_unit: Unit | None, expected: str) -> None:
    silent = replace(BESIDE, unit=of_unit, error="no answer in time")
    found = list(findings(HERE, silent))
    assert [finding.what for finding in found] == [f"telemetry.service {expected}"] * bool(expected)
    assert all("systemctl" in finding.remedy or "journalctl" in finding.remedy for finding in found)
    assert not list(findings(HERE, replace(silent, is_denied=True)))
    (broken_one,) = findings(HERE, replace(silent, is_broken=True))
    assert broken_one.what == "the daemon runs, but does not answer: no answer in time"


@pytest.mark.parametrize(
    ("ended", "remedy"),
    [("64", "ExecStart="), ("70", "--bundle"), ("78", "config check"), ("1", "shows the reason")],
)
def test_remedy_depends_on_the_exit_status(ended: str, remedy: str) -> None:
    for of_unit in (looping(ended, "9"), unit("failed", Result="exit-code", ExecMainStatus=ended)):
        (finding,) = findings(HERE, replace(BESIDE, unit=of_unit, error="it does not run"))
        assert remedy in finding.remedy


def test_notes_about_the_daemon() -> None:
    assert list(notes(replace(BESIDE, view=VIEW))) == ["version 1.0, 1 device, sources: 1 ok"]
    assert list(notes(replace(BESIDE, error="why"))) == ["why"]
    played = replace(VIEW, snapshot=replace(HERE, recorded=ReplayInfo(1e9, "n")))
    assert "simulated or recorded cards" in list(notes(replace(BESIDE, view=played)))[1]
    assert (working_sources(replace(BESIDE, view=VIEW)), working_sources(replace(BESIDE, view=played))) == (
        {"nvml"},
        frozenset(),
    )
