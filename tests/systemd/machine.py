"""A Debian tree from debootstrap, booted with systemd-nspawn on a temporary overlay."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "curl")
# Files that the booted machine gets: packages, and tools of cards that it does not have.
GIFTS = "/gifts"
_WHOLE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class MachineError(Exception):
    """The machine did not come up."""


def tree(folder: Path, suite: str) -> Path:
    """Return the unpacked Debian release, which is kept in the folder."""
    made = folder / suite
    if not (made / "usr/bin/curl").exists() or not (folder / f"{suite}.done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        if made.exists():
            shutil.rmtree(made)
        line = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(made)]
        done = subprocess.run(line, capture_output=True, text=True)
        # If debootstrap leaves /proc mounted, copying or removing the tree would include it.
        while (made / "proc").is_mount():
            subprocess.run(["umount", str(made / "proc")], check=True)
        if done.returncode:
            raise MachineError(f"debootstrap failed: {(done.stdout + done.stderr)[-2000:]}")
        (folder / f"{suite}.done").touch()
    return made


class Machine:
    """A booted machine with a loopback interface only."""

    def __init__(self, root: Path, gifts: Path, console: Path) -> None:
        self._console = console
        line = [
            "systemd-nspawn", "--quiet", f"--directory={root}", "--volatile=overlay", "--boot", "--register=no",
            "--keep-unit", "--private-network", "--machine=telemetry-test", "--console=pipe", "--kill-signal=SIGRTMIN+4",
            # The device policy of a unit is a BPF program; both options make it work in the container.
            "--system-call-filter=bpf", f"--bind-ro={gifts}:{GIFTS}",
        ]  # fmt: skip
        environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        with console.open("wb") as output:
            self._nspawn = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        self._init = 0

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._nspawn.poll() is None:
            self._nspawn.send_signal(signal.SIGTERM)
        try:
            self._nspawn.wait(30)
        except subprocess.TimeoutExpired:  # a machine that hangs at shutdown is killed
            self._nspawn.kill()
            self._nspawn.wait()

    def wait_until_booted(self, seconds: float = 60) -> str:
        """Return the state in which the boot ended: running, or degraded."""
        state = ""

        def booted() -> bool:
            nonlocal state
            if self._nspawn.poll() is not None:
                raise MachineError(f"systemd-nspawn ended: {self._console.read_text()[-2000:]}")
            self._init = self._find_init()
            state = self.run("systemctl", "is-system-running").stdout.strip() if self._init else ""
            return state in ("running", "degraded")

        if not until(booted, seconds):
            raise MachineError(f"not booted ({state}): {self._console.read_text()[-2000:]}")
        return state

    def _find_init(self) -> int:
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        return int(children[0]) if children else 0

    def run(self, *command: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine as root."""
        clean = {"PATH": _WHOLE_PATH, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **(environment or {})}
        line = ["nsenter", f"--target={self._init}", "--all", "--wdns=/", *command]
        return subprocess.run(line, env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180)

    def shell(self, script: str) -> str:
        """Return what a script prints in the machine; raise if it fails."""
        done = self.run("bash", "-euo", "pipefail", "-c", script)
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, script: str) -> bool:
        return self.run("bash", "-euo", "pipefail", "-c", script).returncode != 0

    def show(self, name: str) -> str:
        """Return a property of the service."""
        return self.shell(f"systemctl show telemetry --property={name} --value").strip()


@contextmanager
def booted(folder: Path, suite: str, prepare: Callable[[Path], None]) -> Iterator[Machine]:
    """Boot a machine of that Debian release, with the files that `prepare` puts into its folder `gifts`."""
    root = tree(folder, suite)
    with tempfile.TemporaryDirectory() as outside:
        gifts = Path(outside, "gifts")
        gifts.mkdir()
        prepare(gifts)
        with Machine(root, gifts, Path(outside, "console")) as machine:
            machine.wait_until_booted()
            print(machine.shell("systemctl --version | head -1").strip(), f"in {suite}", flush=True)
            yield machine


def until(condition: Callable[[], bool], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
