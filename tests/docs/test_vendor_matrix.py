"""The matrix of vendors and core readings: exactly the missing readings have a reason."""

import sys

from kits.captures import ROOT
from telemetry_parsers.vendors import VENDORS

sys.path.insert(0, str(ROOT / ".ci"))

import vendor_matrix


def test_exactly_the_missing_readings_have_reasons() -> None:
    assert vendor_matrix.missing_readings() == {
        (vendor.word, key) for vendor in VENDORS for key, _ in vendor.missing_metrics
    }


def test_every_vendor_has_a_page() -> None:
    assert [vendor.word for vendor in VENDORS if not (ROOT / f"docs/vendors/{vendor.word}.md").exists()] == []
