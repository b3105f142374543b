"""`make test` and `make test-all` run their parts side by side and end with one verdict over all of them, in a small project of few tests."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kits.captures import ROOT

FOLDERS = ["codec", "contract", "docs", "e2e", "exporters", "mtml", "state", "web", "workers"]
PARTS = "contract contract\ndaemons e2e\nothers\ncomputing codec state\nalone state/test_state.py\n"
PASSING = "def test_it():\n    pass\n"
PYPROJECT = """
[tool.pytest.ini_options]
pythonpath = ["tests"]
addopts = ["--strict-markers"]
markers = ["rest"]
[tool.coverage.run]
parallel = true
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with one test in each folder, all of which pass."""
    for name in (
        ".ci/run_tests.py",
        ".ci/test_part.py",
        "tests/kits/pytest_needs.py",
        "tests/kits/pytest_tally.py",
        "tests/kits/pytest_limits.py",
        "tests/kits/pytest_rest.py",
        "tests/kits/captures.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests/needs.txt").write_text("")
    (tmp_path / "tests/parts.txt").write_text(PARTS)
    (tmp_path / "tests/conftest.py").write_text(
        'pytest_plugins = ("kits.pytest_needs", "kits.pytest_tally", "kits.pytest_limits", "kits.pytest_rest")\n'
    )
    for name in FOLDERS:
        (tmp_path / "tests" / name).mkdir()
        (tmp_path / "tests" / name / f"test_{name}.py").write_text(PASSING)
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    program(tmp_path / ".ci/needs.sh", "echo tests that need more are left out")
    program(tmp_path / ".venv/bin/python", f'exec {sys.executable} "$@"')
    return tmp_path


def program(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def run(project: Path, *arguments: str, ci: str = "") -> tuple[int, list[str]]:
    """The runner's exit status and lines."""
    command = [sys.executable, ".ci/run_tests.py", *arguments]
    environment = os.environ | {"CI": ci}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).splitlines()


def put(project: Path, folder: str, tests: str) -> None:
    (project / "tests" / folder / f"test_{folder}.py").write_text(tests)


def test_all_that_passes_is_added_up_and_the_rest_left_to_test_all(project: Path) -> None:
    put(project, "web", PASSING + "import pytest\n@pytest.mark.rest\ndef test_rest():\n    pass\n")
    status, lines = run(project)
    assert (status, lines[-1]) == (0, f"{len(FOLDERS)} passed, 0 failed, 0 skipped")
    assert not [line for line in lines if line.startswith(("failed", "left out", "covered"))]
    status, lines = run(project, "--all")
    assert (status, lines[-1]) == (0, f"{len(FOLDERS) + 1} passed, 0 failed, 0 skipped")
    assert not [line for line in lines if line.startswith("covered")]
    status, lines = run(project, "--coverage")
    assert (status, lines[-1]) == (0, f"{len(FOLDERS) + 1} passed, 0 failed, 0 skipped")
    assert lines[-2].startswith("covered: ")


def test_the_shares_of_the_rest_are_all_of_it_and_each_is_in_one(project: Path) -> None:
    many = '@pytest.mark.rest\n@pytest.mark.parametrize("each", range(12))\ndef test_rest(each):\n    pass\n'
    put(project, "web", f"import pytest\n{PASSING}{many}")
    passed = []
    for share in ("1/3", "2/3", "3/3"):
        status, lines = run(project, f"--rest={share}")
        assert status == 0
        passed.append(int(lines[-1].split()[0]) - len(FOLDERS))
    assert (sum(passed), min(passed) > 0) == (12, True)
    assert run(project, "--rest=4/3", "tests/web")[0] != 0


