"""Whose tool printed a text: AMD's rocm-smi, or Hygon's, which is installed under both names."""

from __future__ import annotations

import re

from telemetry_parsers.rocm.identity import texts_of, vendor_of
from telemetry_parsers.rocm.listing import Listing

_HYGON = re.compile(
    r"\b(?:DCU|HCU)(?:\[[0-9]|%|\s{1,12}Temp| use \(| Index:| Node\(| memory use)|\bvram Total (?:Used )?Memory \(MiB\)"
    r"|No h(?:y?c|ydc)u Driver|mkfd|Hfm Link Status|[0-7] --> SN: |\bVram memory ECC|(?:\A|\n|(?<!ROCm)[= ])System Management Interface =|End of SMI Log"
)
_AMD = re.compile(
    r"ROCm System Management Interface|End of ROCm SMI Log|ROCM-SMI|^\s{0,8}(?:ERROR: {0,4})?GPU\[[0-9]|^\s{0,8}GPU\s{1,12}(?:Temp|NODE)"
    r"|^\s{0,8}Device\s{1,12}(?:Node|\[Model)|Advanced Micro Devices|\bGPU use \(%\)|VRAM Total Memory \(B\)|KFD process information:"
    r"|usage: rocm[-_]smi|amdgpu|Current Socket Graphics Package|AMD GPU|DRM device\(s\)|No KFD PIDs",
    re.MULTILINE,
)


def is_hygons(text: str, listing: Listing | None) -> bool:
    """Whether Hygon's tool printed it: by its words, or because every card that says whose it is says so."""
    if _HYGON.search(text) is not None:
        return True
    return _all_of("hygon", listing)


def is_amds(text: str, listing: Listing | None) -> bool:
    """Whether AMD's tool printed it, and nothing in it is Hygon's."""
    if is_hygons(text, listing):
        return False
    return _AMD.search(text) is not None or _all_of("amd", listing)


def _all_of(vendor: str, listing: Listing | None) -> bool:
    vendors = {vendor_of(texts_of(entries)) for entries in listing.cards.values()} if listing is not None else set()
    return vendors == {vendor}
