"""The output of `mthreads-gmi -q`, as indented text and as JSON, with the same sections and keys."""

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
    QUIET,
    QUIET_SECTIONS,
    SECTIONS,
    SUPERSEDED_BY,
    VENDOR,
    Key,
)

_CARD = re.compile(r"GPU([0-9]{1,4})[ \t]{1,8}([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\Z")
_MARKS = ('"Attached GPUs"', '"MTBios Version"')
_DEEPEST = 8
_COUNT = "attached gpus"
_HEADER_KEYS = ("driver version", _COUNT)
_HEADING: frozenset[Key] = frozenset({("", "index"), ("pci", "bus id")})
_FIRST, _LAST = ("", "product name"), ("", "performance state")
_READ_NAMES = frozenset(name for section, name in FIELDS if section)


@dataclass(slots=True)
class _Card:
    """The printed keys and values of a card. `where` is the card's name in problems."""

    where: str
    values: list[tuple[Key, str]] = field(default_factory=list)

    def first_text(self, *keys: Key) -> str | None:
        """Return the first value of these keys that is not blank or a placeholder, or None."""
        texts = dict(reversed(self.values))
        return next((text for key in keys if (text := units.text_or_none(texts.get(key))) is not None), None)


@dataclass(slots=True)
class _Query:
    """The combined answers in a text: the number of answers, the keys outside of cards, and the cards."""

    draft: Draft
    answers: int = 1
    header: dict[str, str] = field(default_factory=dict)
    cards: list[_Card] = field(default_factory=list)


def is_card_heading(line: Line) -> bool:
    """Return whether a line is the heading of a card in the indented text of `-q`: `GPU0 00000000:01:00.0`."""
    return line.ended and _CARD.match(line.text.strip()) is not None


def read_list(lines: Sequence[Line], draft: Draft) -> None:
    """Add the cards of the indented text to the draft. The indentation may be lost and is ignored."""
    query = _Query(draft)
    section = ""
    for line in lines:
        text = line.text.strip()
        match = _CARD.match(text) if line.ended else None
        if match is not None:
            query.cards.append(_Card(f"GPU{match[1]}", [(("", "index"), match[1]), (("pci", "bus id"), match[2])]))
            section = ""
        elif not line.ended:
            draft.complain(line.where, CUT_LINE)
        elif ":" in text:
            _read_line(query, section, line)
        elif text and query.cards:
            section = _plain(text)
            draft.add_unknown(*([] if section in SECTIONS else [text]))
    cards = _read_cards(query)
    for card in cards:
        _check_end(card, draft)
    _check_count(query, len(cards))


def _read_line(query: _Query, section: str, line: Line) -> None:
    name, _, value = line.text.partition(":")
    key = _plain(name)
    if key.startswith(("error", "failed", "warning")):
        query.draft.complain(line.where, quote(line.text))
    elif not key:
        query.draft.complain(line.where, value_without_key(line.text))
    elif not query.cards or key in _HEADER_KEYS:
        query.answers += key == _COUNT and key in query.header
        query.header[key] = value.strip()
    else:
        query.cards[-1].values.append((("" if key in CARD_KEYS else section, key), value.strip()))


def read_json(text: Text, draft: Draft) -> bool:
    """Add the cards of all documents of `-q --json` to the draft. Return False if there is no document."""
    query = _Query(draft, answers=0)
    joined = text.joined
    json = find_documents(joined)
    answers = [document for document in json.documents if not document.fault and _read_document(query, document.value)]
    is_broken = bool(json.fault) and (bool(answers) or any(mark in joined for mark in _MARKS))
    draft.problems += json.problems(answers) if answers else []
    if is_broken:
        draft.complain("JSON", broken_document(json.fault))
    _check_count(query, len(_read_cards(query)))
    return bool(answers) or is_broken


def _read_document(query: _Query, document: Plain) -> bool:
    """Read the cards of a document. Return False if the document is not output of this tool."""
    cards = document.get("GPU") if isinstance(document, dict) else None
    if not isinstance(cards, list) or not all(isinstance(card, dict) for card in cards):
        return False
    header = {_plain(name): value for name, value in document.items() if isinstance(value, str)}
    if not any(key in header for key in _HEADER_KEYS):
        return False
    query.answers += 1
    query.header.update(header)
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
    """Add each card to the draft once. Return the cards."""
    draft, cards = query.draft, _merged_cards(query)
    draft.wording = problem_by_text
    draft.driver = units.text_or_none(query.header.get("driver version"))
    for position, card in enumerate(cards):
        _read_card(draft, draft.device(position, _device(card)), card)
    return cards


def _check_count(query: _Query, cards: int) -> None:
    """Report a printed count that differs from the number of cards. With several answers, it may be lower."""
    attached = units.whole(query.header.get(_COUNT, ""))
    if attached is not None and attached != cards and (query.answers == 1 or attached > cards):
        query.draft.is_open = True
        query.draft.complain("Attached GPUs", wrong_count(attached, cards))


