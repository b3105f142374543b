"""The systemd unit: it is hardened, explains each exception, and fits the daemon."""

import fnmatch
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kits.captures import ROOT
from telemetry_daemon.readers.device_nodes import NODE_PATTERNS
from telemetry_daemon.terminal import exits

FOLDER = ROOT / "deploy/systemd"
UNIT = FOLDER / "telemetry.service"
DROP_INS = sorted((FOLDER / "drop-ins").glob("*.conf"))
MAX_EXPOSURE = "20"  # tenths
# The driver's name for its device nodes, if it differs from the names of the nodes.
REGISTERED_AS = {"renderD": "226", "davinci": "devdrv-cdev", "nvidia": "195", "nvidiactl": "195"}
# Would break the access to groups and devices, readings from /proc, scrapes from elsewhere.
HARMFUL = {
    "PrivateDevices",
    "PrivateUsers",
    "PrivateNetwork",
    "ProcSubset",
    "ProtectProc",
    "IPAddressDeny",
    "DynamicUser",
}
NEWER_THAN_249 = {
    "RestrictFileSystems", "RestrictNetworkInterfaces", "StartupAllowedCPUs", "LogFilterPatterns", "OpenFile",
    "MemoryZSwapMax", "RestartSteps", "RestartMaxDelaySec", "MemoryPressureWatch", "DelegateSubgroup", "ImportCredential",
    "RestartMode", "FileDescriptorStorePreserve", "SetLoginEnvironment", "SurviveFinalKillSignal", "NFTSet",
    "PrivatePIDs", "ManagedOOMMemoryPressureDurationSec",
}  # fmt: skip


def settings(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT.read_text(), flags=re.MULTILINE)


def comments() -> str:
    return "\n".join(line for line in UNIT.read_text().splitlines() if line.startswith("#"))


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.needs("systemd-analyze")
def test_the_exposure_is_small() -> None:
    done = analyze("security", "--offline=true", f"--threshold={MAX_EXPOSURE}", UNIT)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.needs("systemd-analyze")
def test_each_open_item_is_explained() -> None:
    done = analyze("security", "--offline=true", "--json=short", UNIT)
    still_open = {item["name"].partition("=")[0] for item in json.loads(done.stdout) if item["set"] is False}
    assert len(still_open) > 5
    assert [name for name in sorted(still_open) if f"{name}=" not in comments()] == []


@pytest.mark.needs("systemd-analyze")
@pytest.mark.parametrize("drop_in", [None, *DROP_INS], ids=lambda file: file.name if file else "none")
def test_systemd_understands_it(tmp_path: Path, drop_in: Path | None) -> None:
    shutil.copy(UNIT, tmp_path)
    if drop_in:
        (tmp_path / "telemetry.service.d").mkdir()
        shutil.copy(drop_in, tmp_path / "telemetry.service.d")
    done = analyze("verify", "--man=no", tmp_path / UNIT.name)
    assert (done.returncode, done.stderr) == (0, "")


def test_unit_has_no_harmful_or_too_new_setting() -> None:
    names = set(re.findall(r"^([A-Za-z]+)=", UNIT.read_text(), flags=re.MULTILINE))
    assert names & (HARMFUL | NEWER_THAN_249) == set()
    assert settings("Type") == ["notify"]


@pytest.mark.parametrize("pattern", NODE_PATTERNS)
def test_every_node_that_the_daemon_waits_for_is_allowed(pattern: str) -> None:
    node = re.sub(r"\[0-9\]|\*", "", Path(pattern).name)
    allowed = [line.removeprefix("char-").removesuffix(" rw") for line in settings("DeviceAllow")]
    registered = REGISTERED_AS.get(node, node)
    assert [name for name in allowed if fnmatch.fnmatchcase(registered, name)], (
        f"DeviceAllow=char-{registered} is missing"
    )


def test_exit_statuses_of_the_unit_match_the_daemon() -> None:
    assert settings("RestartPreventExitStatus") == [str(exits.CONFIGURATION)]
    assert settings("RestartForceExitStatus") == [str(exits.RESTART)]


@pytest.mark.needs("systemd-sysusers")
def test_user_and_groups_are_made_where_they_are_missing(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/group").write_text("video:x:44:somebody\n")
    line = ["systemd-sysusers", f"--root={tmp_path}", str(FOLDER / "sysusers.d/telemetry.conf")]
    subprocess.run(line, check=True, capture_output=True)
    users = {row.split(":")[0]: row.split(":")[-1] for row in (tmp_path / "etc/passwd").read_text().splitlines()}
    groups = {row.split(":")[0] for row in (tmp_path / "etc/group").read_text().splitlines()}
    assert users[settings("User")[0]].endswith("nologin")
    assert {*settings("Group"), *settings("SupplementaryGroups")[0].split()} <= groups
    assert "video:x:44:somebody" in (tmp_path / "etc/group").read_text()


@pytest.mark.parametrize("drop_in", DROP_INS, ids=lambda file: file.name)
def test_every_drop_in_is_documented(drop_in: Path) -> None:
    assert f"`{drop_in.name}`" in (ROOT / "docs/install.md").read_text()
    assert "/etc/systemd/system/telemetry.service.d/" in drop_in.read_text()
