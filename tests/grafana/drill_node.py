"""A node of a drill: its daemon, which keeps its port and its state over restarts, and what its cards do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kits.daemon import clean_environment, run

ALL = tuple(range(8))


@dataclass
class Actor:
    """One node: what its cards do, and its daemon, which keeps its port and its state over restarts."""

    folder: Path
    address: str
    environment: Mapping[str, str] = field(default_factory=dict)
    cards: str = "8xnvidia"
    once: list[Any] = field(default_factory=list)
    lasting: list[Any] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        return self.folder / "telemetry.toml"

    def begin(self) -> None:
        """Start with eight busy cards, or with what lasts already."""
        self.folder.mkdir()
        self.configure("")
        if not self.lasting:
            self.once.append(["training", ALL])
        self.start()

    def configure(self, more: str) -> None:
        base = f'[state]\ndirectory = "{self.folder}/state"\nruntime_directory = "{self.folder}/run"\n'
        self.config.write_text(base + more)

    def start(self) -> None:
        self._write()
        command = [sys.executable, "-m", "kits.staged_node", str(self.folder / "stage.json"), "serve"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--config", str(self.config), "--web.listen-address", self.address],
                env={**clean_environment(self.environment), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stderr=log,
            )

    def end(self, number: int = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(timeout=30)

    def forget_all(self) -> None:
        """Lose the state directory."""
        for file in (self.folder / "state").iterdir():
            file.unlink()

    def does(self, act: str, *positions: int) -> None:
        """Do it once."""
        self.once.append([act, positions])
        self._write()

    def suffers(self, act: str, *positions: int) -> None:
        """Do it until `recovers`."""
        self.lasting.append([act, positions])
        self._write()

    def recovers(self) -> None:
        """Nothing lasts any more; the cards work on."""
        self.lasting.clear()
        self.does("training", *ALL)

    def command(self, *arguments: str) -> None:
        status, _, said = run(*arguments, "--config", str(self.config), environment=self.environment)
        assert status == 0, said

    def _write(self) -> None:
        new = self.folder / "new"
        new.write_text(json.dumps({"cards": self.cards, "once": self.once, "lasting": self.lasting}))
        new.replace(self.folder / "stage.json")
