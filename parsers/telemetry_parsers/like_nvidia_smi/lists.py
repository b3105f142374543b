"""Lists of `key : value` below a heading for each card, and XML with the same content. Indentation is ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, identity
from telemetry_parsers.reports.tool import Shape, Text
from telemetry_parsers.text.answers import CUT_LINE, listed_twice, value_without_key, wrong_count
from telemetry_parsers.text.lines import MAX_LINES, Line, quote

Key = tuple[str, str]
_SEPARATOR = re.compile(r"[ \t]{0,120}:(?:[ \t]|\Z)")
_DIGIT = re.compile(r"[0-9]")
_LONGEST = 400
_FRAME = frozenset("-=*+ \t")


@dataclass(frozen=True, slots=True)
class CardList:
    """The format of one tool's list of `key : value`."""

    card: re.Pattern[str]  # the heading of a card
    card_targets: tuple[Target, ...]  # what the groups of `card` are, such as the index
    keys: Mapping[Key, tuple[Target, ...]]  # by section and key in lower case
    quiet: frozenset[Key] = frozenset()  # known keys without a metric
    quiet_sections: frozenset[str] = frozenset()
    header: Mapping[str, str] = field(default_factory=dict)  # keys above the cards, and the facts that they become
    count: str = ""  # the key of the number of cards
    suffix: re.Pattern[str] | None = None  # a suffix to remove from keys, such as the number of the hottest sensor
    address: tuple[Key, ...] = ()  # the keys of domain, bus, device and function, if the address is printed in parts


def is_card(line: Line, shape: CardList) -> bool:
    """Return whether a line is the heading of a card."""
    return line.ended and shape.card.match(line.text.strip()) is not None


def read_list(lines: Sequence[Line], shape: CardList, draft: Draft) -> None:
    """Read a list into the draft. Report the last card as truncated if it lacks the last section of the other cards."""
    *earlier_cards, last_card = _read_cards(lines, shape, draft) or [()]
    last_sections = {sections[-1] for sections in earlier_cards if sections}
    if earlier_cards and len(last_sections) == 1 and not last_sections & {*last_card}:
        draft.is_cut = True
        problem = f"the last card has no {quote(last_sections.pop())}: the list is cut off, and cards may be missing"
        draft.complain(lines[-1].where, problem)


def _read_cards(lines: Sequence[Line], shape: CardList, draft: Draft) -> list[tuple[str, ...]]:
    """Read the list into the draft. Return for each card the names of its sections or, if it has none, of its keys."""
    scan = _Scan(draft, shape)
    for line in lines:
        _read_line(scan, line)
    _end_card(scan)
    for position, address in scan.addresses.items():
        if len(address) == len(shape.address):
            domain, bus, slot, function = (address[key] for key in shape.address)
            draft.store(position, (identity("bus_id"),), f"{domain}:{bus}:{slot}.{function}", "PCI address")
    if scan.card_count is not None and scan.card_count != draft.device_count():
        draft.complain("text", wrong_count(scan.card_count, draft.device_count()))
    return scan.sections_by_card


@dataclass(slots=True)
class _Scan:
    """The parser's state, carried from one line to the next."""

    draft: Draft
    shape: CardList
    device: int | None = None
    section: str = ""
    card_count: int | None = None
    addresses: dict[int, dict[Key, str]] = field(default_factory=dict)
    card_keys: dict[Key, None] = field(default_factory=dict)  # the keys of the card so far
    sections_by_card: list[tuple[str, ...]] = field(default_factory=list)
    is_mixed: bool = False  # the heading of the next card is missing


def _read_line(scan: _Scan, line: Line) -> None:
    text = line.text.strip()[:_LONGEST]
    card = scan.shape.card.match(text) if line.ended else None
    if card is not None:
        _end_card(scan)
        scan.device, scan.section = _add_card(scan.draft, scan.shape, card, line), ""
    elif not text or _FRAME.issuperset(text) or text in ("...", "……"):
        return
    elif line.ended:
        _read_text(scan, text, line)
    elif not text.lower().startswith("end of log"):
        scan.draft.is_cut = True
        scan.draft.complain(line.where, CUT_LINE)


def _read_text(scan: _Scan, text: str, line: Line) -> None:
    parts = _SEPARATOR.split(text, maxsplit=1)
    if scan.device is None:
        scan.card_count = _read_header(scan.draft, scan.shape, parts) or scan.card_count
    elif len(parts) == 1:
        scan.section = _section_at(scan.draft, scan.shape, text, scan.section)
    elif not parts[0].strip():
        scan.draft.complain(line.where, value_without_key(text))
    elif not _is_of_next_card(scan, key := (scan.section, _plain_key(parts[0], scan.shape)), line):
        scan.card_keys[key] = None
        if key in scan.shape.address:
            scan.addresses.setdefault(scan.device, {})[key] = parts[1].strip()
        else:
            _read_value(scan.draft, scan.device, scan.shape, key, parts[1], line)


def _is_of_next_card(scan: _Scan, key: Key, line: Line) -> bool:
    """Return whether a line belongs to the next card, whose heading is missing: a key of the identity is repeated."""
    is_identity = key in scan.shape.address or any(target.kind == "identity" for target in scan.shape.keys.get(key, ()))
    if is_identity and key in scan.card_keys and not scan.is_mixed:
        scan.is_mixed = True
        text = f"{quote(key[1])} is repeated: the heading of the next card is missing, and the lines below are not read"
        scan.draft.complain(line.where, text)
    return scan.is_mixed


