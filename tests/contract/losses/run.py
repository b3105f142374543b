"""Remove every line, cell and tail of every capture, and print what becomes wrong or disappears silently: `make losses`.

LOSSES_ONLY selects a parser; LOSSES_SHOWN is the number of findings shown for each kind (5).
"""

import os
import sys
from collections import Counter

from contract.losses.loss import Finding, Sample, findings, losses, own_samples, real_samples
from contract.test_contract import SHARED_FOLDERS
from telemetry_parsers.contract import Parser

KINDS = ("wrong", "silent", "unnoticeable")


def main() -> int:
    """Print one line for each parser: losses, wrong, silent, unnoticeable. Return 1 if any are wrong or silent."""
    only, shown = os.environ.get("LOSSES_ONLY", ""), int(os.environ.get("LOSSES_SHOWN", "5"))
    samples = [*own_samples(only or "*"), *real_samples(SHARED_FOLDERS, only)]
    bad = 0
    for name in sorted({parser.name for parser, _ in samples}):
        tried, found = _all([item for item in samples if item[0].name == name])
        kinds = Counter(finding.kind for _, finding in found)
        bad += kinds["wrong"] + kinds["silent"]
        figures = "".join(f"{kinds[kind]:>6} {kind}" for kind in KINDS)
        print(f"{name:<16} {tried:>8} losses{figures}", flush=True)
        _show([(at, finding) for at, finding in found if finding.kind != "unnoticeable"], shown)
    return 1 if bad else 0


def _all(samples: list[tuple[Parser, Sample]]) -> tuple[int, list[tuple[str, Finding]]]:
    tried = 0
    found: list[tuple[str, Finding]] = []
    for parser, sample in samples:
        whole = parser.parse(sample.capture)
        for loss in losses(sample.text):
            tried += 1
            worst = sorted(findings(parser, sample, loss, whole), key=lambda finding: KINDS.index(finding.kind))
            found.extend((sample.name, finding) for finding in worst[:1])
    return tried, found


def _show(found: list[tuple[str, Finding]], most: int) -> None:
    """Show the first findings of each capture and kind."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for name, finding in found:
        seen[name, finding.kind, finding.loss.kind] += 1
        if seen[name, finding.kind, finding.loss.kind] <= most:
            print(f"  {name}: {finding.loss.kind} {finding.loss.where}: {finding.kind}: {finding.what}")


if __name__ == "__main__":
    sys.exit(main())
