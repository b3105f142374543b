"""The packages under test are the intended ones: the checkout's, or those of an installed wheel."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import telemetry_daemon
import telemetry_exporters
import telemetry_parsers
import telemetry_profile
from telemetry_daemon.version import __version__

CHECKOUT = Path(__file__).resolve().parents[2]
# Set where a wheel was installed to be tested; the checkout's packages would hide what the wheel lacks.
MEANT = Path(os.environ.get("TELEMETRY_TEST_INSTALLED", CHECKOUT)).resolve()


@pytest.mark.parametrize("package", [telemetry_daemon, telemetry_exporters, telemetry_parsers, telemetry_profile])
def test_a_package_comes_from_the_place_that_is_tested(package: object) -> None:
    assert Path(package.__file__).resolve().is_relative_to(MEANT)


def test_the_command_runs_outside_the_checkout(tmp_path: Path) -> None:
    command = Path(sys.executable).parent / "telemetry"
    done = subprocess.run([command, "version"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"telemetry {__version__} ")
