"""The XML that some tools print for `-q -x`, an element a line, as lines of a list: a card by its bus address, sections, keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from telemetry_parsers.boxed.lists import CardList, is_list, read_cards
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.tool import Shape, Text
from telemetry_parsers.text.lines import MOST_LINES, Line, quote

_TAG = re.compile(r"<(/?)([a-z_][a-z0-9_]{0,60})(?: id=\"([^\"<>]{1,40})\")?>([^<]{0,200})")
# What stands for an element with nothing in it.
_EMPTY = "none"
# A card has some 150 of them; a text that has more is no tool's, and not worth the time of the rest.
_MOST_TAGS = 2 * MOST_LINES


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag and the text behind it; `place` is the bus address of a card's."""

    closes: bool
    name: str
    place: str
    text: str
    line: Line


def markup(shape: CardList) -> Shape:
    """The shape of such a log; sections and keys of `shape` are the names of elements, the outermost section is the card's."""

    def read_if(text: Text, draft: Draft) -> bool:
        listed, open_elements = _as_list(text.lines)
        if not is_list(listed, shape):
            return False
        read_cards(listed, shape, draft)
        if open_elements:
            draft.is_cut = True
            what = f"the document ends before </{quote(open_elements[-1])}>; further cards may be missing"
            draft.complain(text.lines[-1].where, what)
        return True

    return Shape(read_if, tables=(shape,))


def _as_list(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """`<power_draw>87.00 W</power_draw>` as `power_draw : 87.00 W`; an element around others as the name of a section.

    Behind them the elements that nothing closes.
    """
    tags = list(islice((tag for line in lines for tag in _tags(line)), _MOST_TAGS + 1))
    if len(tags) > _MOST_TAGS:
        return [], []
    listed: list[Line] = []
    around: list[str] = []
    is_read = False
    for tag, following in zip(tags, [*tags[1:], None], strict=False):
        if is_read:
            is_read = False  # it ends the element before it
        elif tag.closes:
            listed.extend(_end_of(tag, around))
        elif following is not None and following.closes and following.name == tag.name:
            listed.append(replace(tag.line, text=f"{tag.name} : {tag.text or _EMPTY}"))
            is_read = True
        elif tag.text:
            listed.append(replace(tag.line, ended=False))
        else:
            around.append(tag.name)
            listed.extend(replace(tag.line, text=text) for text in (f"{tag.name} {tag.place}".strip(), tag.name))
    return listed, around


def _end_of(tag: _Tag, around: list[str]) -> list[Line]:
    """The section that goes on behind the end of one within it."""
    if around[-1:] != [tag.name]:
        return []
    around.pop()
    return [replace(tag.line, text=name) for name in around[-1:]]


def _tags(line: Line) -> Iterator[_Tag]:
    for match in _TAG.finditer(line.text):
        yield _Tag(bool(match[1]), match[2], match[3] or "", match[4].strip(), line)
