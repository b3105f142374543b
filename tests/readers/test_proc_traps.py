"""What goes wrong with processes and their cgroups, each by its name: from the kernel's files to the owners of a card."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kits.proc_tree import POLL, ProcTree, tasks
from kits.waiting import comes_true
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.proc import ProcReader
from telemetry_daemon.readers.proc_files import VARIABLES, command_line
from telemetry_parsers.merge.owners import owned
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.owners.cgroups import group_of
from telemetry_parsers.ownership import Owner, Process, Task

ID = "0123456789abcdef" * 4
UID = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
IN_POD = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope"
SLURM = "0::/system.slice/slurmstepd.scope"
SECRET = "hunter2-of-the-test"  # planted, to be looked for
LONG = 128 << 10


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path)


def read(tree: ProcTree, *pids: int, environment: bool = False) -> dict[int, Task]:
    return tasks(ProcReader(str(tree.root), environment=environment), *pids)


def owners(found: dict[int, Task]) -> list[tuple[str, str]]:
    """The owners of a card on which these processes run."""
    card = MergedDevice("nvidia", 0, "card", "0", "H100", processes=tuple(Process(0, pid, "", 1.0) for pid in found))
    return [(one.owner.kind, one.owner.name) for one in owned((card,), (), found, 0.0).devices[0].allocations]


@contextmanager
def running(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours that waits."""
    program = "import sys; sys.stdout.write('.'); sys.stdout.flush(); input()"
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **variables}
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        yield process
        process.kill()


# fmt: off
PATHS = {
    "SLUID folders": (f"{SLURM}/sEKNKTV3WPV500/step_0/user/task_0", ("job", "sEKNKTV3WPV500")),
    "task_special": (f"{SLURM}/job_7/step_batch/user/task_special", ("job", "7")),
    "step extern holding nothing": (f"{SLURM}/job_7/step_extern/user/task_0", ("job", "7")),
    "array job": ("0::/pbs_jobs.service/jobs/12[3].server", ("job", "12[3].server")),
    "container without a pod": (f"0::/system.slice/docker-{ID}.scope", ("container", ID[:12])),
    "Slurm in a pod": (f"0::{IN_POD}/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", ("job", "7")),
    "with (deleted)": (f"{SLURM}/job_7/step_0/user/task_0 (deleted)", ("job", "7")),
    "with \\x2d": ("0::/machine.slice/machine-a\\x2db.scope/payload", ("container", "a-b")),
    "4 kB long": (f"{SLURM}/job_7/step_0/" + "/".join(["y" * 200] * 20), ("job", "7")),
    "unknown": ("0::/a/b/c", ("user", "alice")),
    "none": ("", ("user", "alice")),
}
# fmt: on


@pytest.mark.parametrize("name", PATHS)
def test_cgroup_path(tree, name):
    cgroup, expected = PATHS[name]
    tree.process(10, cgroup=cgroup)
    assert owners(read(tree, 10)) == [expected]


def test_a_job_of_two_users_is_one_owner(tree):
    """By sudo, or by srun --overlap of an administrator."""
    for pid, uid in ((10, 1000), (11, 0)):
        tree.process(pid, uid=uid, cgroup=f"{SLURM}/job_7/step_0/user/task_0")
    found = read(tree, 10, 11)
    assert [found[pid].user for pid in (10, 11)] == ["alice", "root"]
    assert owners(found) == [("job", "7")]


def test_uid_without_a_name_and_numeric_user_names(tree):
    with (tree.root / "etc/passwd").open("a") as passwd:
        passwd.write("4000:x:1001:1001::/:/bin/sh\n")
    for pid, uid in ((10, 1001), (11, 4242)):
        tree.process(pid, uid=uid)
    found = read(tree, 10, 11)
    assert [found[pid].user for pid in (10, 11)] == ["4000", "4242"]


def test_a_command_line_of_128_kb_with_control_characters_leaves_only_the_programs_name():
    arguments = [f"--password={SECRET}", "\x1b[31m\u202e", *["x" * 60_000] * 3]
    with running(*arguments) as process:
        capture = ProcReader("/", environment=True).read(POLL, Targets(pids=(process.pid,)))
        told = command_line(process.pid)
    assert SECRET not in repr(capture)
    assert len(repr(capture)) < 20_000
    assert SECRET in told
    assert len(told) <= LONG


