"""The mapping of `npu-smi info -m`: which chip has which logic id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.model import Device
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.complaints import no_row, not_understood
from telemetry_parsers.text.framed import headings_in
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.ascend import VENDOR
from telemetry_parsers.vendors.ascend.npu_smi.places import Place, chip_at
from telemetry_parsers.vendors.ascend.npu_smi.words import PHYSICAL

_NAME = "chip name"
_MAPPING = frozenset({"npu id", "slot id", "chip id", "chip logic id", "chip phy-id", _NAME})


def is_mapping(lines: Sequence[Line]) -> bool:
    """Whether a line is the heading of `npu-smi info -m`."""
    return any(_mapping_headings(line) for line in lines)


def read_mapping(lines: Sequence[Line], draft: Draft) -> None:
    """Which chip has which logic id; parts without one, such as the card's controller, are no devices."""
    headings: tuple[str, ...] = ()
    spaces: set[str | None] = set()
    for line in lines:
        names = _mapping_headings(line)
        if names or not headings:
            headings = names or _outside(draft, line) or headings
        elif line.ended and line.text.strip():
            row = _mapping_row(line, headings)
            if row is None:
                draft.complain(line.where, no_row(line.text, "the mapping"))
            else:
                spaces.add(_add_mapped(draft, row))
    if headings and not spaces:
        draft.complain(lines[-1].where, "the mapping names no chip")
    draft.index_space = PHYSICAL if spaces - {None} == {PHYSICAL} else ""


def _outside(draft: Draft, line: Line) -> tuple[str, ...]:
    if line.text.strip() and line.ended:
        draft.complain(line.where, not_understood(line.text))
    return ()


def _mapping_headings(line: Line) -> tuple[str, ...]:
    names = headings_in(line.text.replace("\t", "  "), _MAPPING) if line.ended else ()
    return names if names[:1] == ("npu id",) and "chip id" in names else ()


def _mapping_row(line: Line, headings: Sequence[str]) -> dict[str, str] | None:
    """The cells of a row: a number or a dash for each heading, and the name at the end, which may have blanks."""
    words = line.text.split(maxsplit=len(headings) - 1)
    *numbers, name = words or [""]
    if len(words) != len(headings) or units.whole(words[0]) is None or _is_number(name.split()[0]):
        return None
    if headings[-1] != _NAME or not all(map(_is_number, numbers)):
        return None
    return {heading: word.strip() for heading, word in zip(headings, words, strict=True)}


def _is_number(word: str) -> bool:
    return word == "-" or units.whole(word) is not None


def _add_mapped(draft: Draft, row: Mapping[str, str]) -> str | None:
    place = Place(units.whole(row["npu id"]), units.whole(row["chip id"]))
    logic, physical = units.whole(row.get("chip logic id", "")), units.whole(row.get("chip phy-id", ""))
    if place.chip is None or (logic is None and physical is None):
        return None
    device = chip_at(draft, place)
    draft.number(device, logic if physical is None else physical)
    facts = {"logic_id": "chip logic id", "phy_id": "chip phy-id", "slot": "slot id"}
    printed = {name: units.text_or_none(row.get(heading)) for name, heading in facts.items()}
    draft.describe(device, Device(VENDOR.word, model=units.text_or_none(row.get(_NAME))), printed)
    return "logic" if physical is None else PHYSICAL
