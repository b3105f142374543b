"""Evaluates pip-audit's result. Packages without a result, such as skipped packages, do not count as free of vulnerabilities."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLEAR, VULNERABLE, NOT_AUDITED = 0, 1, 2


@dataclass(frozen=True)
class AuditResult:
    """The exit status of the audit, and the lines that explain the status."""

    status: int
    lines: tuple[str, ...]


def verdict(output: str, requested: int) -> AuditResult:
    """Judge pip-audit's JSON output for `requested` packages. An empty string means that there was no output."""
    try:
        packages = json.loads(output)["dependencies"]
        vulnerable = tuple(_vulnerability_line(package) for package in packages if package.get("vulns"))
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


def _vulnerability_line(package: dict[str, Any]) -> str:
    return f"{package['name']} {package.get('version')}: {', '.join(vulnerability['id'] for vulnerability in package['vulns'])}"


def main(arguments: list[str]) -> int:
    """Print the verdict on pip-audit's output file for a requirements file. Return the exit status."""
    output, requirements = Path(arguments[0]), Path(arguments[1])
    result = verdict(output.read_text() if output.exists() else "", len(requirements.read_text().splitlines()))
    sys.stdout.write("".join(f"{line}\n" for line in result.lines))
    return result.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