def test_what_failed_and_what_was_left_out_is_told_over_all_parts_at_the_end(project: Path) -> None:
    put(project, "codec", "def test_it():\n    assert 1 == 2, 'not alike'\n")
    put(project, "contract", "import not_there\n")
    lacking = 'import pytest\n@pytest.mark.needs("no-such-tool")\ndef test_it():\n    pass\n'
    for name in ("e2e", "workers"):
        put(project, name, lacking)
    put(
        project,
        "state",
        "import pytest\n@pytest.fixture\ndef late():\n    yield\n    raise OSError('too late')\ndef test_it(late):\n    pass\n",
    )
    status, lines = run(project)
    text = "\n".join(lines)
    assert status == 1
    # As soon as it is known, with its text when all is done, and by name below that.
    assert "failed: tests/codec/test_codec.py::test_it" in lines
    assert "E   AssertionError: not alike" in text.replace("E       ", "E   ")
    verdict = text[text.index("\nleft out") :]
    assert re.search(r"^ +2 for lack of no-such-tool$", verdict, re.MULTILINE)
    assert "  tests/codec/test_codec.py::test_it: AssertionError: not alike" in verdict
    assert "  tests/contract/test_contract.py: cannot be collected" in verdict
    assert "  tests/state/test_state.py::test_it: OSError: too late" in verdict
    assert lines[-2] == "tests that need more are left out"
    assert lines[-1] == f"{len(FOLDERS) - 5} passed, 3 failed, 2 skipped"


def test_a_test_that_ends_its_pytest_has_failed_and_the_others_run(project: Path) -> None:
    for folder, status in (("mtml", 0), ("exporters", 9)):
        put(
            project,
            folder,
            f"import os\n{PASSING}def test_end():\n    os._exit({status})\ndef test_later():\n    pass\n",
        )
    # No test is to blame for this one.
    put(project, "e2e", "import os\nos._exit(3)\n")
    status, lines = run(project)
    assert status == 1
    for folder in ("mtml", "exporters"):
        assert f"  tests/{folder}/test_{folder}.py::test_end: its pytest ended within it" in lines
    assert "  daemons: ended with status 3, see build/tests/daemons.log" in lines
    assert lines[-1] == f"{len(FOLDERS) + 1} passed, 3 failed, 0 skipped"


SLOW_REPORT = """
import pytest, time
def pytest_runtest_makereport(call):
    if call.excinfo:
        time.sleep(0.6)
"""


def test_a_report_that_takes_longer_than_the_test_may_ends_no_other_test(project: Path) -> None:
    (project / "tests/e2e/conftest.py").write_text(SLOW_REPORT)
    limited = "import pytest\npytestmark = pytest.mark.timeout(0.5)\n"
    put(project, "e2e", f"{limited}def test_fails():\n    assert False\n{PASSING}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/e2e"], cwd=project, capture_output=True, text=True
    )
    assert re.search(r"^1 failed, 1 passed in", done.stdout, re.MULTILINE), done.stdout


def test_a_thread_that_a_test_leaves_keeps_no_part_from_its_end(project: Path) -> None:
    left = "import threading, time\ndef test_it():\n    threading.Thread(target=time.sleep, args=(900,), name='left').start()\n"
    put(project, "e2e", left)
    hurried = (
        (project / "tests/kits/pytest_limits.py").read_text().replace("_LEFT_SECONDS = 10.0", "_LEFT_SECONDS = 0.1")
    )
    (project / "tests/kits/pytest_limits.py").write_text(hurried)
    status, lines = run(project)
    assert status == 1
    assert "  daemons: ended with status 1, see build/tests/daemons.log" in lines
    assert "threads were left by tests: left" in lines
    assert lines[-1] == f"{len(FOLDERS)} passed, 1 failed, 0 skipped"


def test_where_nothing_may_be_left_out_it_is_a_failure(project: Path) -> None:
    put(project, "e2e", 'import pytest\ndef test_it():\n    pytest.skip("because")\n')
    status, lines = run(project, ci="true")
    assert status == 1
    assert "    1 because" in lines


def test_arguments_go_to_one_pytest(project: Path) -> None:
    status, lines = run(project, "tests/e2e", "-q")
    assert status == 0
    assert re.fullmatch(r"1 passed in [\d.]+s", lines[-1])


def test_an_interrupted_run_says_so(project: Path) -> None:
    waiting = "import pathlib, time\ndef test_it():\n    pathlib.Path('begun').touch()\n    time.sleep(60)\n"
    put(project, "e2e", waiting)
    # What a shell starts in the background ignores the signal, and so would all below it.
    command = ["env", "--default-signal=INT", sys.executable, ".ci/run_tests.py"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        while not (project / "begun").exists():
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=250)
    assert process.returncode == 1
    assert "interrupted before all was run" in output
    assert " passed, " in output.splitlines()[-1]