def _end_card(scan: _Scan) -> None:
    if scan.device is not None:
        scan.sections_by_card.append(tuple(dict.fromkeys(section or name for section, name in scan.card_keys)))
    scan.card_keys, scan.is_mixed = {}, False


def _add_card(draft: Draft, shape: CardList, card: re.Match[str], line: Line) -> int | None:
    """Add the card in a heading to the draft, and return its position. Report a card that is listed twice."""
    texts = card.groups()
    indices = (int(text) for text, target in zip(texts, shape.card_targets, strict=False) if target.key == "index")
    key = next(indices, texts[0])
    if draft.has(key):
        draft.complain(line.where, listed_twice(f"card {key}"))
    device = draft.device(key)
    for text, target in zip(texts, shape.card_targets, strict=False):
        draft.store(device, (target,), text or "", line.where)
    return device


def _read_header(draft: Draft, shape: CardList, parts: Sequence[str]) -> int | None:
    """Read a line above the cards. Return the number of cards if the line contains it, else None."""
    if len(parts) == 1:
        return None
    name, text = _plain_key(parts[0], shape), parts[1].strip()
    if name == shape.count:
        return units.whole(text)
    fact = shape.header.get(name)
    if fact is not None and units.placeholder(text) is None:
        if fact == "driver":
            draft.driver = text
        elif fact == "tool_version":
            draft.tool_version = text
        else:
            draft.facts[fact] = text
    return None


def _section_at(draft: Draft, shape: CardList, text: str, previous: str) -> str:
    """Return the section that starts at this line. Report an unknown heading. Rows of tables are not headings."""
    section = _plain_key(text, shape)
    sections = {name for name, _ in (*shape.keys, *shape.quiet)} | shape.quiet_sections
    if section in sections:
        return section
    if previous in shape.quiet_sections and _DIGIT.search(text):
        return previous
    if len(text) <= 60 and text[0].isalpha() and "log" not in section.split():
        draft.add_unknown(text)
    return section


def _read_value(draft: Draft, device: int, shape: CardList, key: Key, text: str, line: Line) -> None:
    section, name = key
    targets = shape.keys.get(key) or shape.keys.get(("*", name))
    if targets is not None:
        draft.store(device, targets, text, line.where)
    elif name.endswith("error") and units.whole(text) is None and units.placeholder(text) is None:
        draft.complain(line.where, f"{quote(name)}: {quote(text)}")
    elif section not in shape.quiet_sections and key not in shape.quiet and ("*", name) not in shape.quiet:
        draft.add_unknown(f"{section}/{name}".removeprefix("/"))


def _plain_key(name: str, shape: CardList) -> str:
    bare = " ".join(name.lower().split())
    return shape.suffix.sub("", bare) if shape.suffix else bare


_TAG = re.compile(r"<(/?)([a-z_][a-z0-9_]{0,60})(?: id=\"([^\"<>]{1,40})\")?>([^<]{0,200})")
# The text that is read for an empty element.
_EMPTY = "none"
# A card has about 150 tags. No tool prints a text with more tags than this.
_MAX_TAGS = 2 * MAX_LINES


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag and the text after it. A card's tag contains its bus address."""

    is_closing: bool
    name: str
    address: str
    text: str
    line: Line


def xml_log(shape: CardList) -> Shape:
    """Return the shape of an XML log. Its elements are cards, and the sections and keys that `shape` describes."""

    def read(text: Text, draft: Draft) -> bool:
        lines, open_elements = _lines_of_xml(text.lines)
        if not any(is_card(line, shape) for line in lines):
            return False
        _read_cards(lines, shape, draft)
        if open_elements:
            draft.is_cut = True
            problem = f"the document ends before </{quote(open_elements[-1])}>; more cards may be missing"
            draft.complain(text.lines[-1].where, problem)
        return True

    return Shape(read, tables=(shape,))


def _lines_of_xml(lines: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Convert XML to lines `key : value` below section headings. Also return the names of unclosed elements."""
    tags = list(islice((tag for line in lines for tag in _tags(line)), _MAX_TAGS + 1))
    if len(tags) > _MAX_TAGS:
        return [], []
    result: list[Line] = []
    open_elements: list[str] = []
    is_value_read = False
    for tag, next_tag in zip(tags, [*tags[1:], None], strict=False):
        if is_value_read:
            is_value_read = False  # this tag closes the element whose value was just read
        elif tag.is_closing:
            result.extend(_close(tag, open_elements))
        elif next_tag is not None and next_tag.is_closing and next_tag.name == tag.name:
            result.append(replace(tag.line, text=f"{tag.name} : {tag.text or _EMPTY}"))
            is_value_read = True
        elif tag.text:
            result.append(replace(tag.line, ended=False))
        else:
            open_elements.append(tag.name)
            result.extend(replace(tag.line, text=text) for text in (f"{tag.name} {tag.address}".strip(), tag.name))
    return result, open_elements


def _close(tag: _Tag, open_elements: list[str]) -> list[Line]:
    """Close an element. Return a line with the name of the enclosing section, which continues below it."""
    if open_elements[-1:] != [tag.name]:
        return []
    open_elements.pop()
    return [replace(tag.line, text=name) for name in open_elements[-1:]]


def _tags(line: Line) -> Iterator[_Tag]:
    for match in _TAG.finditer(line.text):
        yield _Tag(bool(match[1]), match[2], match[3] or "", match[4].strip(), line)