def test_a_program_that_rewrites_its_name_is_called_so(tmp_path):
    """As setproctitle does it."""
    ready = tmp_path / "ready"
    program = (
        "import ctypes, pathlib, sys; ctypes.CDLL(None).prctl(15, b'a) S 1 (\\n\\x1b[', 0, 0, 0);"
        "pathlib.Path(sys.argv[1]).touch(); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(ready)], stdin=subprocess.PIPE) as process:
        assert comes_true(ready.exists)
        (task,) = tasks(ProcReader("/", environment=False), process.pid).values()
        process.kill()
    assert (task.command, task.pid) == ("a) S 1 (\n\x1b[", process.pid)
    assert abs((task.started or 0) - time.time()) < 3600


@pytest.mark.needs("root")
def test_of_an_environment_only_the_named_variables_leave_the_reader():
    named = {name: f"{place}" for place, name in enumerate(VARIABLES)}
    others = {"AWS_SECRET_ACCESS_KEY": SECRET, "RANKS": SECRET, "SLURM_JOB_ID_": SECRET, "rank": SECRET}
    with running(**named, **others) as process:
        capture = ProcReader("/", environment=True).read(POLL, Targets(pids=(process.pid,)))
    assert SECRET not in repr(capture)
    assert capture.outputs[1].data["environment"] == named  # type: ignore[index,call-overload]  # it is plain data


def test_without_the_setting_no_environment_is_read(tree):
    (tree.process(10) / "environ").write_text(f"RANK=3\0TOKEN={SECRET}\0")
    assert read(tree, 10)[10].rank is None
    assert read(tree, 10, environment=True)[10].rank == 3


def test_process_of_another_namespace():
    """A real one where the kernel lets us make it: the reader in it refuses, and its processes have our numbers for us."""
    unshared = ctypes.CDLL(None, use_errno=True).unshare
    outside, inside = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(outside)
        os._exit(_tell_from_a_namespace(unshared, inside))
    os.close(inside)
    with os.fdopen(outside) as told:
        state = told.read()
    os.waitpid(child, 0)
    assert state in ("not_supported", "no namespaces here")


def _tell_from_a_namespace(unshared: object, inside: int) -> int:
    new_pid_namespace = 0x20000000
    if unshared(new_pid_namespace):  # type: ignore[operator]  # a function of the C library
        os.write(inside, b"no namespaces here")
        return 0
    reader = os.fork()
    if reader == 0:
        failure = ProcReader("", environment=False).read(POLL, Targets(pids=(1,))).failure
        os.write(inside, failure.state.encode() if failure else b"it answered")
        os._exit(0)
    os.waitpid(reader, 0)
    return 0


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        (f"docker/{ID}", Owner("container", ID[:12])),
        ("telemetry-test/system.slice/slurmstepd.scope/job_7/step_0", Owner("job", "7", job_id="7")),
    ],
)
def test_a_real_process_in_a_real_cgroup(path, owner):
    """Where cgroups can be made; in a container its own is read."""
    with running() as process, _cgroup(path, process.pid) as is_made:
        (task,) = tasks(ProcReader("/", environment=False), process.pid).values()
        real = Path(f"/proc/{process.pid}/cgroup").read_text()
    expected = group_of(real).owner
    assert expected == owner or not is_made
    assert task.owner is not None
    assert task.owner == expected or task.owner.kind == "user"


@contextmanager
def _cgroup(path: str, pid: int) -> Iterator[bool]:
    """Whether the process is in that cgroup, which goes with it."""
    roots = [
        root for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")) if (root / "cgroup.procs").exists()
    ]
    if not roots:
        yield False
        return
    made = [roots[0] / part for part in _prefixes(path)]
    new = [folder for folder in made if not folder.exists()]
    try:
        yield _moved(pid, new, made[-1])
    finally:
        with suppress(OSError):  # it ended, or was never moved
            (roots[0] / "cgroup.procs").write_text(str(pid))
        for folder in reversed([folder for folder in new if folder.exists()]):
            folder.rmdir()


def _moved(pid: int, new: list[Path], into: Path) -> bool:
    try:
        for folder in new:
            folder.mkdir()
        (into / "cgroup.procs").write_text(str(pid))
    except OSError:  # they are read-only in most containers
        return False
    return True


def _prefixes(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]
