"""The meaning of pip-audit's result: missing output and skipped packages do not count as an all-clear."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLEAR, VULNERABLE, NOT_AUDITED = 0, 1, 2


@dataclass(frozen=True)
class AuditResult:
    """An exit status with the lines that explain it."""

    status: int
    lines: tuple[str, ...]


def verdict(answer: str, requested: int) -> AuditResult:
    """Return the verdict on pip-audit's JSON output for `requested` packages. An empty `answer` means that there was no output."""
    try:
        packages = json.loads(answer)["dependencies"]
        vulnerable = tuple(_named(package) for package in packages if package.get("vulns"))
        skipped = tuple(
            f"{package['name']}: {package['skip_reason']}" for package in packages if "skip_reason" in package
        )
    except (ValueError, TypeError, KeyError, AttributeError):  # The output is not JSON, or not in pip-audit's format.
        return AuditResult(NOT_AUDITED, ("NOT AUDITED: pip-audit printed no result; its service was not reached",))
    missing = requested - len(packages)
    if vulnerable:
        return AuditResult(
            VULNERABLE, (*vulnerable, f"{len(vulnerable)} of {requested} packages have known vulnerabilities")
        )
    if skipped or missing:
        lines = (*skipped, f"NOT AUDITED: {len(skipped) + missing} of {requested} packages were not looked up")
        return AuditResult(NOT_AUDITED, lines)
    return AuditResult(CLEAR, (f"{requested} packages were looked up, none has a known vulnerability",))


def _named(package: dict[str, Any]) -> str:
    return f"{package['name']} {package.get('version')}: {', '.join(vulnerability['id'] for vulnerability in package['vulns'])}"


def main(arguments: list[str]) -> int:
    """Print the verdict for pip-audit's output file and the file of requirements that was audited. Return the exit status."""
    answer, requirements = Path(arguments[0]), Path(arguments[1])
    found = verdict(answer.read_text() if answer.exists() else "", len(requirements.read_text().splitlines()))
    sys.stdout.write("".join(f"{line}\n" for line in found.lines))
    return found.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
