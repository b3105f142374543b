"""`telemetry job` as called by a scheduler's hook: its files, and that it always exits soon with status 0."""

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kits.waiting import PATIENCE_SECONDS, PATIENT_JOB
from telemetry_daemon.readers.jobs import hook_process
from telemetry_daemon.readers.jobs.files import MAX_FILES

TELEMETRY = str(Path(sys.executable).with_name("telemetry"))
JOB = {"SLURM_JOB_ID": "1234", "SLURM_JOB_USER": "anna", "SLURM_JOB_GPUS": "0,1"}


def call(
    *arguments: str, environment: Mapping[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run `telemetry job` with this environment; its exit status must be 0."""
    given = {**PATIENT_JOB, **(JOB if environment is None else environment)}
    return ended_well([TELEMETRY, "job", *arguments], given, **more)


def ended_well(command: Sequence[str], environment: Mapping[str, str], **more: Any) -> subprocess.CompletedProcess[str]:
    given = {"PATH": os.environ["PATH"], **environment}
    streams = {"capture_output": True, **more}
    done = subprocess.run(command, env=given, text=True, timeout=PATIENCE_SECONDS, check=False, **streams)
    assert done.returncode == 0
    return done


def test_work_is_shorter_than_schedulers_wait() -> None:
    """Schedulers allow two seconds, which include the start of Python."""
    assert hook_process._MAX_SECONDS < 1.5  # noqa: SLF001  # no interface has it


def record(folder: Path, name: str = "slurm-1234.json") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / name).read_text())
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run/telemetry-jobs"


def test_start_and_end_are_recorded(folder: Path) -> None:
    before = time.time()
    done = call("start", "--directory", str(folder))
    assert (done.stdout, done.stderr) == ("", "")
    began = record(folder)
    assert (began["id"], began["user"], began["devices"], began["ended"]) == ("1234", "anna", ["0", "1"], None)
    assert before <= began["started"] <= time.time()
    call("end", "--directory", str(folder))
    assert record(folder)["ended"] >= began["started"]
    assert [path.name for path in folder.iterdir()] == ["slurm-1234.json"]


def test_modes_of_folder_and_file(folder: Path) -> None:
    call("start", "--directory", str(folder))
    path = folder / "slurm-1234.json"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert (path.stat().st_uid, path.stat().st_gid) == (os.geteuid(), folder.stat().st_gid)


@pytest.mark.needs("root")
def test_file_has_the_group_of_the_folder(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.chown(folder, 0, 4242)
    call("start", "--directory", str(folder))
    assert (folder / "slurm-1234.json").stat().st_gid == 4242


@pytest.mark.needs("root")
def test_new_folder_has_the_group_of_the_service(tmp_path: Path, folder: Path) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    os.chown(runtime, 4242, 4343)
    call("start", environment={**JOB, "TELEMETRY_STATE_RUNTIME_DIRECTORY": str(runtime), **directory(folder)})
    assert (folder.stat().st_uid, folder.stat().st_gid) == (0, 4343)
    assert (folder / "slurm-1234.json").stat().st_gid == 4343


def directory(folder: Path) -> dict[str, str]:
    return {"TELEMETRY_ATTRIBUTION_JOB_DIRECTORY": str(folder)}


# A machine whose usual folder is the first argument; the second is a configuration.
_WITH_USUAL_FOLDER = """
import sys
from telemetry_daemon import cli
from telemetry_daemon.commands import job
job.DEFAULT_JOB_DIRECTORY = sys.argv[1]
cli.main(["job", "start", "--config", sys.argv[2]])
"""
# A hook that does something else instead of its record.
_WITH_OTHER_WORK = """
import os, sys, time
from telemetry_daemon import cli
from telemetry_daemon.readers.jobs import files
files.record_start = lambda *_: ({})
cli.main(["job", "start"])
"""


def test_folder_comes_from_the_configuration(tmp_path: Path, folder: Path) -> None:
    file = tmp_path / "telemetry.toml"
    file.write_text(f'[attribution]\njob_directory = "{folder}"\n')
    call("start", "--config", str(file))
    assert record(folder)["id"] == "1234"
    call("end", environment={**JOB, "TELEMETRY_CONFIG": str(file)})
    assert record(folder)["ended"]


@pytest.mark.parametrize(
    "content", ['[attribution\njob_directory = "/elsewhere"\n', '[attribution]\njob_directory = "jobs"\n', None]
)
def test_unusable_configuration_is_reported(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "telemetry.toml"
    if content is not None:
        file.write_text(content)
    command = [sys.executable, "-c", _WITH_USUAL_FOLDER, str(tmp_path / "usual"), str(file)]
    done = ended_well(command, {**PATIENT_JOB, **JOB})
    assert "`telemetry config check` shows the error" in done.stderr
    assert record(tmp_path / "usual")["id"] == "1234"


@pytest.mark.parametrize(
    "job_id", ["../../etc/passwd", "12/..", ".", "1234[7].head.example.org", "ƒ2Ek", "a b", "\u202e"]
)
def test_job_id_stays_within_the_folder(folder: Path, job_id: str) -> None:
    call("start", "--directory", str(folder), environment={"PBS_JOBID": job_id})
    (path,) = folder.iterdir()
    assert path.name.startswith("pbs-")
    assert path.is_file()
    assert path.name.isascii()
    assert "/" not in path.name


# ---- exit status 0, soon


def anybodys(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def full(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(MAX_FILES):
        (folder / f"slurm-{number}x.json").touch()


def below_a_file(folder: Path) -> None:
    folder.parent.parent.mkdir(exist_ok=True)
    folder.parent.touch()


@pytest.mark.parametrize("action", ["start", "end"])
@pytest.mark.parametrize(
    ("make", "expected"), [(below_a_file, ""), (anybodys, "can be written by others"), (full, "10,000 files")]
)
def test_bad_folder_fails_no_hook(folder: Path, action: str, make: Callable[[Path], None], expected: str) -> None:
    make(folder)
    arguments = (action, "--directory", str(folder))
    done = call(*arguments)
    if "did not finish in time" in done.stderr:  # it looked through ten thousand files, on a busy machine
        done = call(*arguments)
    if expected and "did not finish in time" not in done.stderr and not (action == "end" and make is full):
        assert (expected in done.stderr, len(done.stderr.splitlines())) == (True, 1)


@pytest.mark.parametrize("more", [(), ("--config", "/nowhere")])
def test_read_only_folder_fails_no_hook(more: Sequence[str]) -> None:
    assert "/proc/sys/kernel" in call("start", "--directory", "/proc/sys/kernel", *more).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["start", "end"],
        ["--nonsense"],
        ["--help"],
        ["start", "--directory", "\udcff"],
    ],
    ids=repr,
)
def test_usage_error_fails_no_hook(tmp_path: Path, folder: Path, arguments: list[str]) -> None:
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
)
def test_environment_fails_no_hook(folder: Path, environment: dict[str, str]) -> None:
    call("start", environment={**environment, **directory(folder)})


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
def test_closed_stream_fails_no_hook(folder: Path, closed: str) -> None:
    for action in ("start", "--nonsense"):
        shell = f'exec "$0" job {action} {closed}'
        ended_well(["sh", "-c", shell, TELEMETRY], {**PATIENT_JOB, **JOB, **directory(folder)})
    assert record(folder)["id"] == "1234"


def test_output_without_a_reader_fails_no_hook(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    call("--help", capture_output=False, stdout=writing, stderr=writing)
    os.close(writing)


def test_full_pipe_blocks_no_hook(folder: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):  # the pipe is full
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
def test_limit_fails_no_hook(folder: Path, limit: int, most: int) -> None:
    call("start", environment={**JOB, **directory(folder)}, preexec_fn=lambda: resource.setrlimit(limit, (most, most)))


def test_silent_daemon_blocks_no_hook(tmp_path: Path, folder: Path) -> None:
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
def test_signal_fails_no_hook(folder: Path, number: signal.Signals) -> None:
    """The signal is sent once Python is running; an earlier one would end any program."""
    kill = f"os.kill(os.getppid(), {number:d}), os.kill(os.getpid(), {number:d}), time.sleep(0.1)"
    ended_well([sys.executable, "-c", _WITH_OTHER_WORK.format(kill)], {**JOB, **directory(folder)})


def test_hanging_work_is_abandoned(folder: Path) -> None:
    command = [sys.executable, "-c", _WITH_OTHER_WORK.format("time.sleep(600)")]
    assert "did not finish in time" in ended_well(command, {**JOB, **directory(folder)}).stderr


def test_hook_imports_few_modules() -> None:
    code = (
        "import sys, os\n"
        "os._exit = lambda status: print(*sys.modules) or os.kill(os.getpid(), 9)\n"
        "sys.argv = ['telemetry', 'job', 'start', '--directory', '/proc/none']\n"
        "from telemetry_daemon import cli\n"
        "from telemetry_daemon.readers.jobs import hook_process\n"
        "hook_process.run_and_exit = lambda work: work()\n"
        "cli.main(); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=JOB, check=True, timeout=PATIENCE_SECONDS, capture_output=True, text=True
    )
    loaded = set(done.stdout.split())
    assert "telemetry_daemon.readers.jobs.files" in loaded
    slow = "pydantic asyncio logging ssl tomllib psutil subprocess telemetry_parsers.model"
    assert not loaded & {*slow.split()}
