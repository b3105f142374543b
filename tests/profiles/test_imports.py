"""The package `telemetry_profile` stands beside the others: it imports few of their modules, and starting it costs no other command."""

from __future__ import annotations

import ast
import subprocess
import sys

from kits.captures import ROOT

FROM_OTHERS = """
telemetry_daemon.commands telemetry_daemon.commands.rendering telemetry_daemon.guarded telemetry_daemon.guarded.reading
telemetry_daemon.guarded.scratch telemetry_daemon.guarded.unpacking telemetry_daemon.plugins.loading
telemetry_daemon.plugins.sources telemetry_daemon.recordings.parsed_captures telemetry_daemon.recordings.recording_file telemetry_daemon.recordings.survey
telemetry_daemon.state.store telemetry_daemon.terminal telemetry_daemon.terminal.exits telemetry_daemon.times
telemetry_exporters telemetry_exporters.judgement.thresholds telemetry_exporters.terminal.style telemetry_exporters.text
telemetry_parsers.metrics telemetry_parsers.model telemetry_parsers.ownership telemetry_parsers.peaks.lookup
telemetry_parsers.steps
"""


def test_it_imports_only_these_modules_of_the_others() -> None:
    modules = (ROOT / "daemon" / "telemetry_profile").rglob("*.py")
    nodes = [node for path in modules for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    ours = {name for name in imported if name.startswith("telemetry_") and not name.startswith("telemetry_profile")}
    assert ours == set(FROM_OTHERS.split())


def test_other_commands_do_not_import_it() -> None:
    program = """
import sys
from telemetry_daemon.cli import main
main(["version"])
sys.exit(any(name.startswith("telemetry_profile") for name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0
