"""The answers of `mthreads-gmi -q`, as indented text and as JSON, with the same sections and keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Plain, Value
from telemetry_parsers.reports.draft import Draft, problem_by_text
from telemetry_parsers.reports.tool import Text
from telemetry_parsers.text.answers import CUT_LINE, broken_document, listed_twice, value_without_key, wrong_count
from telemetry_parsers.text.documents import find_documents
from telemetry_parsers.text.lines import Line, bus_address, quote
from telemetry_parsers.vendors.moorethreads.keys import (
    CARD_KEYS,
    FACTS,
    FAN_COUNT,
    FAN_SECTION,
    FANS,
    FIELDS,
    INSTEAD,
    QUIET,
    QUIET_SECTIONS,
    SECTIONS,
    VENDOR,
    Key,
)

_CARD = re.compile(r"GPU([0-9]{1,4})[ \t]{1,8}([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\Z")
_MARKS = ('"Attached GPUs"', '"MTBios Version"')
_DEEPEST = 8
_COUNT = "attached gpus"
_HEAD = ("driver version", _COUNT)
_HEADING: frozenset[Key] = frozenset({("", "index"), ("pci", "bus id")})
_FIRST, _LAST = ("", "product name"), ("", "performance state")
_READ_SOMEWHERE = frozenset(name for section, name in FIELDS if section)


@dataclass(slots=True)
class _Card:
    """A card's keys and values as printed, in order; `where` names it in problems."""

    where: str
    values: list[tuple[Key, str]] = field(default_factory=list)

    def first(self, *keys: Key) -> str | None:
        """Return the value of the first of these keys that has one, or None if all are blank or placeholders."""
        texts = dict(reversed(self.values))
        return next((text for key in keys if (text := units.text_or_none(texts.get(key))) is not None), None)


@dataclass(slots=True)
class _Query:
    """The answers in a text before they are read: their number, their heads and their cards."""

    draft: Draft
    answers: int = 1
    head: dict[str, str] = field(default_factory=dict)
    cards: list[_Card] = field(default_factory=list)


def is_card(line: Line) -> bool:
    """Return whether a line is the heading of a card in the indented text of `-q`: `GPU0 00000000:01:00.0`."""
    return line.ended and _CARD.match(line.text.strip()) is not None


def read_list(lines: Sequence[Line], draft: Draft) -> None:
    """Put the cards of the text of `-q` into the draft; the section of a key is the last one named, as indentation may be lost."""
    query = _Query(draft)
    section = ""
    for line in lines:
        text = line.text.strip()
        card = _CARD.match(text) if line.ended else None
        if card is not None:
            query.cards.append(_Card(f"GPU{card[1]}", [(("", "index"), card[1]), (("pci", "bus id"), card[2])]))
            section = ""
        elif not line.ended:
            draft.complain(line.where, CUT_LINE)
        elif ":" in text:
            _take_line(query, section, line)
        elif text and query.cards:
            section = _plain(text)
            draft.add_unknown(*([] if section in SECTIONS else [text]))
    cards = _read_cards(query)
    for card_read in cards:
        _check_end(card_read, draft)
    _check_count(query, len(cards))


def _take_line(query: _Query, section: str, line: Line) -> None:
    name, _, value = line.text.partition(":")
    key = _plain(name)
    if key.startswith(("error", "failed", "warning")):
        query.draft.complain(line.where, quote(line.text))
    elif not key:
        query.draft.complain(line.where, value_without_key(line.text))
    elif not query.cards or key in _HEAD:
        query.answers += key == _COUNT and key in query.head
        query.head[key] = value.strip()
    else:
        query.cards[-1].values.append((("" if key in CARD_KEYS else section, key), value.strip()))


def read_json(text: Text, draft: Draft) -> bool:
    """Put the cards of the answers of `-q --json`, one behind the other, into the draft; False where there is none."""
    query = _Query(draft, answers=0)
    joined = text.joined
    json = find_documents(joined)
    taken = [document for document in json.documents if not document.fault and _take_document(query, document.value)]
    is_broken = bool(json.fault) and (bool(taken) or any(mark in joined for mark in _MARKS))
    draft.problems += json.problems(taken) if taken else []
    if is_broken:
        draft.complain("JSON", broken_document(json.fault))
    _check_count(query, len(_read_cards(query)))
    return bool(taken) or is_broken


def _take_document(query: _Query, document: Plain) -> bool:
    """Read the cards of a document, if it is an answer."""
    cards = document.get("GPU") if isinstance(document, dict) else None
    if not isinstance(cards, list) or not all(isinstance(card, dict) for card in cards):
        return False
    head = {_plain(name): value for name, value in document.items() if isinstance(value, str)}
    if not any(key in head for key in _HEAD):
        return False
    query.answers += 1
    query.head.update(head)
    for position, card in enumerate(cards):
        query.cards.append(_Card(f"GPU {position}"))
        _flatten(query, card, "", _DEEPEST)
    return True


def _flatten(query: _Query, values: dict[str, Plain], section: str, depth: int) -> None:
    for name, value in values.items():
        key = _plain(name)
        if isinstance(value, dict) and depth:
            _flatten(query, value, key, depth - 1)
        elif value is None or isinstance(value, str):
            query.cards[-1].values.append(((section, key), value or ""))
        else:
            query.draft.add_unknown(_field_name(section, key))


