"""Nodes whose page is looked at: their cards say what a test says, and their daemon keeps its port over restarts."""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kits.daemon import Daemon
from kits.ports import free_port

# The same daemon under another version.
_OTHER_VERSION = """
import sys
from telemetry_daemon import version
version.__version__ = "99.9.9"
from kits import staged_node
staged_node.main()
"""


@dataclass
class Node:
    """A staged node; `stage` is what its stage contains besides its cards, as kits/staged_node.py has it."""

    folder: Path
    cards: str
    stage: dict[str, Any] = field(default_factory=dict)
    config: str = ""
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def say(self, **stage: object) -> None:
        """Let the cards say so from the next poll on."""
        self.stage |= stage
        new = self.folder / "stage.new"
        new.write_text(json.dumps({"cards": self.cards, **self.stage}))
        new.replace(self.folder / "stage.json")

    def daemon(self, *, upgraded: bool = False) -> Daemon:
        """Its daemon, not started yet; also as one of another version."""
        self.say()
        program = ("-c", _OTHER_VERSION) if upgraded else ("-m", "kits.staged_node")
        return Daemon(
            self.folder,
            self.config,
            command=(sys.executable, *program, str(self.folder / "stage.json")),
            environment={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            listen=f"127.0.0.1:{self.port}",
        )
