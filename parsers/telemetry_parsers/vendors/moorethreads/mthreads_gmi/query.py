"""The answers of `mthreads-gmi -q`, as indented text and as JSON: the same sections and keys in both."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from telemetry_parsers import units
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Form, Plain, Problem, Reading, Report
from telemetry_parsers.text.answers import capped, failed
from telemetry_parsers.text.documents import find_documents
from telemetry_parsers.text.lines import Line, bus_address, quote
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.keys import (
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
    Field,
    Key,
)
from telemetry_parsers.vendors.moorethreads.mthreads_gmi.words import (
    INDEX_SPACE,
    MOST_DEVICES,
    TOOL,
    VENDOR,
    Answer,
    known,
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
        """The first of these keys that has a value, None when all are blank or placeholders."""
        found = dict(reversed(self.values))
        return next((text for key in keys if (text := known(found.get(key))) is not None), None)


@dataclass(slots=True)
class _Query:
    """What the answers in a text say before they are read: their heads, their cards, and what is out of place."""

    answers: int = 1
    head: dict[str, str] = field(default_factory=dict)
    cards: list[_Card] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def is_list(lines: Sequence[Line]) -> bool:
    """Whether these lines are the indented text of `-q`: a card opens with `GPU0 00000000:01:00.0`."""
    return any(line.ended and _CARD.match(line.text.strip()) for line in lines)


def read_list(lines: Sequence[Line]) -> Answer:
    """The report on the text of `-q`; the section of a key is the last one named, so lost indentation does no harm."""
    query = _Query()
    section = ""
    for line in lines:
        text = line.text.strip()
        card = _CARD.match(text) if line.ended else None
        if card is not None:
            query.cards.append(_Card(f"GPU{card[1]}", [(("", "index"), card[1]), (("pci", "bus id"), card[2])]))
            section = ""
        elif not line.ended:
            query.problems.append(Problem(line.where, "the text ends inside this line, which is not read"))
        elif ":" in text:
            _take_line(query, section, line)
        elif text and query.cards:
            section = _plain(text)
            if section not in SECTIONS:
                query.unknown[quote(text)] = None
    return _answer(query, "text")


def _take_line(query: _Query, section: str, line: Line) -> None:
    name, _, value = line.text.partition(":")
    key = _plain(name)
    if key.startswith(("error", "failed", "warning")):
        query.problems.append(Problem(line.where, quote(line.text)))
    elif not key:
        query.problems.append(Problem(line.where, f"a value without its key: {quote(line.text)}"))
    elif not query.cards or key in _HEAD:
        query.answers += key == _COUNT and key in query.head
        query.head[key] = value.strip()
    else:
        query.cards[-1].values.append((("" if key in CARD_KEYS else section, key), value.strip()))


def read_json(text: str) -> Answer | None:
    """The report on the answers of `-q --json`, one behind the other; None when the text holds no JSON of that shape."""
    query = _Query(answers=0)
    found = find_documents(text)
    taken = [document for document in found.documents if not document.fault and _take_document(query, document.value)]
    fault = f"JSON that is cut off or broken: {found.fault}"
    if not taken:
        is_own = found.fault and any(mark in text for mark in _MARKS)
        return Answer(failed("not_understood", "JSON", fault)) if is_own else None
    query.problems += found.problems(taken)
    if found.fault:
        query.problems.append(Problem("JSON", fault))
    return _answer(query, "json")


def _take_document(query: _Query, found: Plain) -> bool:
    """Take the cards of a document in, if it is an answer."""
    cards = found.get("GPU") if isinstance(found, dict) else None
    if not isinstance(cards, list) or not all(isinstance(card, dict) for card in cards):
        return False
    head = {_plain(name): value for name, value in found.items() if isinstance(value, str)}
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
            query.unknown[_field_name(section, key)] = None


def _answer(query: _Query, form: Form) -> Answer:
    cards = _together(query)
    if len(cards) > MOST_DEVICES:
        text = f"{len(cards)} devices in one answer, as {TOOL} never prints"
        return Answer(failed("not_understood", "text", text))
    driver = known(query.head.get("driver version"))
    devices = [_device(card, driver) for card in cards]
    readings = [item for position, card in enumerate(cards) for item in _readings(position, card, query)]
    attached = units.whole(query.head.get(_COUNT, ""))
    complete = attached in (None, len(devices)) or (query.answers > 1 and attached < len(devices))
    for card in cards if form == "text" else ():
        _check_end(card, query)
    if not complete:
        text = f"{TOOL} counts {attached} GPUs and lists {len(devices)}"
        query.problems.append(Problem("Attached GPUs", text))
    report = Report(
        outcome="ok" if devices else "no_devices",
        devices=tuple(devices),
        readings=tuple(readings),
        problems=capped(query.problems),
        unknown_fields=tuple(query.unknown)[:MOST_DEVICES],
        index_space=INDEX_SPACE,
        form=form,
    )
    return Answer(report, complete)


def _together(query: _Query) -> list[_Card]:
    """Each card once, with what later answers add to it; of two texts for one key the first counts."""
    cards: dict[Device, _Card] = {}
    by_index: dict[int | None, Device] = {}
    for card in query.cards:
        identity = replace(_device(card, None), facts=())
        other = by_index.setdefault(identity.index, identity)
        bare = Device(VENDOR, identity.index)  # `-d POWER` tells no more of which card it is
        is_same = identity.index is not None and bare in (identity, other)
        first = cards.setdefault(other if is_same else identity, card)
        if first is not card:
            _add(query, first, card, is_known=identity != Device(VENDOR))
    return list(cards.values())


def _add(query: _Query, first: _Card, card: _Card, *, is_known: bool) -> None:
    """Add what the first answer about a card lacks; one of which nothing tells which card it is may be another."""
    keys = {key for key, _ in first.values}
    if not is_known or any(key in keys and (key in FIELDS or key[0] == FAN_SECTION) for key, _ in card.values):
        query.problems.append(Problem(card.where, "the card is listed a second time; the first is kept"))
    if is_known:
        first.values.extend((key, text) for key, text in card.values if key not in keys)


def _device(card: _Card, driver: str | None) -> Device:
    return Device(
        vendor=VENDOR,
        index=units.whole(card.first(("", "index")) or ""),
        model=card.first(("", "product name")),
        uuid=card.first(("", "gpu uuid")),
        bus_id=bus_address(card.first(("pci", "bus id"), ("pci", "pci/bus id")) or ""),
        serial=card.first(("", "serial number")),
        driver=driver,
        facts=tuple((name, text) for name, key in FACTS if (text := card.first(key)) is not None),
    )


def _check_end(card: _Card, query: _Query) -> None:
    """A card of the text is whole with its performance state, which stands below all sections; `-d` prints sections alone."""
    keys = {key for key, _ in card.values}
    if keys <= _HEADING or ((_FIRST in keys) and (_LAST not in keys)):
        query.problems.append(Problem(card.where, f"the card is cut off: it has no {_LAST[1]}"))


def _readings(device: int, card: _Card, query: _Query) -> list[Reading]:
    """The readings of a card; a key told twice in one section has lost the heading between the two."""
    found: dict[tuple[str, str], Reading] = {}
    printed: dict[Key, str] = {}
    for key, text in card.values:
        if key in printed and key in FIELDS:
            problem = f"{key[1]} is told twice; the first is kept: the heading of a section between them is lost"
            query.problems.append(Problem(card.where, problem))
        printed.setdefault(key, text)
    for key, text in printed.items():
        wanted = FIELDS.get(key)
        if wanted is not None and INSTEAD.get(key) not in printed:
            found[wanted.key, wanted.label] = _reading(device, card, query, key, text, wanted)
        elif wanted is None and not _is_fan(key):
            _name_unknown(card, query, key)
    fans = [_reading(device, card, query, key, text, FANS) for key, text in printed.items() if _is_fan(key)]
    count = units.whole(printed.get(FAN_COUNT, ""))
    if fans or count:
        found[FANS.key, FANS.label] = _fastest(fans, count) or reading(device, FANS.key, Absent.NOT_REPORTED)
    return list(found.values())


def _reading(device: int, card: _Card, query: _Query, key: Key, text: str, wanted: Field) -> Reading:
    item = reading(device, wanted.key, wanted.read(text), wanted.label)
    if item.value in (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE):
        query.problems.append(Problem(f"{card.where} {key[1]}", f'"{quote(text)}" is {item.value.value}'))
    return item


def _name_unknown(card: _Card, query: _Query, key: Key) -> None:
    """A key that gives nothing: unknown, or in a section of no interest, in which no other section's keys can be."""
    section, name = key
    if section in QUIET_SECTIONS and name in _READ_SOMEWHERE:
        query.problems.append(Problem(card.where, f"{name} stands below {section}: the heading of its section is lost"))
    elif section not in QUIET_SECTIONS and key not in QUIET:
        query.unknown[_field_name(section, name)] = None


def _is_fan(key: Key) -> bool:
    return key[0] == FAN_SECTION and key[1].startswith("fan")


def _fastest(fans: Sequence[Reading], count: int | None) -> Reading | None:
    """The fastest fan where as many are told as the card has; the fastest of a part may not be the fastest."""
    gap = next((fan for fan in fans if isinstance(fan.value, Absent)), None)
    if gap is not None or len(fans) != count:
        return gap
    return max(fans, key=lambda fan: fan.value if isinstance(fan.value, float) else 0.0)


def _field_name(section: str, key: str) -> str:
    """How an unknown key is named."""
    return quote(f"{section}/{key or '(blank)'}".removeprefix("/"))


def _plain(name: str) -> str:
    """A key or section in lower case with single blanks: one key is printed with a blank at its end."""
    return " ".join(name.lower().split())
