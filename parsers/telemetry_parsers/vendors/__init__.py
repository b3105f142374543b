"""The vendors: one record each, beside the parsers of its tools."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.vendor import Vendor
from telemetry_parsers.vendors import (
    amd,
    ascend,
    cambricon,
    enflame,
    hygon,
    iluvatar,
    intel,
    kunlunxin,
    metax,
    moorethreads,
    nvidia,
)

# In the order in which pages and completions show them.
VENDORS: tuple[Vendor, ...] = (
    nvidia.VENDOR,
    amd.VENDOR,
    hygon.VENDOR,
    moorethreads.VENDOR,
    ascend.VENDOR,
    cambricon.VENDOR,
    metax.VENDOR,
    iluvatar.VENDOR,
    enflame.VENDOR,
    intel.VENDOR,
    kunlunxin.VENDOR,
)
BY_WORD: Mapping[str, Vendor] = {vendor.word: vendor for vendor in VENDORS}
VENDOR_WORDS = tuple(BY_WORD)
