"""What must be read in the real outputs in the shared folder: a table for each source, read beside the texts when it changes."""

from __future__ import annotations

import pytest

import review
from kits.captures import ROOT, registered_parsers

TABLES = ROOT / "tests" / "shared"
PARSERS = registered_parsers()
# These have tables of their own, or no shared outputs.
SOURCES = sorted(path.stem for path in TABLES.glob("*.txt"))


@pytest.mark.needs("captures")
@pytest.mark.parametrize("source", SOURCES)
def test_every_real_output_is_read_as_it_was_when_a_person_last_compared_them(source: str, update_golden: bool) -> None:
    text = "".join(f"{line}\n" for line in review.shared_expectations(PARSERS[source]))
    if update_golden:
        (TABLES / f"{source}.txt").write_text(text)
    assert (TABLES / f"{source}.txt").read_text() == text


def test_every_source_with_real_outputs_has_a_table_or_a_test_of_its_own() -> None:
    here = {source for source in PARSERS if review.of_source(source)}
    own = {
        path.stem.removeprefix("test_shared_").replace("_", "-") for path in ROOT.glob("tests/parsers/test_shared_*.py")
    }
    assert here - set(SOURCES) - own - {"hccn-tool"} == set()
