"""The matrix of vendors and core readings: each hole has its reason, and each reason its hole."""

from __future__ import annotations

import sys

from kits.captures import ROOT
from telemetry_parsers.model import VENDORS

sys.path.insert(0, str(ROOT / ".ci"))

import vendor_matrix


def test_every_hole_has_a_reason_and_every_reason_a_hole() -> None:
    assert vendor_matrix.holes() == set(vendor_matrix.HOLES)


def test_every_vendor_has_a_row_and_a_page() -> None:
    assert tuple(vendor_matrix.VENDORS) == VENDORS
    assert [page for _, page in vendor_matrix.VENDORS.values() if not (ROOT / "docs/vendors" / page).exists()] == []


def test_the_page_is_what_the_captures_give() -> None:
    assert (ROOT / "docs/vendors/README.md").read_text() == vendor_matrix.matrix(), "run make docs"
    assert "`amdgpu-sysfs`" in vendor_matrix.matrix()
