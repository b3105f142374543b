"""The JSON of `mx-smi -j`: an object for each GPU by its bus address, beside the versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from telemetry_parsers.boxed.page import Page
from telemetry_parsers.boxed.targets import identity
from telemetry_parsers.model import Problem
from telemetry_parsers.text.lines import Line, bus_address, quote
from telemetry_parsers.vendors.metax.mx_smi.keys import DOCUMENT, DOCUMENT_VERSIONS

_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def read_document(lines: Sequence[Line], page: Page) -> bool:
    """Put what the document says onto the page; False where the text holds none of this tool's."""
    text = "\n".join(line.text for line in lines)
    start = text.find("{")
    if start < 0 or '"attached_gpus"' not in text:
        return False
    try:
        found, _ = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        page.problems.append(Problem("JSON", f"cut off or broken: {quote(str(error))}"))
        return True
    for name, item in found.items():
        address = bus_address(name)
        if address is not None and isinstance(item, dict):
            _take(name, item, page)
        elif DOCUMENT_VERSIONS.get(name) == "driver":
            page.driver = str(item)
        elif name in DOCUMENT_VERSIONS:
            page.tool_version = str(item)
    if str(found.get("attached_gpus")) != str(page.size()):
        text = f"the tool counts {quote(str(found.get('attached_gpus')))} cards and lists {page.size()}"
        page.problems.append(Problem("JSON", text))
    return True


def _take(address: str, item: dict[str, Any], page: Page) -> None:
    device = page.device(address)
    page.take(device, (identity("bus_id"),), address, "JSON")
    for path, target in DOCUMENT.items():
        text = _at(item, path)
        if text is not None:
            page.take(device, (target,), text, f"JSON {'/'.join(path)}")
    reason = _at(item, ("unavailable_reason",))
    if reason:
        page.problems.append(Problem(f"JSON {quote(address)}", f"not available: {quote(reason)}"))


def _at(item: dict[str, Any], path: Sequence[str]) -> str | None:
    """The text at the end of a path."""
    found: Any = item
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None
