"""The package `telemetry_profile` imports few modules of the other packages, and no other command imports it."""

import ast
import subprocess
import sys

from kits.captures import ROOT

FROM_OTHERS = """
telemetry_daemon.commands telemetry_daemon.guarded telemetry_daemon.plugins telemetry_daemon.recordings
telemetry_daemon.state telemetry_daemon.terminal telemetry_daemon.times
telemetry_exporters.human telemetry_exporters.judgement telemetry_exporters.terminal telemetry_exporters.text
telemetry_parsers.card_peaks telemetry_parsers.codec telemetry_parsers.metrics telemetry_parsers.model telemetry_parsers.ownership
telemetry_parsers.steps
"""


def test_it_imports_only_from_these_rooms_of_the_others() -> None:
    modules = (ROOT / "daemon" / "telemetry_profile").rglob("*.py")
    nodes = [node for path in modules for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    ours = {name for name in names if name.startswith("telemetry_") and not name.startswith("telemetry_profile")}
    assert {".".join(name.split(".")[:2]) for name in ours} == set(FROM_OTHERS.split())


def test_other_commands_do_not_import_it() -> None:
    program = """
import sys
from telemetry_daemon.cli import main
main(["version"])
sys.exit(any(name.startswith("telemetry_profile") for name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0
