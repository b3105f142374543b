"""Our own daemon as a contestant."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from side_by_side.contestants import Contestant, free_port, installed_environment


def telemetry(
    folder: Path,
    marker: str,
    config: str = "",
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    name: str = "telemetry",
) -> Contestant:
    """`telemetry serve` with files of its own; `config` ends with tables, `marker` is the metric it has when it is up."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "telemetry.toml"
    state = f'[state]\ndirectory = "{folder}/state"\nruntime_directory = "{folder}/run"\n'
    path.write_text(f'{state}[web]\nlisten_address = ["127.0.0.1:{port}"]\n{config}')
    command = (*COMMAND, "serve", "--config", str(path), *arguments)
    return Contestant(name, command, port, marker.encode(), installed_environment(environment))


COMMAND = (sys.executable, "-m", "telemetry_daemon.cli")
