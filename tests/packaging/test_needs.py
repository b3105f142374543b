"""What cannot run is named at the end of a test run, and fails it where CI=true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HELPERS = Path(__file__).resolve().parent.parent
PASSING = "def test_plain():\n    pass\n"
LACKING = 'import pytest\n@pytest.mark.needs("sh", "no-such-tool")\ndef test_tool():\n    pass\n'
SKIPPED = 'import pytest\ndef test_skipped():\n    pytest.skip("because")\n'
NO_CAPTURES = 'import pytest\n@pytest.mark.parametrize("case", [])\ndef test_captures(case):\n    pass\n'
NO_SHARED = 'import pytest\ndef test_shared():\n    pytest.skip("no shared captures: …")\n'
HAVING = 'import pytest\n@pytest.mark.needs("sh")\ndef test_tool():\n    pass\n'


def run_pytest(folder: Path, tests: str, ci: str) -> tuple[int, str]:
    """The exit status and output of pytest over one test module."""
    (folder / "test_it.py").write_text(tests)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "needs_kit", "-p", "no:cacheprovider", "--strict-markers", "."],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(HELPERS), "CI": ci},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("tests", "at_home", "in_ci", "named"),
    [
        (PASSING, 0, 0, None),
        (PASSING + HAVING, 0, 0, None),
        (PASSING + LACKING, 0, 1, "1 for lack of no-such-tool"),
        (PASSING + SKIPPED, 0, 1, "1 skipped, see above"),
        (PASSING + NO_CAPTURES, 0, 0, None),
        (PASSING + NO_SHARED, 0, 0, None),
        ("def test_bad():\n    assert False\n" + LACKING, 1, 1, "1 for lack of no-such-tool"),
    ],
    ids=["plain", "tool there", "tool missing", "skipped", "no captures", "no shared captures", "failing"],
)
def test_what_did_not_run_is_named_and_fails_ci(
    tmp_path: Path, tests: str, at_home: int, in_ci: int, named: str | None
) -> None:
    for ci, status in (("", at_home), ("true", in_ci)):
        found, output = run_pytest(tmp_path, tests, ci)
        assert found == status, output
        assert ("tests that did not run" in output) == (named is not None)
        assert named is None or named in output
