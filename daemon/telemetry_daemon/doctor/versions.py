"""Which versions of everything run here: ours, Python's and its packages', the kernel's, the distribution's, the drivers' and the tools'."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from telemetry_daemon.doctor.machine import Machine
from telemetry_daemon.doctor.sources import Patient, tools_found
from telemetry_daemon.guarded.reading import text_at
from telemetry_daemon.version import __version__

_PACKAGES = ("pydantic", "APScheduler", "h11", "nvidia-ml-py", "isal", "prometheus-client", "PyYAML", "bcrypt")
# Where some drivers tell more than their module's version.
_OF_DRIVERS = ("proc/driver/nvidia/version", "usr/local/Ascend/driver/version.info")


def lines(root: Path, machine: Machine, patients: Sequence[Patient]) -> Iterator[str]:
    """A line for each; what is not there has none."""
    yield f"telemetry {__version__}"
    yield f"Python {platform.python_version()} ({platform.python_implementation()}, {sys.platform}, {platform.machine()})"
    yield from _packages()
    yield f"kernel {platform.system()} {platform.release()}"
    yield from (line for line in text_at(f"{root}/etc/os-release").splitlines() if line.startswith("PRETTY_NAME="))
    yield from _drivers(root, machine)
    yield from _sources(patients)


def _packages() -> Iterator[str]:
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):  # some are needed for some nodes only
            yield f"{package} {metadata.version(package)}"


def _drivers(root: Path, machine: Machine) -> Iterator[str]:
    for driver in sorted({card.driver for card in machine.cards if card.driver}):
        yield f"driver {driver} {text_at(f'{root}/sys/module/{driver}/version') or 'tells no version'}"
    for name in _OF_DRIVERS:
        if text := text_at(f"{root}/{name}"):
            yield f"/{name}:\n{text}"


def _sources(patients: Sequence[Patient]) -> Iterator[str]:
    for patient in patients:
        if patient.status.version:
            yield f"source {patient.status.source} version {patient.status.version}"
        for tool in tools_found(patient):
            yield f"tool {tool.path}"
