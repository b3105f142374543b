"""`telemetry doctor` as a process on a machine of a test's own: its kernel's files, tools and configuration."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import jsonschema

from kits.captures import ROOT
from kits.daemon import clean_environment
from kits.fake_mthreads_gmi import install
from kits.fake_sysfs import Sysfs, mi210
from kits.fake_tools import ToolFolder
from kits.ports import free_address
from kits.waiting import PATIENCE_SECONDS

SCHEMA = json.loads((ROOT / "docs/doctor.schema.json").read_text())
_WELL = {**mi210(), "ras/gfx_err_count": "ue: 0\nce: 0"}
# The command with another root for the kernel's files, and what may not be opened.
_PROGRAM = """
import sys
from pathlib import Path
from telemetry_daemon import cli
from telemetry_daemon.commands import doctor
from telemetry_daemon.doctor import machine
root, refusal, sys.executable = sys.argv[1:4]
del sys.argv[1:4]
doctor.ROOT = Path(root)
if int(refusal):
    machine.why_denied = lambda path: int(refusal)
sys.exit(cli.main())
"""


def _no_daemon() -> dict[str, str]:
    """Settings by which no daemon is found but that of the runtime directory: this machine may have one."""
    return {"TELEMETRY_WEB_LISTEN_ADDRESS": free_address()}


@dataclass(frozen=True)
class Said:
    """How the command ended and what it printed."""

    status: int
    output: str
    errors: str

    @property
    def words(self) -> str:
        """The output without the places where lines are broken."""
        return " ".join(self.output.split())


@dataclass
class Played:
    """A machine below a folder; `environment` is added to that of the command, `state` is another state directory, `python` what starts the workers."""

    folder: Path
    config: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    refusal: int = 0
    state: str = ""
    python: str = sys.executable
    # What a test holds open for as long as the machine lives.
    held: TextIO | None = None

    def __post_init__(self) -> None:
        self.tools = ToolFolder(self.folder / "tools")
        self.sysfs = Sysfs(self.root)
        # No unit of this machine's, unless a test has one.
        self.tools.script("systemctl", "exit 1")
        self.tools.script("journalctl", "exit 1")

    @property
    def root(self) -> Path:
        """Where the machine's files lie."""
        return self.folder / "root"

    @property
    def config_path(self) -> Path:
        return self.folder / "telemetry.toml"

    def card(self, number: int = 3, driver: str = "amdgpu", files: Mapping[str, str | bytes] | None = None) -> None:
        """A card of AMD's that the driver's files show, in its slot and bound to its driver."""
        bus_id = f"0000:{number:02x}:00.0"
        folder = self.sysfs.card(bus_id, {"class": "0x120000", **(_WELL if files is None else files)}, driver)
        (folder / "driver").symlink_to(self.root / "sys/bus/pci/drivers" / driver)

    def take_out(self, number: int) -> None:
        """The card leaves the bus."""
        bus_id = f"0000:{number:02x}:00.0"
        for link in (*self.root.glob(f"sys/bus/pci/drivers/*/{bus_id}"), self.root / "sys/bus/pci/devices" / bus_id):
            link.unlink()

    def stranger(self, number: int, vendor: str, driver: str = "") -> None:
        """A card of which there is nothing but its place on the bus."""
        folder = self.root / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text("0x030200\n")
        if driver:
            (folder / "driver").symlink_to(self.root / "sys/bus/pci/drivers" / driver)

    def node(self, path: str) -> None:
        """A device node, as far as the command looks at one."""
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()

    def one_of_moorethreads(self) -> None:
        """A card that its tool reads, with its node."""
        self.stranger(0x1A, "0x1ed5", "mtgpu")
        self.node("dev/mtgpu.0")
        install(self.tools)

    def settings(self) -> str:
        """The configuration: the files of this machine, and folders of its own."""
        return (
            f'[state]\ndirectory = "{self.state or self.folder / "state"}"\nruntime_directory = "{self.folder}/run"\n'
            f'[sources.amdgpu-sysfs]\npath = "{self.root}"\n'
        )

    def close(self) -> None:
        """Let go of what is held."""
        if self.held is not None:
            self.held.close()

    def doctor(self, *arguments: str) -> Said:
        """The command from start to end."""
        done = self._run(subprocess.PIPE, *arguments)
        return Said(done.returncode, done.stdout, done.stderr)

    def told_meanwhile(self, *arguments: str) -> str:
        """What the command writes on the terminal of its standard error."""
        ours, theirs = pty.openpty()
        self.environment["TERM"] = "xterm"
        self._run(theirs, *arguments)
        os.close(theirs)
        told = os.read(ours, 1 << 16).decode()
        os.close(ours)
        return told

    def _run(self, errors: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.config_path.write_text(self.settings() + self.config)
        return subprocess.run(
            [
                *(sys.executable, "-c", _PROGRAM, str(self.root), str(self.refusal), self.python),
                *("doctor", *arguments, "--config", str(self.config_path)),
            ],
            env=clean_environment({"PATH": self.tools.search_path, **_no_daemon(), **self.environment}),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

    def document(self, *arguments: str) -> tuple[int, Any]:
        """The exit status and the document, which the schema allows."""
        said = self.doctor("--format", "json", *arguments)
        plain = json.loads(said.output)
        jsonschema.Draft202012Validator(SCHEMA).validate(plain)
        return said.status, plain


def unit_of(**properties: str) -> str:
    """A systemctl that shows the unit so."""
    shown = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", **properties}
    lines = "\n".join(f"{name}={value}" for name, value in shown.items())
    return f"cat <<'END'\n{lines}\nEND"