def _merged_cards(query: _Query) -> list[_Card]:
    """Return each card once. Keys that only a later answer about the card contains are added."""
    cards: dict[Device, _Card] = {}
    by_index: dict[int | None, Device] = {}
    for card in query.cards:
        identity = replace(_device(card), facts=())
        previous = by_index.setdefault(identity.index, identity)
        with_index_only = Device(VENDOR, identity.index)  # `-d POWER` prints only the index of the card
        is_same = identity.index is not None and with_index_only in (identity, previous)
        first_answer = cards.setdefault(previous if is_same else identity, card)
        if first_answer is not card:
            _add_keys(query, first_answer, card, is_known=identity != Device(VENDOR))
    return list(cards.values())


def _add_keys(query: _Query, first_answer: _Card, card: _Card, *, is_known: bool) -> None:
    """Add the keys that the first answer about the card lacks. Report a repeated key: it may be another card's."""
    keys = {key for key, _ in first_answer.values}
    if not is_known or any(key in keys and (key in FIELDS or key[0] == FAN_SECTION) for key, _ in card.values):
        query.draft.complain(card.where, listed_twice("the card"))
    if is_known:
        first_answer.values.extend((key, text) for key, text in card.values if key not in keys)


def _device(card: _Card) -> Device:
    return Device(
        vendor=VENDOR,
        index=units.whole(card.first_text(("", "index")) or ""),
        model=card.first_text(("", "product name")),
        uuid=card.first_text(("", "gpu uuid")),
        bus_id=bus_address(card.first_text(("pci", "bus id"), ("pci", "pci/bus id")) or ""),
        serial=card.first_text(("", "serial number")),
        facts=tuple((name, text) for name, key in FACTS if (text := card.first_text(key)) is not None),
    )


def _check_end(card: _Card, draft: Draft) -> None:
    """Report a card that lacks its last key, the performance state. Output of `-d` is not checked."""
    keys = {key for key, _ in card.values}
    if keys <= _HEADING or ((_FIRST in keys) and (_LAST not in keys)):
        draft.complain(card.where, f"the card is cut off: it has no {_LAST[1]}")


def _read_card(draft: Draft, device: int, card: _Card) -> None:
    """Read the keys of a card. A repeated key shows that the heading of its section is missing."""
    text_by_key: dict[Key, str] = {}
    for key, text in card.values:
        if key in text_by_key and key in FIELDS:
            problem = f"{key[1]} is repeated; the first value is kept, because the heading of a section is missing"
            draft.complain(card.where, problem)
        text_by_key.setdefault(key, text)
    for key, text in text_by_key.items():
        target = FIELDS.get(key)
        if target is not None and SUPERSEDED_BY.get(key) not in text_by_key:
            draft.store(device, (target,), text, f"{card.where} {key[1]}")
        elif target is None and not _is_fan(key):
            _report_unknown(card, draft, key)
    fans = {f"{card.where} {key[1]}": text for key, text in text_by_key.items() if _is_fan(key)}
    _store_fastest(draft, device, fans, units.whole(text_by_key.get(FAN_COUNT, "")))


def _report_unknown(card: _Card, draft: Draft, key: Key) -> None:
    """Report an unknown key. Also report a key of another section in a section that is otherwise ignored."""
    section, name = key
    if section in QUIET_SECTIONS and name in _READ_NAMES:
        draft.complain(card.where, f"{name} is printed below {section}: the heading of its section is missing")
    elif section not in QUIET_SECTIONS and key not in QUIET:
        draft.add_unknown(_field_name(section, name))


def _is_fan(key: Key) -> bool:
    return key[0] == FAN_SECTION and key[1].startswith("fan")


def _store_fastest(draft: Draft, device: int, fans: Mapping[str, str], count: int | None) -> None:
    """Store the speed of the fastest fan. It is absent if not all fans of the card are printed."""
    if not fans and not count:
        return
    values = [_speed(draft, device, text, where) for where, text in fans.items()]
    speeds = [value for value in values if not isinstance(value, Absent)]
    absences = [value for value in values if isinstance(value, Absent)] or [Absent.NOT_REPORTED]
    draft.set_value(device, FANS, max(speeds) if len(speeds) == len(fans) == count else absences[0])


def _speed(draft: Draft, device: int, text: str, where: str) -> Value:
    value = draft.value_in(FANS, text)
    item = reading(device, FANS.key, Absent.NOT_UNDERSTOOD if value is None else value)
    draft.complain_if_bad(item, text, where)
    return item.value


def _field_name(section: str, key: str) -> str:
    """Return the name under which an unknown key is reported."""
    return quote(f"{section}/{key or '(blank)'}".removeprefix("/"))


def _plain(name: str) -> str:
    """Return a key or section in lower case with single blanks. One key is printed with a blank at its end."""
    return " ".join(name.lower().split())
