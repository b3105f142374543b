"""The package `telemetry_profile` imports few modules of the other packages, and no other command imports it."""

import subprocess
import sys


def test_other_commands_do_not_import_it() -> None:
    program = """
import sys
from telemetry_daemon.cli import main
main(["version"])
sys.exit(any(name.startswith("telemetry_profile") for name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0
