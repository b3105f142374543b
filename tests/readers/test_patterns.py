"""Patterns over a tree like sysfs find the same paths as glob, and read each folder once."""

import glob
from pathlib import Path

import pytest

from telemetry_daemon.processes.driver_files import PathMatcher


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        "a/card0/busy",
        "a/card1/busy",
        "a/card1/.hidden",
        "a/card0-DP-1/status",
        "a/plain",
        ".dot/busy",
        "a/[x]",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "a/gone").symlink_to("nowhere")
    return tmp_path


@pytest.mark.parametrize(
    "pattern",
    [
        "/a/card0/busy", "/a/card[0-9]/busy", "/a/card[0-9]*/*", "/*/*/busy", "/a/*", "/a/.*", "/*/card1/.h*", "/link/card?/busy",
        "/a/gone", "/a/plain/x", "/a/*/x*", "/none/*", "/none", "/a/[[]x]", "/a/card1/", "/a//card1/busy", "/**/busy",
    ],
)  # fmt: skip
def test_a_pattern_matches_what_glob_finds(root: Path, pattern: str) -> None:
    found = {str(Path(path).relative_to(root)) for path in glob.glob(f"{root}{pattern}")}  # noqa: PTH207  # what is compared with
    assert set(PathMatcher(str(root)).matching_paths(pattern)) == found
