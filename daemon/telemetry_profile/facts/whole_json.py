"""A JSON document that is read at once, as long as it is no larger than any that a tool writes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from telemetry_profile.contract import NotReadError

LARGEST_MIB = 256


def document(lines: Iterable[str], largest_mib: int = LARGEST_MIB) -> Any:  # JSON of any shape
    """The document. Raises NotReadError."""
    text, length = [], 0
    for line in lines:
        text.append(line)
        length += len(line) + 1
        if length > largest_mib << 20:
            raise NotReadError(f"it is larger than {largest_mib} MiB; give the folder of fewer steps")
    found = document_in("\n".join(text))
    if found is None:
        raise NotReadError("its JSON is damaged or cut off; copy the file again")
    return found


def document_in(text: str) -> Any:  # JSON of any shape
    """The document; None where the text is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # who asked says whether that is damage or another format
        return None
