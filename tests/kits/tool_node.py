"""A node whose only tool works."""

from pathlib import Path

from kits.captures import text_of
from kits.daemon import Daemon
from kits.fake_tools import ToolFolder

# A tool with one short output.
TOOL = "ixsmi"
# Not reached on a busy machine; tests of a hanging tool set a shorter deadline.
PATIENT_SECONDS = 20.0
TOOL_CONFIG = f'[sources.{TOOL}]\ninterval = 0.5\ndeadline = {PATIENT_SECONDS}\nmode = "always"\n'


def tool_text() -> str:
    return text_of(TOOL, "table-two-dies-busy")


def tool_node(
    folder: Path, more: str = "", prefix: tuple[str, ...] = (), deadline_seconds: float = PATIENT_SECONDS
) -> tuple[Daemon, ToolFolder]:
    """Return a daemon that is not started yet, and the tools of its node, one of which works."""
    tools = ToolFolder(folder / "tools")
    tools.prints(TOOL, tool_text())
    tool = TOOL_CONFIG.replace(str(PATIENT_SECONDS), str(deadline_seconds))
    config = tool + "[sources.host]\ninterval = 0.5\n" + more
    return Daemon(folder, config, environment={"PATH": tools.search_path}, prefix=prefix), tools


def series(daemon: Daemon, start: str) -> list[str]:
    """Return the lines of the page with this prefix."""
    return [line for line in daemon.page().splitlines() if line.startswith(start)]
