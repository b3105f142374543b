"""Locks per tool: exclusive, released, robust against removed files, and safe from other users."""

import fcntl
import logging
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kits.command_reader import is_held
from telemetry_daemon.readers.tool_lock import ToolBusyError, ToolLocks, is_busy, user_lock_folder
from telemetry_parsers.model import Failure

NEVER = threading.Event()
OTHER_USER = 65534
# Folders of other users can only be made by root.
ONLY_ROOT = pytest.mark.needs("root")
TROUBLES = [
    "a file in its place",
    "writable by others",
    "a link that others can change",
    pytest.param("somebody else's", marks=ONLY_ROOT),
]


def now() -> float:
    return time.monotonic()


def test_a_lock_is_held_by_one_and_given_back(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "locks"
    ours, theirs = ToolLocks(folder, "smi"), ToolLocks(folder, "smi")
    held = ours.acquire("/opt/vendor/bin/smi", now(), NEVER)
    assert is_held(folder, "smi"), "under the tool's name"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "smi.lock").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ToolBusyError, match="smi: another process runs it"):
        theirs.acquire("smi", now(), NEVER)
    theirs.acquire("other-smi", now(), NEVER).release()
    held.release()
    assert not is_held(folder, "smi")
    theirs.acquire("smi", now(), NEVER).release()


def test_a_lock_that_is_given_back_is_waited_for(tmp_path: Path) -> None:
    locks = ToolLocks(tmp_path, "smi")
    held = locks.acquire("smi", now(), NEVER)
    timer = threading.Timer(0.2, held.release)
    timer.start()
    locks.acquire("smi", now() + 60, NEVER).release()
    timer.join()


def test_closing_ends_the_wait(tmp_path: Path) -> None:
    locks = ToolLocks(tmp_path, "smi")
    held = locks.acquire("smi", now(), NEVER)
    closing = threading.Event()
    closing.set()
    with pytest.raises(ToolBusyError):
        locks.acquire("smi", now() + 600, closing)
    held.release()


def test_a_copy_that_a_child_kept_holds_the_lock_only_if_it_is_left(tmp_path: Path) -> None:
    held = ToolLocks(tmp_path, "smi").acquire("smi", now(), NEVER)
    assert held.descriptor is not None
    copy = os.dup(held.descriptor)
    held.release()
    assert not is_held(tmp_path, "smi")
    os.close(copy)
    held = ToolLocks(tmp_path, "smi").acquire("smi", now(), NEVER)
    assert held.descriptor is not None
    copy = os.dup(held.descriptor)
    held.close()
    held.close()
    assert is_held(tmp_path, "smi")
    os.close(copy)
    assert not is_held(tmp_path, "smi")


@pytest.mark.parametrize("owner", [os.geteuid(), pytest.param(OTHER_USER, marks=ONLY_ROOT)])
def test_a_lock_belongs_to_the_owner_of_its_folder(tmp_path: Path, owner: int) -> None:
    folder = tmp_path / "run" / "locks"
    for path in (folder.parent, folder):
        path.mkdir(mode=0o755)
        os.chown(path, owner, -1)
    ToolLocks(folder, "smi").acquire("smi", now(), NEVER).release()
    assert (folder / "smi.lock").stat().st_uid == owner


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_folder_that_cannot_be_trusted_is_left_for_the_users_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    folder = tmp_path / "locks"
    if trouble == "a file in its place":
        folder.write_text("")
    elif trouble == "a link that others can change":
        (tmp_path / "target").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "target")
        tmp_path.chmod(0o777)
    else:
        folder.mkdir(mode=0o700)
    if trouble == "writable by others":
        folder.chmod(0o777)
    if trouble == "somebody else's":
        tmp_path.chmod(0o777)
        os.chown(folder, OTHER_USER, -1)
    name = f"smi-{os.getpid()}"
    locks = ToolLocks(folder, "smi")
    with caplog.at_level(logging.WARNING):
        held = locks.acquire(name, now(), NEVER)
        with pytest.raises(ToolBusyError):
            locks.acquire(name, now(), NEVER)
    lock = user_lock_folder() / f"{name}.lock"
    with lock.open("rb") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    held.release()
    lock.unlink()
    assert len(caplog.records) == 1
    assert str(folder) in caplog.text


def test_only_a_busy_tool_counts_as_busy() -> None:
    assert is_busy(Failure("stuck", None, "smi: another process runs it: this daemon's source smi"))
    assert not is_busy(Failure("stuck", None, "smi (process 1) has not ended for 3 s"))
    assert not is_busy(Failure("failed", "timeout", "smi did not end"))
    assert not is_busy(None)


def busy(folder: Path, tool: str = "smi", source: str = "other-smi") -> str:
    with pytest.raises(ToolBusyError) as caught:
        ToolLocks(folder, source).acquire(tool, now(), NEVER)
    return str(caught.value)


ANOTHER = """
import sys, threading, time
from pathlib import Path
from telemetry_daemon.readers.tool_lock import ToolLocks
held = ToolLocks(Path(sys.argv[2]), "hy-smi").acquire("smi", time.monotonic(), threading.Event())
held.write_holder(int(sys.argv[3]))
print("held", flush=True)
sys.stdin.read()
"""


def test_another_command_of_ours_is_named_while_it_lives(tmp_path: Path) -> None:
    line = [sys.executable, "-c", ANOTHER, "telemetry snapshot", str(tmp_path), "77"]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "held\n"
        output = busy(tmp_path)
        other.stdin.close()
    assert f"(process {other.pid}), source hy-smi (process 77, for " in output
    assert output.endswith("skipped; the next poll runs as scheduled")


def test_tool_that_outlived_its_parent_is_named_with_a_remedy(tmp_path: Path) -> None:
    """The child has the lock, and the command that took it was killed."""
    held = ToolLocks(tmp_path, "smi").acquire("smi", now(), NEVER)
    (tmp_path / "smi.lock").write_text("4194304 77 hy-smi\n")  # no valid pid: pid_max is at most this
    output = busy(tmp_path)
    assert "by a telemetry process that has exited, has been running for" in output
    assert "kill this process" in output
    held.release()


@pytest.mark.parametrize("text", ["", "garbage", "1 2", "-1 2 smi\n", "9" * 5000, "\x00\xff"])
def test_empty_lock_file_still_means_busy(tmp_path: Path, text: str) -> None:
    held = ToolLocks(tmp_path, "smi").acquire("smi", now(), NEVER)
    (tmp_path / "smi.lock").write_text(text)
    assert busy(tmp_path).startswith("smi: another process runs it: ")
    held.release()


def test_a_removed_file_is_made_again(tmp_path: Path) -> None:
    locks = ToolLocks(tmp_path, "smi")
    first = locks.acquire("smi", now(), NEVER)
    (tmp_path / "smi.lock").unlink()
    second = locks.acquire("smi", now(), NEVER)
    assert is_held(tmp_path, "smi")
    first.release()
    assert is_held(tmp_path, "smi")
    second.release()


def test_no_tool_runs_unlocked_if_descriptors_run_out(tmp_path: Path) -> None:
    locks = ToolLocks(tmp_path, "smi")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            locks.acquire("smi", now(), NEVER)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
