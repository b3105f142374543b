"""What cannot run is told by reason at the end of a test run, and fails it where CI=true; whoever needs more says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kits.captures import ROOT

PASSING = "def test_plain():\n    pass\n"
LACKING = 'import pytest\n@pytest.mark.needs("sh", "no-such-tool")\ndef test_tool():\n    pass\n'
PACKAGED = 'import pytest\n@pytest.mark.needs("fish", "promtool")\ndef test_tool():\n    pass\n'
SKIPPED = 'import pytest\ndef test_skipped():\n    pytest.skip("because")\n'
CAPTURES = 'import pytest\n@pytest.mark.needs("captures")\ndef test_captures():\n    pass\n'
HAVING = 'import pytest\n@pytest.mark.needs("sh")\ndef test_tool():\n    pass\n'
STARTS_FISH = 'import subprocess\ndef test_fish():\n    subprocess.run(["fish", "--version"])\n'
SAYS_SO = STARTS_FISH.replace("def", 'import pytest\n@pytest.mark.needs("fish")\ndef')
OWN_FISH = """
import subprocess
def test_fish(tmp_path):
    (tmp_path / "fish").symlink_to("/bin/true")
    subprocess.run([tmp_path / "fish"], check=True)
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A checkout that holds what reads the marks, with nothing beside it."""
    for name in ("tests/kits/pytest_needs.py", "tests/kits/captures.py", "tests/needs.txt"):
        (tmp_path / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "clone" / name)
    return tmp_path / "clone"


def run_pytest(clone: Path, tests: str, ci: str = "", path: str = os.environ["PATH"]) -> tuple[int, str]:
    """The exit status and output of pytest over one test module."""
    (clone / "test_it.py").write_text(tests)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "kits.pytest_needs",
            "-p",
            "no:cacheprovider",
            "--strict-markers",
            ".",
        ],
        cwd=clone,
        env={"PATH": path, "PYTHONPATH": str(clone / "tests"), "CI": ci},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("tests", "at_home", "in_ci", "named"),
    [
        (PASSING, 0, 0, None),
        (PASSING + HAVING, 0, 0, None),
        (PASSING + LACKING, 0, 1, "1 for lack of no-such-tool\n"),
        (PASSING + SKIPPED, 0, 1, "1 because\n"),
        (PASSING + CAPTURES, 0, 1, "1 for outputs of real tools that may not be published, so that no clone has them"),
        ("def test_bad():\n    assert False\n" + LACKING, 1, 1, "1 for lack of no-such-tool\n"),
    ],
    ids=["plain", "tool there", "tool missing", "skipped", "no captures", "failing"],
)
def test_what_did_not_run_is_told_and_fails_ci(
    clone: Path, tests: str, at_home: int, in_ci: int, named: str | None
) -> None:
    for ci, status in (("", at_home), ("true", in_ci)):
        found, output = run_pytest(clone, tests, ci)
        assert found == status, output
        assert ("tests that did not run" in output) == (named is not None)
        assert named is None or named in output


def test_the_remedy_is_the_packages_that_are_missing(clone: Path, tmp_path: Path) -> None:
    _, output = run_pytest(clone, PACKAGED, path=str(tmp_path))
    assert "1 for lack of fish, promtool: apt-get install fish prometheus\n" in output


@pytest.mark.parametrize(
    ("tests", "status"), [(STARTS_FISH, 1), (SAYS_SO, 0), (OWN_FISH, 0)], ids=["silent", "said", "its own"]
)
def test_a_test_that_starts_a_program_must_say_that_it_needs_it(
    clone: Path, tmp_path: Path, tests: str, status: int
) -> None:
    """Also where the program is there, so that the machine of whoever wrote the test does not matter."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "fish").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "fish").chmod(0o755)
    found, output = run_pytest(clone, tests, path=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert found == status, output
    assert ('test_fish starts fish: say @pytest.mark.needs("fish")' in output) == (status == 1)


def test_no_test_has_conditions_of_its_own() -> None:
    """What `needs` says is added up, with what is to be done."""
    words = "mark." + "skipif"
    assert [path.name for path in (ROOT / "tests").rglob("*.py") if words in path.read_text()] == []
