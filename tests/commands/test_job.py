"""`telemetry job` as a scheduler's hook calls it: what it writes, and that it ends soon with status 0 whatever happens."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from telemetry_daemon.jobs.files import MOST_FILES

TELEMETRY = str(Path(sys.executable).with_name("telemetry"))
JOB = {"SLURM_JOB_ID": "1234", "SLURM_JOB_USER": "anna", "SLURM_JOB_GPUS": "0,1"}
# The law is two seconds on a machine that does nothing else; tests share theirs.
LONGEST_SECONDS = 2.0 + 1.0


def call(
    *arguments: str, environment: Mapping[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """`telemetry job` with an environment of its own; ended by status 0 within the time, whatever it was called with."""
    given = {"PATH": os.environ["PATH"], **(JOB if environment is None else environment)}
    begun = time.monotonic()
    done = subprocess.run(
        [TELEMETRY, "job", *arguments],
        env=given,
        text=True,
        timeout=30,
        check=False,
        **{"capture_output": True, **more},
    )
    assert done.returncode == 0
    assert time.monotonic() - begun < LONGEST_SECONDS
    return done


def record(folder: Path, name: str = "slurm-1234.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run/telemetry-jobs"


def test_start_and_end(folder: Path) -> None:
    before = time.time()
    done = call("start", "--directory", str(folder))
    assert (done.stdout, done.stderr) == ("", "")
    began = record(folder)
    assert (began["id"], began["user"], began["devices"], began["ended"]) == ("1234", "anna", ["0", "1"], None)
    assert before <= began["started"] <= time.time()
    call("end", "--directory", str(folder))
    assert record(folder)["ended"] >= began["started"]
    assert [path.name for path in folder.iterdir()] == ["slurm-1234.json"]


def test_folder_and_file_are_for_root_and_the_service(folder: Path) -> None:
    call("start", "--directory", str(folder))
    path = folder / "slurm-1234.json"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (path.stat().st_uid, path.stat().st_gid) == (os.geteuid(), folder.stat().st_gid)


@pytest.mark.needs("root")
def test_the_file_has_the_group_of_the_folder(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.chown(folder, 0, 4242)
    call("start", "--directory", str(folder))
    assert (folder / "slurm-1234.json").stat().st_gid == 4242


@pytest.mark.needs("root")
def test_a_new_folder_gets_the_group_of_the_service(tmp_path: Path, folder: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    os.chown(runtime, 4242, 4343)
    call("start", environment={**JOB, "TELEMETRY_STATE_RUNTIME_DIRECTORY": str(runtime), **directory(folder)})
    assert (folder.stat().st_uid, folder.stat().st_gid) == (0, 4343)
    assert (folder / "slurm-1234.json").stat().st_gid == 4343


def directory(folder: Path) -> dict[str, str]:
    return {"TELEMETRY_ATTRIBUTION_JOB_DIRECTORY": str(folder)}


def test_the_configuration_says_where(tmp_path: Path, folder: Path) -> None:
    file = tmp_path / "telemetry.toml"
    file.write_text(f'[attribution]\njob_directory = "{folder}"\n')
    call("start", "--config", str(file))
    assert record(folder)["id"] == "1234"
    call("end", environment={**JOB, "TELEMETRY_CONFIG": str(file)})
    assert record(folder)["ended"]


@pytest.mark.parametrize(
    "job_id", ["../../etc/passwd", "12/..", ".", "1234[7].head.example.org", "ƒ2Ek", "a b", "\u202e"]
)
def test_no_id_leads_out_of_the_folder(folder: Path, job_id: str) -> None:
    call("start", "--directory", str(folder), environment={"PBS_JOBID": job_id})
    (path,) = folder.iterdir()
    assert path.name.startswith("pbs-")
    assert path.is_file()
    assert path.name.isascii()
    assert "/" not in path.name


# ---- the law: status 0 within two seconds


def no_folder(folder: Path) -> Sequence[str]:
    return ["--directory", str(folder.parent / "file/below")]


def a_link(folder: Path) -> Sequence[str]:
    folder.parent.mkdir(parents=True)
    (folder.parent / "real").mkdir()
    folder.symlink_to(folder.parent / "real")
    return ["--directory", str(folder)]


def anybodys(folder: Path) -> Sequence[str]:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    return ["--directory", str(folder)]


def full(folder: Path) -> Sequence[str]:
    folder.mkdir(parents=True)
    for number in range(MOST_FILES):
        (folder / f"slurm-{number}x.json").touch()
    return ["--directory", str(folder)]


def read_only(_folder: Path) -> Sequence[str]:
    return ["--directory", "/proc/sys/kernel"]


def unknown_configuration(folder: Path) -> Sequence[str]:
    return ["--directory", "/proc/none", "--config", str(folder / "absent")]


FOLDERS: Sequence[tuple[Callable[[Path], Sequence[str]], str]] = (
    (no_folder, ""),
    (anybodys, "can be written by others"),
    (full, "10,000 files"),
    (read_only, "/proc/sys/kernel"),
    (unknown_configuration, "/proc/none"),
)


@pytest.mark.parametrize("action", ["start", "end"])
@pytest.mark.parametrize(("make", "said"), FOLDERS, ids=lambda value: getattr(value, "__name__", ""))
def test_no_folder_fails_a_hook(folder: Path, action: str, make: Callable[[Path], Sequence[str]], said: str) -> None:
    folder.parent.mkdir(parents=True)
    (folder.parent / "file").touch()
    shutil.rmtree(folder.parent)
    arguments = make(folder)
    done = call(action, *arguments)
    if (
        "did not end in time" in done.stderr
    ):  # it looked through ten thousand files for the first time, on a busy machine
        done = call(action, *arguments)
    if said and not (action == "end" and make in (full, read_only)):  # there is nothing to end
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["stop"],
        ["start", "end"],
        ["--nonsense"],
        ["start", "--directory"],
        ["start", "--config", "/nowhere"],
        ["--help"],
        ["start", "--directory", "\udcff"],
    ],
    ids=repr,
)
def test_no_usage_error_fails_a_hook(tmp_path: Path, folder: Path, arguments: list[str]) -> None:
    call(*arguments, environment={**JOB, **directory(folder)}, cwd=tmp_path)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"SLURM_JOB_ID": ""},
        {"SLURM_JOB_ID": "9" * 100_000},
        {**JOB, "SLURM_JOB_GPUS": "," * 100_000},
        {**JOB, "SLURM_JOB_USER": os.fsdecode(b"\xff\xfe")},
        {**JOB, "HOME": "", "LANG": "nonsense", "LC_ALL": "C"},
        {**JOB, "COLUMNS": "nonsense", "TELEMETRY_DEBUG": "1", "TELEMETRY_CONFIG": "/proc/self/mem"},
    ],
    ids=[
        "nothing",
        "no id",
        "a long id",
        "commas",
        "no UTF-8",
        "no HOME and odd locales",
        "an unreadable configuration",
    ],
)
def test_no_environment_fails_a_hook(folder: Path, environment: dict[str, str]) -> None:
    call("start", environment={**environment, **directory(folder)})


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
def test_no_stream_fails_a_hook(folder: Path, closed: str) -> None:
    for action in ("start", "--nonsense"):
        shell = f'exec "$0" job {action} {closed}'
        done = subprocess.run(
            ["sh", "-c", shell, TELEMETRY],
            env={**JOB, **directory(folder)},
            check=False,
            timeout=30,
            capture_output=True,
        )
        assert done.returncode == 0
    assert record(folder)["id"] == "1234"


def test_nobody_who_reads_does_not_fail_a_hook(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    call("--help", capture_output=False, stdout=writing, stderr=writing)
    os.close(writing)


def test_a_full_pipe_does_not_hold_a_hook(folder: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):  # it is full, as this test wants it
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    call("--nonsense", capture_output=False, stdout=writing, stderr=writing)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize(
    ("limit", "most"),
    [(resource.RLIMIT_NOFILE, 5), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_NPROC, 1)],
    ids=["no descriptors", "no bytes", "no processes"],
)
def test_no_limit_fails_a_hook(folder: Path, limit: int, most: int) -> None:
    call("start", environment={**JOB, **directory(folder)}, preexec_fn=lambda: resource.setrlimit(limit, (most, most)))


def test_a_daemon_that_does_not_answer_does_not_hold_a_hook(tmp_path: Path, folder: Path) -> None:
    import socket

    (tmp_path / "runtime").mkdir()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "runtime/control.sock"))
        silent.listen(0)
        call(
            "start",
            environment={**JOB, **directory(folder), "TELEMETRY_STATE_RUNTIME_DIRECTORY": str(tmp_path / "runtime")},
        )
    assert record(folder)["id"] == "1234"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE])
def test_no_signal_fails_a_hook_that_works(folder: Path, number: signal.Signals) -> None:
    """Once Python is up; a signal before that ends any program."""
    code = (
        "import os, sys, time; sys.argv = ['telemetry', 'job', 'start']\n"
        "from telemetry_daemon import cli\n"
        "from telemetry_daemon.jobs import files\n"
        f"files.begin = lambda *_: (os.kill(os.getppid(), {int(number)}), os.kill(os.getpid(), {int(number)}), time.sleep(0.1))\n"
        "cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**JOB, **directory(folder)}, check=False, timeout=30, capture_output=True
    )
    assert done.returncode == 0


def test_work_that_hangs_is_left_behind(folder: Path) -> None:
    code = (
        "import sys, time; sys.argv = ['telemetry', 'job', 'start']\n"
        "from telemetry_daemon import cli\n"
        "from telemetry_daemon.jobs import files\n"
        "files.begin = lambda *_: time.sleep(60)\n"
        "cli.main()"
    )
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**JOB, **directory(folder)},
        check=False,
        timeout=30,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert time.monotonic() - begun < LONGEST_SECONDS
    assert "did not end in time" in done.stderr


def test_it_loads_nothing_that_takes_long() -> None:
    code = (
        "import sys, os\n"
        "os._exit = lambda status: print(*sys.modules) or os.kill(os.getpid(), 9)\n"
        "sys.argv = ['telemetry', 'job', 'start', '--directory', '/proc/none']\n"
        "from telemetry_daemon import cli\n"
        "from telemetry_daemon.jobs import harmless\n"
        "harmless.run = lambda work: work()\n"
        "cli.main(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=JOB, check=True, timeout=30, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "telemetry_daemon.jobs.files" in loaded
    assert not loaded & {
        "pydantic",
        "asyncio",
        "logging",
        "ssl",
        "tomllib",
        "psutil",
        "subprocess",
        "telemetry_parsers.model",
    }
