"""`telemetry doctor` on a simulated machine: kernel files, tools and configuration in a folder."""

import gzip
import json
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO
from unittest import mock

import jsonschema

from kits.captures import ROOT
from kits.command_line import Completed, run_main
from kits.fake_sysfs import Sysfs, mi210
from kits.fake_tools import ToolFolder
from kits.ports import free_address
from telemetry_daemon.commands import doctor
from telemetry_daemon.doctor import machine

SCHEMA = json.loads((ROOT / "docs/doctor.schema.json").read_text())


@dataclass
class Played:
    """A machine below a folder; `python` is the interpreter of the workers, `state` another state directory."""

    folder: Path
    config: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    refusal: int = 0
    state: str = ""
    python: str = sys.executable
    # Files that a test keeps open as long as the machine exists.
    held: TextIO | None = None

    def __post_init__(self) -> None:
        self.tools = ToolFolder(self.folder / "tools")
        self.sysfs = Sysfs(self.root)
        # The unit of the real machine is hidden; a test may add one.
        self.tools.script("systemctl", "exit 1")
        self.tools.script("journalctl", "exit 1")

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def config_path(self) -> Path:
        return self.folder / "telemetry.toml"

    def card(self, number: int) -> None:
        """Add an AMD card with the driver's files, bound to its driver."""
        well = {"class": "0x120000", **mi210(), "unique_id": f"a1b2c3d4e5f607{number:02x}"}
        well["ras/gfx_err_count"] = "ue: 0\nce: 0"
        folder = self.sysfs.card(f"0000:{number:02x}:00.0", well, "amdgpu")
        (folder / "driver").symlink_to(self.root / "sys/bus/pci/drivers/amdgpu")

    def stranger(self, number: int, vendor: str, driver: str = "") -> None:
        """Add a card with a slot on the bus, but without driver files."""
        folder = self.root / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text("0x030200\n")
        if driver:
            (folder / "driver").symlink_to(self.root / "sys/bus/pci/drivers" / driver)

    def node(self, path: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()

    def settings(self) -> str:
        """Return the configuration: the files of this machine, and its folders."""
        return (
            f'[state]\ndirectory = "{self.state or self.folder / "state"}"\nruntime_directory = "{self.folder}/run"\n'
            f'[sources.amdgpu-sysfs]\npath = "{self.root}"\n'
        )

    def close(self) -> None:
        if self.held is not None:
            self.held.close()

    def doctor(self, *arguments: str) -> Completed:
        self.config_path.write_text(self.settings() + self.config)
        # The real machine may have a daemon; only a daemon in this runtime directory must be found.
        nowhere = {"TELEMETRY_WEB_LISTEN_ADDRESS": free_address()}
        environment = {"PATH": self.tools.search_path, **nowhere, **self.environment}
        with (
            mock.patch.object(doctor, "ROOT", self.root),
            mock.patch.object(sys, "executable", self.python),
            mock.patch.object(machine, "denial_errno", return_value=self.refusal),
        ):
            arguments = ("doctor", *arguments, "--config", str(self.config_path))
            return run_main(*arguments, environment=environment)

    def bundle(self) -> tuple[Completed, dict[str, bytes]]:
        """Return the result, and the unpacked content of each member by name, in order."""
        path = self.folder / "bundle.tar.gz"
        done = self.doctor("--bundle", str(path))
        with tarfile.open(path) as archive:
            files = {member.name: archive.extractfile(member) for member in archive}
            packed = {name: file.read() for name, file in files.items() if file is not None}
        shown = {name.removeprefix("telemetry-doctor/"): content for name, content in packed.items()}
        return done, {n: gzip.decompress(content) if n.endswith(".gz") else content for n, content in shown.items()}

    def document(self, *arguments: str) -> tuple[int, Any]:
        done = self.doctor("--format", "json", *arguments)
        return done.status, checked(done.stdout)


def checked(text: str | bytes) -> Any:
    plain = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(plain)
    return plain


def healthy(folder: Path) -> Played:
    """Return a machine with two AMD cards and no fault."""
    node = Played(folder)
    node.card(3)
    node.card(4)
    node.node("dev/dri/renderD128")
    node.node("dev/kfd")
    return node


def unit_of(**properties: str) -> str:
    """Return the script of a systemctl that prints these properties."""
    shown = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", **properties}
    lines = "\n".join(f"{name}={value}" for name, value in shown.items())
    return f"cat <<'END'\n{lines}\nEND"
