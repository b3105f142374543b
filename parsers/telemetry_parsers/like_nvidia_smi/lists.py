"""Lists of `key : value` below a heading for each card, and XML with the same content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, identity
from telemetry_parsers.reports.tool import Shape, ToolText
from telemetry_parsers.text.answers import CUT_LINE, listed_twice, value_without_key, wrong_count
from telemetry_parsers.text.lines import MAX_LINES, Line, quote

# (section, key), both in lower case.
Key = tuple[str, str]
_SEPARATOR = re.compile(r"[ \t]{0,120}:(?:[ \t]|\Z)")
_DIGIT = re.compile(r"[0-9]")
_MAX_LINE_LENGTH = 400
_FRAME_CHARACTERS = frozenset("-=*+ \t")


@dataclass(frozen=True, slots=True)
class CardListShape:
    """The headings and keys of one tool's card list (`key : value` lines)."""

    card_heading: re.Pattern[str]
    card_targets: tuple[Target, ...]  # the target of each regex group of `card_heading`, such as the index
    targets_by_key: Mapping[Key, tuple[Target, ...]]
    ignored: frozenset[Key] = frozenset()  # known keys without a metric
    ignored_sections: frozenset[str] = frozenset()
    fact_by_header_key: Mapping[str, str] = field(default_factory=dict)  # for keys above the first card
    count_key: str = ""  # the key whose value is the number of cards
    ignored_suffix: re.Pattern[str] | None = None  # removed from the end of keys, for example a sensor's number
    address_keys: tuple[Key, ...] = ()  # domain, bus, device and function, if the address is printed in parts


def is_card_heading(line: Line, shape: CardListShape) -> bool:
    """Return whether a line is the heading of a card."""
    return line.ended and shape.card_heading.match(line.text.strip()) is not None


def read_list(lines: Sequence[Line], shape: CardListShape, draft: Draft) -> None:
    """Add the listed cards to the draft. Report a truncated list."""
    *earlier_cards_sections, last_card_sections = _read_cards(lines, shape, draft) or [()]
    final_sections = {sections[-1] for sections in earlier_cards_sections if sections}
    if len(final_sections) == 1 and not final_sections & {*last_card_sections}:
        draft.is_cut = True
        problem = f"the list is cut off, because the last card has no {quote(final_sections.pop())}"
        draft.add_problem(lines[-1].where, problem)


def _read_cards(lines: Sequence[Line], shape: CardListShape, draft: Draft) -> list[tuple[str, ...]]:
    """Add the cards to the draft. Return the section names of each card."""
    state = _ScanState(draft, shape)
    for line in lines:
        _read_line(state, line)
    _end_card(state)
    for position, part_by_key in state.address_parts.items():
        if len(part_by_key) == len(shape.address_keys):
            domain, bus, slot, function = (part_by_key[key] for key in shape.address_keys)
            draft.store(position, (identity("bus_id"),), f"{domain}:{bus}:{slot}.{function}", "PCI address")
    if state.printed_count is not None and state.printed_count != draft.device_count():
        draft.add_problem("text", wrong_count(state.printed_count, draft.device_count()))
    return state.sections_by_card


@dataclass(slots=True)
class _ScanState:
    draft: Draft
    shape: CardListShape
    device: int | None = None
    section: str = ""
    printed_count: int | None = None
    address_parts: dict[int, dict[Key, str]] = field(default_factory=dict)
    card_keys: dict[Key, None] = field(default_factory=dict)  # the keys of the current card that were read so far
    sections_by_card: list[tuple[str, ...]] = field(default_factory=list)
    is_heading_missing: bool = False  # a key was repeated, because the next card's heading is missing


def _read_line(state: _ScanState, line: Line) -> None:
    text = line.text.strip()[:_MAX_LINE_LENGTH]
    heading = state.shape.card_heading.match(text) if line.ended else None
    if heading is not None:
        _end_card(state)
        state.device, state.section = _add_card(state.draft, state.shape, heading, line), ""
    elif not text or _FRAME_CHARACTERS.issuperset(text) or text in ("...", "……"):
        return
    elif line.ended:
        _read_complete_line(state, text, line)
    elif not text.lower().startswith("end of log"):
        state.draft.is_cut = True
        state.draft.add_problem(line.where, CUT_LINE)


def _read_complete_line(state: _ScanState, text: str, line: Line) -> None:
    key_and_value = _SEPARATOR.split(text, maxsplit=1)
    if state.device is None:
        state.printed_count = _read_header_line(state.draft, state.shape, key_and_value) or state.printed_count
    elif len(key_and_value) == 1:
        state.section = _section_at(state.draft, state.shape, text, state.section)
    elif not key_and_value[0].strip():
        state.draft.add_problem(line.where, value_without_key(text))
    else:
        key = (state.section, _normalize_key(key_and_value[0], state.shape))
        _detect_missing_heading(state, key, line)
        if not state.is_heading_missing:
            _read_value(state, state.device, key, key_and_value[1], line)


def _detect_missing_heading(state: _ScanState, key: Key, line: Line) -> None:
    """Report a missing card heading, which is detected by a repeated key such as `UUID`."""
    targets = state.shape.targets_by_key.get(key, ())
    is_identity = key in state.shape.address_keys or any(target.kind == "identity" for target in targets)
    if is_identity and key in state.card_keys and not state.is_heading_missing:
        state.is_heading_missing = True
        text = f"{quote(key[1])} is repeated, because the next card's heading is missing; the lines below are not read"
        state.draft.add_problem(line.where, text)


def _read_value(state: _ScanState, device: int, key: Key, text: str, line: Line) -> None:
    state.card_keys[key] = None
    if key in state.shape.address_keys:
        state.address_parts.setdefault(device, {})[key] = text.strip()
    else:
        _store_value(state.draft, device, state.shape, key, text, line)


