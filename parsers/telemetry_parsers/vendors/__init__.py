"""All vendors. The parsers of each vendor's tools are in this package, too."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.vendor import Vendor
from telemetry_parsers.vendors import gpu_records as gpus
from telemetry_parsers.vendors import npu_records as npus

# Documentation pages and shell completions list the vendors in this order.
VENDORS: tuple[Vendor, ...] = (
    *(gpus.NVIDIA, gpus.AMD, gpus.HYGON, gpus.MOORETHREADS, npus.ASCEND, npus.CAMBRICON, gpus.METAX, gpus.ILUVATAR),
    *(npus.ENFLAME, gpus.INTEL, npus.KUNLUNXIN),
)
VENDOR_BY_WORD: Mapping[str, Vendor] = {vendor.word: vendor for vendor in VENDORS}
VENDOR_WORDS = tuple(VENDOR_BY_WORD)
