"""Our daemon as a contestant, from this checkout or from another checkout."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kits.ports import free_port
from side_by_side.contestants import Contestant, installed_environment

COMMAND = (sys.executable, "-m", "telemetry_daemon.cli")
_PACKAGES = ("daemon", "exporters", "parsers")
NAME = "telemetry"


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout of the project, with its name in the tables."""

    name: str
    folder: Path

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return an environment in which Python finds the packages of this checkout before installed ones."""
        paths = os.pathsep.join(str(self.folder / package) for package in _PACKAGES)
        return installed_environment({"PYTHONPATH": paths, **(more or {})})


THIS = Checkout(NAME, Path(__file__).resolve().parents[2])

# The demo shows owners and steps by default, which a daemon does not.
_PLAIN_DEMO = {"TELEMETRY_ATTRIBUTION_ENABLED": "false", "TELEMETRY_STEPS_ENABLED": "false"}


def telemetry(
    folder: Path,
    marker: str,
    config: str = "",
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    checkout: Checkout = THIS,
) -> Contestant:
    """Return `telemetry serve` with its own files, ready once its page has the metric `marker`. `config` follows the table [web]."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "telemetry.toml"
    state = f'[state]\ndirectory = "{folder}/state"\nruntime_directory = "{folder}/run"\n'
    path.write_text(f'{state}[web]\nlisten_address = ["127.0.0.1:{port}"]\n{config}')
    command = (*COMMAND, "serve", "--config", str(path), *arguments)
    if "--demo" in arguments:
        environment = {**_PLAIN_DEMO, **(environment or {})}
    return Contestant(checkout.name, command, port, marker.encode(), checkout.environment(environment))
