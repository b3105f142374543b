"""The levels of the tests: tests that run, skipped tests that are reported, and failures of the run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kits.captures import ROOT

pytestmark = pytest.mark.installed
TESTS = """
import os, subprocess, threading, time
import pytest

def test_plain(): pass

@pytest.mark.needs("sh")
def test_tool_of_every_machine(): pass

@pytest.mark.needs("promtool")
def test_used_if_present(): pass

@pytest.mark.needs("fish")
def test_program(): pass

@pytest.mark.installed
def test_package(): pass

@pytest.mark.long
@pytest.mark.needs("fish")
def test_minutes(): pass

@pytest.mark.long
@pytest.mark.parametrize("number", range(40))
def test_more_inputs(number): pass
"""
QUICK = {"test_plain", "test_tool_of_every_machine", "test_used_if_present"}
INSTALLED = {"test_program", "test_package"}
STARTS_FISH = 'import subprocess\ndef test_fish():\n    subprocess.run(["fish", "--version"])\n'
DECLARES_FISH = STARTS_FISH.replace("def", 'import pytest\n@pytest.mark.needs("fish")\ndef')
OWN_FISH = """
import subprocess
def test_fish(tmp_path):
    (tmp_path / "fish").symlink_to("/bin/true")
    subprocess.run([tmp_path / "fish"], check=True)
"""
SLOW_REPORT = """
import time
import pytest
class Slow:
    def __repr__(self):
        time.sleep(3)
        return "slow"
@pytest.mark.timeout(1)
def test_with_a_slow_report():
    assert Slow() is None
"""
LEAVES_A_THREAD = "import threading, time\ndef test_it():\n    threading.Thread(target=time.sleep, args=(3600,), name='left').start()\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in (
        "tests/kits/pytest_levels.py",
        "tests/kits/pytest_limits.py",
        "tests/kits/captures.py",
        "tests/needs.txt",
    ):
        (tmp_path / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "clone" / name)
    return tmp_path / "clone"


def run_pytest(clone: Path, tests: str, *options: str, ci: str = "", path: str = os.environ["PATH"]) -> tuple[int, str]:
    (clone / "test_it.py").write_text(tests)
    plugins = ("-p", "kits.pytest_levels", "-p", "kits.pytest_limits", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugins, "--strict-markers", *options, "test_it.py"]
    environment = {"PATH": path, "PYTHONPATH": str(clone / "tests"), "CI": ci}
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def run_names(output: str) -> set[str]:
    return {
        line.split("::")[1].split("[")[0].split()[0] for line in output.splitlines() if line.startswith("test_it.py::")
    }


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (("--level", "quick"), QUICK),
        (("--level", "installed"), INSTALLED),
        (("--level", "quick", "--level", "installed"), QUICK | INSTALLED),
        (("--level", "long"), {"test_minutes", "test_more_inputs"}),
        ((), QUICK | INSTALLED | {"test_minutes", "test_more_inputs"}),
    ],
)
def test_each_test_runs_at_its_level(clone: Path, options: tuple[str, ...], chosen: set[str]) -> None:
    _, output = run_pytest(clone, TESTS, "--collect-only", "-q", *options)
    assert run_names(output) == chosen


def test_the_samples_share_the_long_tests_out(clone: Path) -> None:
    found: list[str] = []
    for number in (1, 2, 3):
        _, output = run_pytest(clone, TESTS, "--collect-only", "-q", "--level", "installed", f"--sample={number}/3")
        assert run_names(output) >= INSTALLED
        found += [line for line in output.splitlines() if "test_more_inputs" in line]
    assert len(found) == len(set(found)) == 40


def test_a_missing_program_is_named_with_its_package_and_fails_ci(clone: Path, tmp_path: Path) -> None:
    assert run_pytest(clone, "def test_plain(): pass\n", ci="true")[0] == 0
    for ci, status in (("", 0), ("true", 1)):
        found, output = run_pytest(clone, TESTS, "--level=quick", ci=ci, path=str(tmp_path))
        assert found == status, output
        assert "1 for lack of promtool: apt-get install prometheus\n" in output
        assert "1 for lack of sh\n" in output


@pytest.mark.parametrize(
    ("tests", "status"),
    [(STARTS_FISH, 1), (DECLARES_FISH, 0), (OWN_FISH, 0)],
    ids=["undeclared", "declared", "its own"],
)
def test_a_test_must_declare_the_program_that_it_starts(clone: Path, tmp_path: Path, tests: str, status: int) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "fish").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "fish").chmod(0o755)
    found, output = run_pytest(clone, tests, path=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert found == status, output
    assert ('test_fish starts fish: add @pytest.mark.needs("fish")' in output) == (status == 1)


def test_a_report_that_takes_longer_than_the_test_may_ends_no_other_test(clone: Path) -> None:
    _, output = run_pytest(clone, SLOW_REPORT + "def test_after(): pass\n")
    assert "1 failed, 1 passed" in output


def test_a_thread_that_a_test_leaves_does_not_keep_pytest_running(clone: Path) -> None:
    status, output = run_pytest(clone, LEAVES_A_THREAD)
    assert (status, "threads were left by tests: left" in output) == (1, True)


def test_no_test_has_conditions_of_its_own() -> None:
    """Only `needs` counts skipped tests and names the remedy."""
    words = "mark." + "skipif"
    assert [path.name for path in (ROOT / "tests").rglob("*.py") if words in path.read_text()] == []
