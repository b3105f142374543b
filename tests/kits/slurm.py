"""A Slurm of one node with two cards: the real controller and node daemon, without systemd, munge and a database."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from datetime import datetime
from pathlib import Path

from kits.ports import free_port
from kits.waiting import PATIENCE_SECONDS, until

NODE = "testnode"
CARDS = 2
# The device number of /dev/null: Slurm checks the number of a card's device file, but does not open the file.
_NULL = os.makedev(1, 3)
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
MailProg=/bin/true
ReturnToService=0
KillWait=1
CompleteWait=0
Prolog={prolog}
Epilog={epilog}
PrologFlags=Alloc
PrologEpilogTimeout=60
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed
GresTypes=gpu
NodeName={node} NodeAddr=127.0.0.1 CPUs=2 Gres=gpu:{cards} State=UNKNOWN
PartitionName=gpu Nodes={node} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    def __init__(self, folder: Path, prolog: Path, epilog: Path) -> None:
        self._folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        for name in ("state", "spool"):
            (folder / name).mkdir(parents=True)
        for number in range(CARDS):
            os.mknod(folder / f"card{number}", stat.S_IFCHR | 0o600, _NULL)
        text = _CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0],
            controller_port=free_port(),
            node_port=free_port(),
            folder=folder,
            prolog=prolog,
            epilog=epilog,
            node=NODE,
            cards=CARDS,
        )
        (folder / "slurm.conf").write_text(text)
        (folder / "gres.conf").write_text(
            f"AutoDetect=off\nNodeName={NODE} Name=gpu File={folder}/card[0-{CARDS - 1}]\n"
        )
        self._environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def __enter__(self) -> Slurm:
        for command in (["slurmctld", "-D", "-i"], ["slurmd", "-D", "-N", NODE]):
            with (self._folder / f"{command[0]}.log").open("wb") as log:
                self._daemons.append(subprocess.Popen(command, env=self._environment, stdout=log, stderr=log))
        until(lambda: self.state() == "idle", "the node of Slurm is ready")
        return self

    def __exit__(self, *_: object) -> None:
        for job in self._asked("squeue", "-h", "-o", "%A").split():
            self._asked("scancel", "--signal=KILL", job)
        for daemon in reversed(self._daemons):
            daemon.terminate()
            daemon.wait(timeout=PATIENCE_SECONDS)

    def state(self) -> str:
        """Return the state of the node: `idle`, `mixed`, `drained` …; empty while the controller does not answer."""
        return self._asked("sinfo", "-h", "-o", "%T", "-n", NODE).strip()

    def submit(self, script: str, cards: int = 1, processors: int = 1) -> str:
        """Submit a job that runs the script; return its number."""
        printed = self._asked(
            "sbatch", "--parsable", "-n1", f"-c{processors}", f"--gres=gpu:{cards}", "-o/dev/null", "--wrap", script
        )
        assert printed.strip().isdigit(), printed
        return printed.strip()

    def job(self, number: str) -> str:
        printed = self._asked("scontrol", "-o", "show", "job", number)
        return printed.partition("JobState=")[2].partition(" ")[0]

    def completed(self) -> dict[str, tuple[float, float]]:
        """Return when each finished job began and ended according to Slurm, in Unix seconds."""
        path = self._folder / "completed"
        lines = path.read_text().splitlines() if path.exists() else []
        rows = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return {
            row["JobId"]: (
                datetime.fromisoformat(row["StartTime"]).timestamp(),
                datetime.fromisoformat(row["EndTime"]).timestamp(),
            )
            for row in rows
        }

    def cancel(self, number: str) -> None:
        self._asked("scancel", number)

    def requeue(self, number: str) -> None:
        """Requeue a job without Slurm's wait of two minutes."""
        self._asked("scontrol", "requeue", number)
        until(lambda: self.job(number) == "PENDING", "the job waits for its second run")
        self._asked("scontrol", "update", f"JobId={number}", "StartTime=now")

    def _asked(self, *command: str) -> str:
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        return done.stdout