def _read_cards(query: _Query) -> list[_Card]:
    """Put each card into the draft once. Return the cards."""
    draft, cards = query.draft, _together(query)
    draft.wording = problem_by_text
    draft.driver = units.text_or_none(query.head.get("driver version"))
    for position, card in enumerate(cards):
        _read_card(draft, draft.device(position, _device(card)), card)
    return cards


def _check_count(query: _Query, cards: int) -> None:
    """Report a count of cards that differs from their number. Each of several answers about single cards counts one."""
    attached = units.whole(query.head.get(_COUNT, ""))
    if attached is not None and attached != cards and (query.answers == 1 or attached > cards):
        query.draft.is_open = True
        query.draft.complain("Attached GPUs", wrong_count(attached, cards))


def _together(query: _Query) -> list[_Card]:
    """Return each card once, with the additions of later answers. If a key has two texts, the first counts."""
    cards: dict[Device, _Card] = {}
    by_index: dict[int | None, Device] = {}
    for card in query.cards:
        identity = replace(_device(card), facts=())
        other = by_index.setdefault(identity.index, identity)
        bare = Device(VENDOR, identity.index)  # `-d POWER` prints nothing else that names the card
        is_same = identity.index is not None and bare in (identity, other)
        first = cards.setdefault(other if is_same else identity, card)
        if first is not card:
            _add(query, first, card, is_known=identity != Device(VENDOR))
    return list(cards.values())


def _add(query: _Query, first: _Card, card: _Card, *, is_known: bool) -> None:
    """Add what the first answer about a card lacks; an answer without a name may be about another card."""
    keys = {key for key, _ in first.values}
    if not is_known or any(key in keys and (key in FIELDS or key[0] == FAN_SECTION) for key, _ in card.values):
        query.draft.complain(card.where, listed_twice("the card"))
    if is_known:
        first.values.extend((key, text) for key, text in card.values if key not in keys)


def _device(card: _Card) -> Device:
    return Device(
        vendor=VENDOR,
        index=units.whole(card.first(("", "index")) or ""),
        model=card.first(("", "product name")),
        uuid=card.first(("", "gpu uuid")),
        bus_id=bus_address(card.first(("pci", "bus id"), ("pci", "pci/bus id")) or ""),
        serial=card.first(("", "serial number")),
        facts=tuple((name, text) for name, key in FACTS if (text := card.first(key)) is not None),
    )


def _check_end(card: _Card, draft: Draft) -> None:
    """Report a truncated card. The performance state is below all sections of a whole card; `-d` prints single sections."""
    keys = {key for key, _ in card.values}
    if keys <= _HEADING or ((_FIRST in keys) and (_LAST not in keys)):
        draft.complain(card.where, f"the card is cut off: it has no {_LAST[1]}")


def _read_card(draft: Draft, device: int, card: _Card) -> None:
    """Read a card's keys. If a key is repeated in a section, the heading between the two is lost."""
    printed: dict[Key, str] = {}
    for key, text in card.values:
        if key in printed and key in FIELDS:
            problem = (
                f"{key[1]} is printed twice; the first value is kept: the heading of a section between them is lost"
            )
            draft.complain(card.where, problem)
        printed.setdefault(key, text)
    for key, text in printed.items():
        target = FIELDS.get(key)
        if target is not None and INSTEAD.get(key) not in printed:
            draft.store(device, (target,), text, f"{card.where} {key[1]}")
        elif target is None and not _is_fan(key):
            _name_unknown(card, draft, key)
    fans = {f"{card.where} {key[1]}": text for key, text in printed.items() if _is_fan(key)}
    _give_fastest(draft, device, fans, units.whole(printed.get(FAN_COUNT, "")))


def _name_unknown(card: _Card, draft: Draft, key: Key) -> None:
    """Report an unknown key. Keys of other sections cannot be in a quiet section."""
    section, name = key
    if section in QUIET_SECTIONS and name in _READ_SOMEWHERE:
        draft.complain(card.where, f"{name} stands below {section}: the heading of its section is lost")
    elif section not in QUIET_SECTIONS and key not in QUIET:
        draft.add_unknown(_field_name(section, name))


def _is_fan(key: Key) -> bool:
    return key[0] == FAN_SECTION and key[1].startswith("fan")


def _give_fastest(draft: Draft, device: int, fans: Mapping[str, str], count: int | None) -> None:
    """Store the fastest fan, if as many fans are printed as the card has. The fastest of a part may not be the fastest."""
    if not fans and not count:
        return
    values = [_speed(draft, device, text, where) for where, text in fans.items()]
    speeds = [value for value in values if not isinstance(value, Absent)]
    gaps = [value for value in values if isinstance(value, Absent)] or [Absent.NOT_REPORTED]
    draft.set_value(device, FANS, max(speeds) if len(speeds) == len(fans) == count else gaps[0])


def _speed(draft: Draft, device: int, text: str, where: str) -> Value:
    value = draft.value_in(FANS, text)
    item = reading(device, FANS.key, Absent.NOT_UNDERSTOOD if value is None else value)
    draft.complain_if_bad(item, text, where)
    return item.value


def _field_name(section: str, key: str) -> str:
    """Return the name of an unknown key."""
    return quote(f"{section}/{key or '(blank)'}".removeprefix("/"))


def _plain(name: str) -> str:
    """Return a key or section in lower case with single blanks. One key is printed with a blank at its end."""
    return " ".join(name.lower().split())
