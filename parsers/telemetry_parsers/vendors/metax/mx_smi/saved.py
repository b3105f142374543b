"""What no poll asks mx-smi for: the JSON of `-j`, an object for each GPU beside the versions, and the names of `-L`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import identity
from telemetry_parsers.reports.tool import Text
from telemetry_parsers.text.complaints import cut_document, miscounted
from telemetry_parsers.text.documents import OBJECTS, find_documents
from telemetry_parsers.text.lines import bus_address, quote
from telemetry_parsers.vendors.metax.mx_smi.keys import DOCUMENT, DOCUMENT_VERSIONS, STATE

# `mx-smi  version: 2.2.12` stands above the document.
_TITLE = re.compile(r"[ \t]{0,8}[mh][xt]-smi[ \t]{1,8}version:[^\n]{0,80}$", re.MULTILINE)
# A line of `-L`: number, model, bus address, state, and behind it the UUID or the reason of the state.
_LISTED = re.compile(
    r"GPU#([0-9]{1,4})[ \t]{1,20}(\S{1,40})[ \t]{1,20}([0-9a-fA-F:.]{6,20})[ \t]{1,20}((?:Not )?Available)[ \t]{0,4}"
    r"\((?:UUID: (\S{1,80})|([^()]{1,120}))\)\Z"
)


def read_document(answer: Text, draft: Draft) -> bool:
    """Read the documents into the draft; False where the text holds none of this tool's."""
    text = _TITLE.sub("", answer.joined)
    if '"attached_gpus"' not in text:
        return False
    json = find_documents(text, OBJECTS)
    whole = [item for item in json.documents if not item.fault and isinstance(item.value, dict)]
    for document in whole:
        _take_document(cast("dict[str, Any]", document.value), draft)
    if json.fault:
        draft.complain("JSON", cut_document(json.fault))
    draft.problems += json.problems(whole)
    return bool(json.documents)


def _take_document(document: dict[str, Any], draft: Draft) -> None:
    for name, item in document.items():
        address = bus_address(name)
        if address is not None and isinstance(item, dict):
            _take(name, item, draft)
        elif DOCUMENT_VERSIONS.get(name) == "driver":
            draft.driver = str(item)
        elif name in DOCUMENT_VERSIONS:
            draft.tool_version = str(item)
    if str(document.get("attached_gpus")) != str(draft.size()):
        draft.complain("JSON", miscounted(quote(str(document.get("attached_gpus"))), draft.size()))


def _take(address: str, item: dict[str, Any], draft: Draft) -> None:
    device = draft.device(address)
    draft.take(device, (identity("bus_id"),), address, "JSON")
    for path, target in DOCUMENT.items():
        text = _at(item, path)
        if text is not None:
            draft.take(device, (target,), text, f"JSON {'/'.join(path)}")
    reason = _at(item, ("unavailable_reason",))
    if reason:
        draft.complain(f"JSON {quote(address)}", f"not available: {quote(reason)}")


def _at(item: dict[str, Any], path: Sequence[str]) -> str | None:
    """The text at the end of a path."""
    value: Any = item
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def read_names(answer: Text, draft: Draft) -> bool:
    """The GPUs of `-L`; one that cannot be used becomes a problem."""
    for line in answer.lines:
        match = _LISTED.match(line.text.strip()) if line.ended else None
        if match is None and ("GPU#" in line.text or "vailable" in line.text) and "SGPU#" not in line.text:
            draft.complain(line.where, f"no line of a GPU: {quote(line.text)}")
        if match is None or draft.has(int(match[1])):
            continue
        device = draft.device(int(match[1]))
        for target, text in (
            (identity("model"), match[2]),
            (identity("bus_id"), match[3]),
            (STATE, match[4]),
        ):
            draft.take(device, (target,), text, line.where)
        if match[5]:
            draft.take(device, (identity("uuid"),), match[5], line.where)
        else:
            draft.complain(line.where, f"GPU {match[1]}: {quote(match[4])} ({quote(match[6])})")
    return bool(draft.size())