def _end_card(state: _ScanState) -> None:
    """Save the section names of the current card. A key outside a section counts as a section."""
    if state.device is not None:
        state.sections_by_card.append(tuple(dict.fromkeys(section or name for section, name in state.card_keys)))
    state.card_keys, state.is_heading_missing = {}, False


def _add_card(draft: Draft, shape: CardListShape, heading: re.Match[str], line: Line) -> int:
    texts = heading.groups()
    indices = (int(text) for text, target in zip(texts, shape.card_targets, strict=False) if target.key == "index")
    key = next(indices, texts[0])
    if draft.has_device(key):
        draft.add_problem(line.where, listed_twice(f"card {key}"))
    device = draft.device(key)
    for text, target in zip(texts, shape.card_targets, strict=False):
        draft.store(device, (target,), text or "", line.where)
    return device


def _read_header_line(draft: Draft, shape: CardListShape, key_and_value: Sequence[str]) -> int | None:
    """Read a line above the first card. Return the number of cards if the line states it."""
    if len(key_and_value) == 1:
        return None
    name, text = _normalize_key(key_and_value[0], shape), key_and_value[1].strip()
    if name == shape.count_key:
        return units.integer(text)
    fact = shape.fact_by_header_key.get(name)
    if fact is not None and units.placeholder(text) is None:
        if fact == "driver":
            draft.driver = text
        elif fact == "tool_version":
            draft.tool_version = text
        else:
            draft.facts[fact] = text
    return None


def _section_at(draft: Draft, shape: CardListShape, text: str, previous_section: str) -> str:
    """Return the section that a line without a value begins or continues. Report an unknown section."""
    section = _normalize_key(text, shape)
    known_sections = {name for name, _ in (*shape.targets_by_key, *shape.ignored)} | shape.ignored_sections
    if section in known_sections:
        return section
    if previous_section in shape.ignored_sections and _DIGIT.search(text):
        return previous_section
    if len(text) <= 60 and text[0].isalpha() and "log" not in section.split():
        draft.add_unknown(text)
    return section


def _store_value(draft: Draft, device: int, shape: CardListShape, key: Key, text: str, line: Line) -> None:
    section, name = key
    targets = shape.targets_by_key.get(key) or shape.targets_by_key.get(("*", name))
    if targets is not None:
        draft.store(device, targets, text, line.where)
    elif name.endswith("error") and units.integer(text) is None and units.placeholder(text) is None:
        draft.add_problem(line.where, f"{quote(name)}: {quote(text)}")
    elif section not in shape.ignored_sections and key not in shape.ignored and ("*", name) not in shape.ignored:
        draft.add_unknown(f"{section}/{name}".removeprefix("/"))


def _normalize_key(name: str, shape: CardListShape) -> str:
    normalized = " ".join(name.lower().split())
    return shape.ignored_suffix.sub("", normalized) if shape.ignored_suffix else normalized


_TAG = re.compile(r"<(/?)([a-z_][a-z0-9_]{0,60})(?: id=\"([^\"<>]{1,40})\")?>([^<]{0,200})")
# An empty XML element is read like an element with this text.
_EMPTY_ELEMENT_TEXT = "none"
_MAX_TAGS = 2 * MAX_LINES


@dataclass(frozen=True, slots=True)
class _Tag:
    is_closing: bool
    name: str
    address: str  # the bus address in the `id` of a card's tag
    text: str
    line: Line


def xml_log(shape: CardListShape) -> Shape:
    """Return a shape for an XML log whose tags are the headings, sections and keys of `shape`."""

    def read(text: ToolText, draft: Draft) -> bool:
        lines, open_elements = _lines_from_xml(text.lines)
        if not any(is_card_heading(line, shape) for line in lines):
            return False
        _read_cards(lines, shape, draft)
        if open_elements:
            draft.is_cut = True
            problem = f"the document ends before </{quote(open_elements[-1])}>; more cards may be missing"
            draft.add_problem(text.lines[-1].where, problem)
        return True

    return Shape(read, tables=(shape,))


def _lines_from_xml(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Convert XML to headings and `key : value` lines. Also return the unclosed elements."""
    tags = list(islice((tag for line in lines for tag in _tags_in(line)), _MAX_TAGS + 1))
    if len(tags) > _MAX_TAGS:
        return [], []
    list_lines: list[Line] = []
    open_elements: list[str] = []
    is_value_read = False
    for tag, next_tag in zip(tags, [*tags[1:], None], strict=False):
        if is_value_read:
            is_value_read = False  # this tag closes the element whose value was just read
        elif tag.is_closing:
            list_lines.extend(_close_element(tag, open_elements))
        elif next_tag is not None and next_tag.is_closing and next_tag.name == tag.name:
            list_lines.append(replace(tag.line, text=f"{tag.name} : {tag.text or _EMPTY_ELEMENT_TEXT}"))
            is_value_read = True
        elif tag.text:
            list_lines.append(replace(tag.line, ended=False))  # the closing tag is missing
        else:
            open_elements.append(tag.name)
            list_lines.extend(replace(tag.line, text=text) for text in (f"{tag.name} {tag.address}".strip(), tag.name))
    return list_lines, open_elements


def _close_element(tag: _Tag, open_elements: list[str]) -> list[Line]:
    """Remove the closed element. Return the heading of the enclosing section, which continues below."""
    if open_elements[-1:] != [tag.name]:
        return []
    open_elements.pop()
    return [replace(tag.line, text=name) for name in open_elements[-1:]]


def _tags_in(line: Line) -> Iterator[_Tag]:
    for match in _TAG.finditer(line.text):
        yield _Tag(bool(match[1]), match[2], match[3] or "", match[4].strip(), line)
