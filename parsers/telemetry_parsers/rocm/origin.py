"""Whose tool printed a text: AMD's rocm-smi, or Hygon's, which is installed under both names."""

from __future__ import annotations

import re

from telemetry_parsers.reports.tool import Text
from telemetry_parsers.rocm.identity import may_name, texts_of, vendor_of
from telemetry_parsers.rocm.tables import any_listing

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


def is_hygons(text: Text) -> bool:
    """Whether Hygon's tool printed it: by its words, or because every card that names its vendor names Hygon."""
    return _HYGON.search(text.joined) is not None or _lists_only("hygon", text)


def is_amds(text: Text) -> bool:
    """Whether AMD's tool printed it, and nothing in it is Hygon's."""
    return not is_hygons(text) and (_AMD.search(text.joined) is not None or _lists_only("amd", text))


def _lists_only(vendor: str, text: Text) -> bool:
    listing = any_listing(text) if may_name(vendor, text.joined) else None
    return listing is not None and {vendor_of(texts_of(entries)) for entries in listing.cards.values()} == {vendor}
