"""Installs the peers in build/benchmarks, as their users would. A peer that cannot be installed is reported with the reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from side_by_side.contestants import CACHE

_INSTALL_SECONDS = 900


@dataclass(frozen=True)
class MissingPeer:
    """A peer that is not measured, with the reason."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} was not measured: {self.reason}"


def install_from_pypi(package: str, version: str, program: str) -> Path | MissingPeer:
    """Install a program into a new virtual environment with the current Python, and return its path."""
    folder = CACHE / f"{package}-{version}-{sys.implementation.cache_tag}"
    program_path = folder / "bin" / program
    if not program_path.exists():
        _announce(package)
        failure = _failure([sys.executable, "-m", "venv", str(folder)]) or _failure(
            [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", f"{package}=={version}"]
        )
        if failure:
            return MissingPeer(package, failure)
    return program_path


def find_program(package: str, program: str) -> Path | MissingPeer:
    """Return the path of an installed program. Debian packages are never installed here."""
    path = shutil.which(program)
    return Path(path) if path else MissingPeer(package, f"not installed; apt-get install {package}")


def compile_program(program: str, *arguments: str) -> Path | MissingPeer:
    """Compile a C program of ours with these arguments, and return its path."""
    program_path = CACHE / program
    if shutil.which("cc") is None:
        return MissingPeer(program, "there is no cc (gcc libc6-dev zlib1g-dev)")
    CACHE.mkdir(parents=True, exist_ok=True)
    failure = _failure(["cc", "-O2", "-o", str(program_path), *arguments])
    return MissingPeer(program, failure) if failure else program_path


def install_from_cargo(crate: str, version: str, *, builds: bool) -> Path | MissingPeer:
    """Return the path of a Rust program. Build it only if `builds` is set, because that takes many minutes."""
    folder = CACHE / f"{crate}-{version}"
    program_path = folder / "bin" / crate
    if program_path.exists():
        return program_path
    if not builds:
        return MissingPeer(crate, "it is not built; --build builds it")
    for tool, package in (("cargo", "cargo"), ("protoc", "protobuf-compiler libprotobuf-dev libdrm-dev")):
        if shutil.which(tool) is None:
            return MissingPeer(crate, f"there is no {tool} ({package})")
    _announce(crate)
    failure = _failure(["cargo", "install", "--quiet", crate, "--version", version, "--root", str(folder)])
    return MissingPeer(crate, failure) if failure else program_path


def _announce(name: str) -> None:
    print(
        f"installing {name} into {CACHE.relative_to(Path.cwd()) if CACHE.is_relative_to(Path.cwd()) else CACHE}",
        flush=True,
    )


def _failure(command: list[str], folder: Path | None = None) -> str:
    """Return the end of a failed command's output, or an empty string if the command succeeded."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return f"{Path(command[0]).name} {command[1]}: {' '.join(lines[-2:])[-300:]}"
