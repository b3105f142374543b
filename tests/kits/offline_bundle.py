"""Unpacked offline bundles with a small program in place of the real one, which install within a second."""

import ensurepip
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

from kits.captures import ROOT
from kits.waiting import PATIENCE_SECONDS

_PROGRAM = """\
import sys

def main():
    if sys.argv[1:] == ["version"]:
        print("telemetry {version}")
    elif sys.argv[1:4] == ["config", "check", "--config"]:
        if "{refused}" in open(sys.argv[4]).read().split():
            sys.exit("telemetry: {refused}: no such setting")
        print("the configuration is valid")
    else:
        sys.exit(64)
"""
_EXTRA = "Provides-Extra: moorethreads\nRequires-Dist: mthreads-ml-py; extra == 'moorethreads'\n"


@dataclass(frozen=True)
class Bundle:
    folder: Path

    def sum_up(self) -> None:
        wheels = (self.folder / "wheels").iterdir()
        sums = (f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  wheels/{wheel.name}\n" for wheel in wheels)
        (self.folder / "SHA256SUMS").write_text("".join(sums))

    def run(self, root: Path | None, *arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
        """Run install.sh with a folder in place of the node's root; None is the real root."""
        environment = {name: text for name, text in os.environ.items() if not name.startswith("PIP_")}
        environment["DESTDIR"] = "" if root is None else str(root)
        command = [str(self.folder / "install.sh"), *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, **more
        )


def bundle(folder: Path, version: str, refused: str = "nothing-is-refused") -> Bundle:
    """Return a bundle of a program of that version, which refuses a configuration with the word `refused`."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    for name in ("install.sh", "telemetry.toml"):
        shutil.copy(ROOT / "deploy" / name, folder / name)
    shutil.copytree(ROOT / "deploy" / "systemd", folder / "systemd")
    pip = pips_wheel()
    shutil.copy(pip, wheels / pip.name)
    _program_wheel(wheels, version, _PROGRAM.format(version=version, refused=refused))
    _bindings_wheel(wheels)
    made = Bundle(folder)
    made.sum_up()
    return made


def pips_wheel() -> Path:
    """Return the pip wheel that this Python installs into environments: the distribution's, or that of ensurepip."""
    folder = sysconfig.get_config_var("WHEEL_PKG_DIR")
    folders = [*([Path(folder)] if folder else []), Path(ensurepip.__file__).parent / "_bundled"]
    return next(wheel for folder in folders for wheel in folder.glob("pip-*.whl"))


def _program_wheel(folder: Path, version: str, program: str) -> None:
    """Write a wheel with the tags of compiled packages for this Python and machine."""
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    tag = f"{tag}-{tag}-linux_{platform.machine()}"
    info, data = (f"device_telemetry-{version}.{kind}" for kind in ("dist-info", "data"))
    files = {
        "telemetry_program.py": program,
        f"{data}/data/share/man/man1/telemetry.1": ".TH X 1\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: device-telemetry\nVersion: {version}\n{_EXTRA}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/entry_points.txt": "[console_scripts]\ntelemetry = telemetry_program:main\n",
    }
    _wheel(folder / f"device_telemetry-{version}-{tag}.whl", info, files)


def _bindings_wheel(folder: Path) -> None:
    info = "mthreads_ml_py-3.0.dist-info"
    files = {
        "pymtml.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: mthreads-ml-py\nVersion: 3.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    _wheel(folder / "mthreads_ml_py-3.0-py3-none-any.whl", info, files)


def _wheel(path: Path, info: str, files: dict[str, str]) -> None:
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)
