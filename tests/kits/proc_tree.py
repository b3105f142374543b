"""A /proc for tests, and the tasks that the reader and parser of processes find in it."""

from pathlib import Path

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.proc import ProcReader
from telemetry_parsers.owners.proc import PARSER
from telemetry_parsers.ownership import Task

POLL = PARSER.polls[0]


class ProcTree:
    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc").mkdir()
        (root / "etc").mkdir()
        self.process(1, uid=0, comm="init")
        (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/:/bin/sh\nbroken\n")

    def process(
        self, pid: int, *, ticks: int = 5000, uid: int = 1000, comm: str = "python", cgroup: str = "0::/"
    ) -> Path:
        """Add a process, and remove the process that had the same pid."""
        folder = self.root / "proc" / str(pid)
        if folder.exists():
            folder.rename(self.root / f"ended-{len(list(self.root.iterdir()))}")
        folder.mkdir()
        after = " ".join(["S", *["0"] * 18, str(ticks), "0"])
        (folder / "stat").write_text(f"{pid} ({comm}) {after}\n")
        (folder / "comm").write_text(comm + "\n")
        (folder / "cgroup").write_text(cgroup + "\n")
        (folder / "status").write_text(f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        return folder


def tasks(reader: ProcReader, *pids: int) -> dict[int, Task]:
    """Return the tasks of these processes; the reader must have answered."""
    capture = reader.read(POLL, Targets(pids=pids))
    assert capture.failure is None
    return {task.pid: task for task in PARSER.parse(capture).tasks}
