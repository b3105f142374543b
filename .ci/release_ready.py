"""Print the reasons why this checkout cannot be released, a line for each, and exit with status 1 if there are any."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_VERSION = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)
_SECTION = re.compile(r"^## \[(.*?)\](.*)$", re.MULTILINE)
_DATE = re.compile(r" - 20\d\d-\d\d-\d\d")
# The checkout may belong to another user, which git refuses otherwise.
_GIT_SETTINGS = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}


def changelog_problems(text: str, version: str) -> Iterator[str]:
    """Yield the problems of the changelog for a release of this version."""
    _, *parts = _SECTION.split(text)
    sections = [(parts[index], parts[index + 1], parts[index + 2]) for index in range(0, len(parts), 3)]
    if sections and sections[0][0] == "Unreleased":
        _, _, unreleased = sections.pop(0)
        if unreleased.strip():
            yield f"CHANGELOG.md: move the entries of [Unreleased] to [{version}] or to a later release"
    newest, date, _ = sections[0] if sections else ("", "", "")
    if newest != version or not _DATE.fullmatch(date):
        yield f"CHANGELOG.md: the newest section must be `## [{version}] - YYYY-MM-DD`, as version.py says"


def changed_files(checkout: Path) -> Iterator[str]:
    """Yield the files that differ from the commit, because a build with them could not be repeated."""
    git = ["git", "-C", str(checkout), "status", "--porcelain"]
    status = subprocess.run(git, check=False, env=os.environ | _GIT_SETTINGS, capture_output=True, text=True)
    if status.returncode:
        yield f"a release is built from a commit: {status.stderr.strip()}"
    for line in status.stdout.splitlines():
        yield f"{line[3:]}: not committed"


def outdated_files(checkout: Path) -> Iterator[str]:
    """Yield the files that `make docs` would change, including the chart and the man page with their version."""
    command = [sys.executable, str(Path(__file__).with_name("generate.py")), "--check", "--folder", str(checkout)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    yield from (result.stdout + result.stderr).splitlines()


def main(arguments: list[str]) -> int:
    """Check one checkout, by default the script's own. Return 1 if a release is not possible."""
    checkout = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    match = _VERSION.search((checkout / "daemon/telemetry_daemon/version.py").read_text("utf-8"))
    version = match[1] if match else ""
    reasons = [
        *changed_files(checkout),
        *changelog_problems((checkout / "CHANGELOG.md").read_text("utf-8"), version),
        *outdated_files(checkout),
    ]
    sys.stdout.write("".join(f"make release: {reason}\n" for reason in reasons))
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
