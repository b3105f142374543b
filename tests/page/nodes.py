"""Nodes for tests of the page: a test sets the cards' readings, and the daemon keeps its port over restarts."""

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
    """A staged node; `stage` is the content of its stage besides the cards, see kits/staged_node.py."""

    folder: Path
    cards: str
    stage: dict[str, Any] = field(default_factory=dict)
    config: str = ""
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def set_stage(self, **stage: object) -> None:
        """Change the stage from the next poll on."""
        self.stage |= stage
        new = self.folder / "stage.new"
        new.write_text(json.dumps({"cards": self.cards, **self.stage}))
        new.replace(self.folder / "stage.json")

    def daemon(self, *, upgraded: bool = False) -> Daemon:
        """Return the node's daemon, not started yet; `upgraded` gives it another version."""
        self.set_stage()
        program = ("-c", _OTHER_VERSION) if upgraded else ("-m", "kits.staged_node")
        return Daemon(
            self.folder,
            self.config,
            command=(sys.executable, *program, str(self.folder / "stage.json")),
            environment={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            listen=f"127.0.0.1:{self.port}",
        )
