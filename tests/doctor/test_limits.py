"""Limits and folders: findings about limits that are too low and folders without access, and how they are read."""

import os
import resource
from pathlib import Path

import pytest

from telemetry_daemon.config.settings import Settings, StateSettings
from telemetry_daemon.doctor.daemon import LocalDaemon, Unit
from telemetry_daemon.doctor.limits import (
    Folder,
    Limits,
    container_findings,
    folder_findings,
    proc_findings,
    read_folders,
    read_limits,
    unit_findings,
)
from telemetry_daemon.doctor.machine import user_name

MIB = 1 << 20


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Limits(), []),
        (Limits(memory_bytes=64 * MIB), ["the limit is 64 MiB of memory; the daemon needs 128 MiB"]),
        (Limits(tasks=10), ["the limit is 10 processes and threads; the daemon needs 64"]),
        (Limits(cpus=0.02), ["the limit is 0.02 CPUs; the daemon needs 0.1"]),
        (Limits(open_files=64), ["the limit is 64 open files; the daemon needs 512"]),
    ],
)
def test_limits_of_a_container(given: Limits, expected: list[str]) -> None:
    found = list(container_findings(given, "Docker"))
    assert [finding.what for finding in found] == expected
    assert all("container" in finding.remedy for finding in found)
    assert not list(container_findings(given, ""))


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"MemoryMax": "infinity", "TasksMax": "18446744073709551615"}, []),
        ({"MemoryMax": str(32 * MIB)}, ["MemoryMax in a drop-in"]),
        ({"CPUQuotaPerSecUSec": "100ms"}, []),
        ({"CPUQuotaPerSecUSec": "50ms"}, ["CPUQuota in a drop-in"]),
        ({"TasksMax": "8", "LimitNOFILE": "100"}, ["TasksMax in a drop-in", "LimitNOFILE in a drop-in"]),
    ],
)
def test_limits_of_the_unit(properties: dict[str, str], expected: list[str]) -> None:
    assert not list(unit_findings(None))
    found = list(unit_findings(Unit(properties)))
    assert len(found) == len(expected)
    assert all(remedy in finding.remedy for finding, remedy in zip(found, expected, strict=True))


NO_DAEMON = LocalDaemon(error="no daemon answers on this node")
FOLDER = Folder("state.directory", "/var/lib/telemetry", free_bytes=1 << 30, free_files=1000)


@pytest.mark.parametrize(
    ("folder", "container", "daemon", "expected"),
    [
        (FOLDER, "", NO_DAEMON, []),
        (Folder("s", "/x", is_read_only=True), "", NO_DAEMON, [("mounted read-only", "set s")]),
        (Folder("s", "/x", "/x is not good: chmod /x"), "", NO_DAEMON, [("is not good", "chmod /x")]),
        (Folder("s", "/x", free_bytes=0), "", NO_DAEMON, [("the disk is full", "free some space")]),
        (Folder("s", "/x", free_bytes=1 << 30, free_files=0), "", NO_DAEMON, [("inodes", "remove files")]),
        (Folder("s", "/x", foreign_owner="telemetry"), "", NO_DAEMON, []),
        (Folder("s", "/x", foreign_owner="mia"), "Docker", NO_DAEMON, [("belongs to user mia", "set s")]),
        (Folder("s", "/x", foreign_owner="mia"), "Docker", LocalDaemon(is_denied=True), []),
        (Folder("s", "/x", free_bytes=0), "Docker", LocalDaemon(is_broken=True), [("the disk is full", "free")]),
    ],
)
def test_faults_of_a_folder(
    folder: Folder, container: str, daemon: LocalDaemon, expected: list[tuple[str, str]]
) -> None:
    found = list(folder_findings([folder], container, daemon))
    assert len(found) == len(expected)
    for finding, (what, remedy) in zip(found, expected, strict=True):
        assert what in finding.what
        assert remedy in finding.remedy


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


NO_GROUP = 12345


@pytest.mark.parametrize(
    ("options", "user", "group", "hides"),
    [
        ("hidepid=off", "nobody", "", False),
        ("hidepid=1", "nobody", "", True),
        ("hidepid=2", "nobody", "", True),
        ("hidepid=invisible", "root", "", False),
        (f"hidepid=2,gid={NO_GROUP}", "nobody", str(NO_GROUP), False),
        ("hidepid=1,gid=0", "nobody", "root no-such-group", False),
        (f"hidepid=ptraceable,gid={NO_GROUP}", "nobody", str(NO_GROUP), True),
        (f"hidepid=2,gid={NO_GROUP}", "made at the start", str(NO_GROUP), False),
    ],
)
def test_hidepid_hides_processes_from_the_units_user(
    tmp_path: Path, options: str, user: str, group: str, hides: bool
) -> None:
    root = tree(tmp_path, {"proc/self/mounts": f"proc /proc proc rw,{options} 0 0\n"})
    unit = {"User": user, "SupplementaryGroups": group}
    assert read_limits(root, Unit(unit)).hides_processes is hides
    assert [*proc_findings(read_limits(root, Unit(unit)), owners_are_shown=False)] == []
    may_trace = Unit({**unit, "AmbientCapabilities": "cap_net_bind_service cap_sys_ptrace"})
    assert not read_limits(root, may_trace).hides_processes


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, (None, None, None)),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": "100000\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/b/pids.max": "17\n",
                "sys/fs/cgroup/a/b/cpu.max": "5000 100000\n",
                "sys/fs/cgroup/a/cpu.max": "max 100000\n",
            },
            (100000, 17, 0.05),
        ),
        (
            # In a container, the path is the host's.
            {"proc/self/cgroup": "0::/../../host\n", "sys/fs/cgroup/memory.max": "7\n"},
            (7, None, None),
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/d\n3:pids:/d\n2:cpu,cpuacct:/d\n1:name=systemd:/d\nbroken\n",
                "sys/fs/cgroup/memory/d/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "200\n",
                "sys/fs/cgroup/pids/pids.max": "30\n",
                "sys/fs/cgroup/cpu,cpuacct/d/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu,cpuacct/d/cpu.cfs_period_us": "100000\n",
            },
            (200, 30, 0.5),
        ),
    ],
)
def test_control_groups_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: tuple[object, ...]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    found = read_limits(tree(tmp_path, files))
    assert (found.memory_bytes, found.tasks, found.cpus) == expected


@pytest.mark.parametrize(("user", "tasks"), [(0, 17), (1000, 9)])
def test_user_limits_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, tasks: int) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr("resource.getrlimit", {resource.RLIMIT_NPROC: (9, 20), resource.RLIMIT_NOFILE: (5, 700)}.get)
    files = {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/pids.max": "17\n"}
    found = read_limits(tree(tmp_path, files))
    assert (found.tasks, found.open_files) == (tasks, 700)


def test_folders_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    of_state = StateSettings(str(tmp_path / "state"), str(tmp_path / "none"))
    (found,) = read_folders(Settings(state=of_state))
    assert (found.setting, found.is_read_only) == ("state.directory", False)
    assert "can be written by others" in found.trouble
    assert found.free_bytes is not None
    (tmp_path / "state").chmod(0o755)
    (found,) = read_folders(Settings(state=of_state))
    assert (found.trouble, found.foreign_owner) == ("", "")
    user = (tmp_path / "state").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    (found,) = [folder for folder in read_folders(Settings(state=of_state)) if folder.setting == "state.directory"]
    assert (found.trouble, found.foreign_owner) == ("", user_name(user))
