"""A release is built from a commit whose version is in the changelog, and the same commit gives the same bytes."""

import subprocess
import sys
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.release import BUILDERS, GIT, commit, repository
from kits.scripts import script_module
from telemetry_daemon.version import __version__

SECTION = f"## [{__version__}] - 2026-01-02\n\n- It is there.\n"
MISNAMED = f"CHANGELOG.md: the newest section must be `## [{__version__}] - YYYY-MM-DD`, as version.py says"
WAITING = f"CHANGELOG.md: move the entries of [Unreleased] to [{__version__}] or to a later release"


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        (SECTION, []),
        (f"# Changelog\n\n## [Unreleased]\n\n{SECTION}\n## [0.0.1] - 2025-01-01\n", []),
        (f"## [Unreleased]\n\n- More.\n\n{SECTION}", [WAITING]),
        (f"## [99.0.0] - 2026-01-02\n\n{SECTION}", [MISNAMED]),
        (f"## [{__version__}]\n\n- Of no day.\n", [MISNAMED]),
        ("## [Unreleased]\n\n- All.\n", [WAITING, MISNAMED]),
    ],
)
def test_the_changelog_names_the_version_that_is_released(text: str, reasons: list[str]) -> None:
    assert list(script_module("release_ready").changelog_problems(text, __version__)) == reasons


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("origin"))


@pytest.mark.long
def test_a_clone_is_ready_once_it_is_as_committed_and_generated(origin: Path, tmp_path: Path) -> None:
    clone = BUILDERS[0].clone(origin, tmp_path)
    page = clone / "docs/alerts.md"
    (clone / "CHANGELOG.md").write_text(SECTION)
    page.write_text(page.read_text() + "by hand\n")
    line = [sys.executable, str(ROOT / ".ci/release_ready.py"), str(clone)]
    before = subprocess.run(line, capture_output=True, text=True)
    assert (before.returncode, before.stdout.splitlines()) == (
        1,
        [
            "make release: CHANGELOG.md: not committed",
            "make release: docs/alerts.md: not committed",
            "make release: docs/alerts.md is out of date: run make docs",
        ],
    )
    subprocess.run([*GIT, "checkout", "--quiet", "docs/alerts.md"], cwd=clone, check=True)
    commit(clone)
    assert list(script_module("release_ready").changed_files(clone)) == []
