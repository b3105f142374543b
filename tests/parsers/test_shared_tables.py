"""What must be read in the real outputs in the shared folder: a table for each source, read beside the texts when it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import review
from kits.captures import ROOT, registered_parsers

TABLES = ROOT / "tests" / "shared"
PARSERS = registered_parsers()
SOURCES = sorted(path.stem for path in TABLES.glob("*.txt"))


@pytest.mark.needs("captures")
@pytest.mark.parametrize("source", SOURCES)
def test_every_real_output_is_read_as_it_was_when_a_person_last_compared_them(
    source: str, assert_golden: Callable[[Path, str], None]
) -> None:
    lines = review.shared_expectations(PARSERS[source])
    assert_golden(TABLES / f"{source}.txt", "".join(f"{line}\n" for line in lines))


def test_every_source_with_real_outputs_has_a_table() -> None:
    assert {source for source in PARSERS if review.of_source(source)} - set(SOURCES) == set()


# Part of a file's name, and what stands in each of its problems; `...` is how its source shortened the text.
WORDS = {
    "amd-smi": {
        "6.1.0-metric-cpu": "no GPU",
        "6.2-error-no-device": "Can not find a device",
        "mi300x-dpx-7.0.2-usage": "Python",
        "6.1.1-metric-ecc": "shortened",
        "6.3-metric-pcie": "shortened",
        "6.3-metric-throttle": "shortened",
        "6.3-metric-usage-xcp": "shortened",
        "6.3-monitor-violation": "shortened",
        "130-monitor-process": "missing the following required groups",
    },
    "rocminfo": {
        "agent-enumerator-nodriver": "/sys/class/kfd",
        "local-5.2.3-nodriver": "NOT loaded",
        "not-member-of-video": "Permission denied",
        "z100-grep-gfx": "extract",
    },
}


@pytest.mark.needs("captures")
@pytest.mark.parametrize(
    ("source", "name", "word"), [(source, *row) for source, rows in WORDS.items() for row in rows.items()]
)
def test_a_problem_of_a_real_output_says_what_it_is(source: str, name: str, word: str) -> None:
    (path,) = (path for path in review.of_source(source) if name in path.stem)
    problems = PARSERS[source].parse(review.shared_capture(PARSERS[source], path)).problems
    assert [word in problem.text for problem in problems] == [True]
