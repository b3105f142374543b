"""Known traps of processes and cgroups, from the kernel's files to the owners of a card."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kits.proc_tree import POLL, ProcTree, tasks
from kits.waiting import comes_true
from kits.workers import python_path
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.proc import VARIABLES, ProcReader, command_line
from telemetry_parsers.merge.allocations import find_owners
from telemetry_parsers.model import MergedDevice
from telemetry_parsers.owners.cgroups import owner_in_cgroup
from telemetry_parsers.ownership import Process, Task

SLURM = "0::/system.slice/slurmstepd.scope"
SECRET = "hunter2-of-the-test"  # planted, to be looked for
LONG = 128 << 10


@pytest.fixture
def tree(tmp_path: Path) -> ProcTree:
    return ProcTree(tmp_path)


def read(tree: ProcTree, *pids: int, environment: bool = False) -> dict[int, Task]:
    return tasks(ProcReader(str(tree.root), environment=environment), *pids)


def owners(found: dict[int, Task]) -> list[tuple[str, str]]:
    """Return the owners of a card on which these processes run."""
    card = MergedDevice("nvidia", 0, "card", "0", "H100", processes=tuple(Process(0, pid, "", 1.0) for pid in found))
    return [
        (allocation.owner.kind, allocation.owner.name)
        for allocation in find_owners((card,), (), found, 0.0).devices[0].allocations
    ]


@contextmanager
def running(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
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
    """Possible with sudo, or with srun --overlap of an administrator."""
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
    assert [task.user for task in read(tree, 10, 11).values()] == ["4000", "4242"]


def test_a_command_line_of_128_kb_with_control_characters_leaves_only_the_programs_name():
    arguments = [f"--password={SECRET}", "\x1b[31m\u202e", *["x" * 60_000] * 3]
    with running(*arguments) as process:
        capture = ProcReader("/", environment=True).read(POLL, Targets(pids=(process.pid,)))
        shown = command_line(process.pid)
    assert SECRET not in repr(capture)
    assert len(repr(capture)) < 20_000
    assert SECRET in shown
    assert len(shown) <= LONG


def test_a_program_that_rewrites_its_name_is_called_so(tmp_path):
    """For example with setproctitle."""
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
    named = {name: f"{position}" for position, name in enumerate(VARIABLES)}
    others = {"AWS_SECRET_ACCESS_KEY": SECRET, "RANKS": SECRET, "SLURM_JOB_ID_": SECRET, "rank": SECRET}
    with running(**named, **others) as process:
        capture = ProcReader("/", environment=True).read(POLL, Targets(pids=(process.pid,)))
    assert SECRET not in repr(capture)
    assert capture.outputs[1].data["environment"] == named  # type: ignore[index,call-overload]  # it is plain data


def test_without_the_setting_no_environment_is_read(tree):
    (tree.process(10) / "environ").write_text(f"RANK=3\0TOKEN={SECRET}\0")
    assert read(tree, 10)[10].rank is None
    assert read(tree, 10, environment=True)[10].rank == 3


IN_A_NAMESPACE = """
import ctypes, os
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.proc import ProcReader
from kits.proc_tree import POLL
if ctypes.CDLL(None).unshare(0x20000000):  # CLONE_NEWPID
    print("no namespaces here")
elif os.fork():
    os.wait()
else:
    failure = ProcReader("", environment=False).read(POLL, Targets(pids=(1,))).failure
    print(failure.state if failure else "it answered")
"""


def test_process_of_another_namespace():
    """A real namespace if the kernel allows it: the reader in it refuses to read."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_NAMESPACE],
        env=python_path(Path(__file__).parents[1]),
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() in ("not_supported", "no namespaces here"), done.stderr


def test_a_real_process_in_its_own_cgroup():
    with running() as process:
        (task,) = tasks(ProcReader("/", environment=False), process.pid).values()
        real = Path(f"/proc/{process.pid}/cgroup").read_text()
    assert task.owner is not None
    assert task.owner == owner_in_cgroup(real).owner or task.owner.kind == "user"
