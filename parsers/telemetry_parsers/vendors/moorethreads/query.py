"""Reads the output of `mthreads-gmi -q`: indented text or JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Plain, Value
from telemetry_parsers.reports.draft import Draft, problem_by_text
from telemetry_parsers.reports.tool import ToolText
from telemetry_parsers.text.answers import CUT_LINE, broken_document, listed_twice, value_without_key, wrong_count
from telemetry_parsers.text.documents import find_documents
from telemetry_parsers.text.lines import Line, bus_address, quote
from telemetry_parsers.vendors.moorethreads.keys import (
    CARD_KEYS,
    FACTS,
    FAN_COUNT_KEY,
    FAN_SECTION,
    FAN_TARGET,
    FIELDS,
    IGNORED_KEYS,
    IGNORED_SECTIONS,
    SECTIONS,
    SUPERSEDED_BY,
    VENDOR,
    Key,
)

_CARD = re.compile(r"GPU([0-9]{1,4})[ \t]{1,8}([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\Z")
_TYPICAL_JSON_KEYS = ('"Attached GPUs"', '"MTBios Version"')
_MAX_DEPTH = 8
_COUNT_KEY = "attached gpus"
_HEADER_KEYS = ("driver version", _COUNT_KEY)
_HEADING_KEYS: frozenset[Key] = frozenset({("", "index"), ("pci", "bus id")})
_FIRST_KEY, _LAST_KEY = ("", "product name"), ("", "performance state")
_NAMES_IN_SECTIONS = frozenset(name for section, name in FIELDS if section)


@dataclass(slots=True)
class _Card:
    """The printed keys and values of a card."""

    where: str
    values: list[tuple[Key, str]] = field(default_factory=list)

    def first_text(self, *keys: Key) -> str | None:
        """Return the first value of `keys` that is neither blank nor a placeholder, else None."""
        texts = dict(reversed(self.values))
        return next((text for key in keys if (text := units.text_or_none(texts.get(key))) is not None), None)


@dataclass(slots=True)
class _QueryOutput:
    """The header and cards of an output, which may contain the answers to several commands."""

    draft: Draft
    answer_count: int = 1
    header: dict[str, str] = field(default_factory=dict)
    cards: list[_Card] = field(default_factory=list)


def is_card_heading(line: Line) -> bool:
    """Return whether a line starts a card, such as `GPU0 00000000:01:00.0`."""
    return line.ended and _CARD.match(line.text.strip()) is not None


def read_list(lines: Sequence[Line], draft: Draft) -> None:
    """Add the listed cards to the draft. Indentation is ignored."""
    output = _QueryOutput(draft)
    section = ""
    for line in lines:
        text = line.text.strip()
        match = _CARD.match(text) if line.ended else None
        if match is not None:
            output.cards.append(_Card(f"GPU{match[1]}", [(("", "index"), match[1]), (("pci", "bus id"), match[2])]))
            section = ""
        elif not line.ended:
            draft.add_problem(line.where, CUT_LINE)
        elif ":" in text:
            _read_line(output, section, line)
        elif text and output.cards:
            section = _normalize(text)
            if section not in SECTIONS:
                draft.add_unknown(text)
    cards = _read_cards(output)
    for card in cards:
        _report_if_cut(card, draft)
    _report_wrong_count(output, len(cards))


def _read_line(output: _QueryOutput, section: str, line: Line) -> None:
    name, _, value = line.text.partition(":")
    key = _normalize(name)
    if key.startswith(("error", "failed", "warning")):
        output.draft.add_problem(line.where, quote(line.text))
    elif not key:
        output.draft.add_problem(line.where, value_without_key(line.text))
    elif not output.cards or key in _HEADER_KEYS:
        if key == _COUNT_KEY and key in output.header:
            output.answer_count += 1
        output.header[key] = value.strip()
    else:
        output.cards[-1].values.append((("" if key in CARD_KEYS else section, key), value.strip()))


def read_json(text: ToolText, draft: Draft) -> bool:
    """Add the cards in all documents of `-q --json`. Return False if the text has no part of such a document."""
    output = _QueryOutput(draft, answer_count=0)
    joined_text = text.joined
    json = find_documents(joined_text)
    answers = [document for document in json.documents if not document.fault and _read_document(output, document.value)]
    is_broken = bool(json.fault) and (bool(answers) or any(mark in joined_text for mark in _TYPICAL_JSON_KEYS))
    draft.problems += json.problems(answers) if answers else []
    if is_broken:
        draft.add_problem("JSON", broken_document(json.fault))
    _report_wrong_count(output, len(_read_cards(output)))
    return bool(answers) or is_broken


def _read_document(output: _QueryOutput, document: Plain) -> bool:
    """Read the cards of a document. Return False if another tool printed the document."""
    cards = document.get("GPU") if isinstance(document, dict) else None
    if not isinstance(cards, list) or not all(isinstance(card, dict) for card in cards):
        return False
    header = {_normalize(name): value for name, value in document.items() if isinstance(value, str)}
    if not any(key in header for key in _HEADER_KEYS):
        return False
    output.answer_count += 1
    output.header.update(header)
    for position, card in enumerate(cards):
        output.cards.append(_Card(f"GPU {position}"))
        _add_nested_values(output, card, "", _MAX_DEPTH)
    return True


def _add_nested_values(output: _QueryOutput, values: dict[str, Plain], section: str, depth: int) -> None:
    for name, value in values.items():
        key = _normalize(name)
        if isinstance(value, dict) and depth:
            _add_nested_values(output, value, key, depth - 1)
        elif value is None or isinstance(value, str):
            output.cards[-1].values.append(((section, key), value or ""))
        else:
            output.draft.add_unknown(_field_name(section, key))


def _read_cards(output: _QueryOutput) -> list[_Card]:
    """Add each card to the draft once. Return the cards."""
    draft, cards = output.draft, _merge_cards(output)
    draft.wording = problem_by_text
    draft.driver = units.text_or_none(output.header.get("driver version"))
    for position, card in enumerate(cards):
        _read_card(draft, draft.device(position, _create_device(card)), card)
    return cards


def _report_wrong_count(output: _QueryOutput, card_count: int) -> None:
    count = units.integer(output.header.get(_COUNT_KEY, ""))
    if count is not None and count != card_count and (output.answer_count == 1 or count > card_count):
        output.draft.is_open = True
        output.draft.add_problem("Attached GPUs", wrong_count(count, card_count))


def _merge_cards(output: _QueryOutput) -> list[_Card]:
    """Return each card once, with the keys from all answers about that card."""
    card_by_identity: dict[Device, _Card] = {}
    first_identity_by_index: dict[int | None, Device] = {}
    for card in output.cards:
        identity = replace(_create_device(card), facts=())
        first_identity = first_identity_by_index.setdefault(identity.index, identity)
        index_only = Device(VENDOR, identity.index)  # `-d POWER` identifies a card only by its index
        is_same_card = identity.index is not None and index_only in (identity, first_identity)
        earlier_card = card_by_identity.setdefault(first_identity if is_same_card else identity, card)
        if earlier_card is not card:
            _add_keys(output, earlier_card, card, is_identified=identity != Device(VENDOR))
    return list(card_by_identity.values())


def _add_keys(output: _QueryOutput, earlier_card: _Card, card: _Card, *, is_identified: bool) -> None:
    """Add the keys that only `card` has to `earlier_card`, which is an earlier answer about the same card."""
    keys = {key for key, _ in earlier_card.values}
    if not is_identified or any(key in keys and (key in FIELDS or key[0] == FAN_SECTION) for key, _ in card.values):
        output.draft.add_problem(card.where, listed_twice("the card"))
    if is_identified:
        earlier_card.values.extend((key, text) for key, text in card.values if key not in keys)


def _create_device(card: _Card) -> Device:
    return Device(
        vendor=VENDOR,
        index=units.integer(card.first_text(("", "index")) or ""),
        model=card.first_text(("", "product name")),
        uuid=card.first_text(("", "gpu uuid")),
        bus_id=bus_address(card.first_text(("pci", "bus id"), ("pci", "pci/bus id")) or ""),
        serial=card.first_text(("", "serial number")),
        facts=tuple((name, text) for name, key in FACTS if (text := card.first_text(key)) is not None),
    )


def _report_if_cut(card: _Card, draft: Draft) -> None:
    """Report a card that is cut off before its performance state."""
    keys = {key for key, _ in card.values}
    if keys <= _HEADING_KEYS or ((_FIRST_KEY in keys) and (_LAST_KEY not in keys)):
        draft.add_problem(card.where, f"the card's lines are cut off before the {_LAST_KEY[1]}")


def _read_card(draft: Draft, device: int, card: _Card) -> None:
    """Store the values of a card. Report repeated keys."""
    text_by_key: dict[Key, str] = {}
    for key, text in card.values:
        if key in text_by_key and key in FIELDS:
            problem = f"{key[1]} is repeated, because a section's heading is missing; the first value is kept"
            draft.add_problem(card.where, problem)
        text_by_key.setdefault(key, text)
    for key, text in text_by_key.items():
        target = FIELDS.get(key)
        if target is not None and SUPERSEDED_BY.get(key) not in text_by_key:
            draft.store(device, (target,), text, f"{card.where} {key[1]}")
        elif target is None and not _is_fan_key(key):
            _report_unknown(card, draft, key)
    text_by_fan = {f"{card.where} {key[1]}": text for key, text in text_by_key.items() if _is_fan_key(key)}
    _store_fastest_fan(draft, device, text_by_fan, units.integer(text_by_key.get(FAN_COUNT_KEY, "")))


def _report_unknown(card: _Card, draft: Draft, key: Key) -> None:
    """Report an unknown key, or a known key whose section heading is missing."""
    section, name = key
    if section in IGNORED_SECTIONS and name in _NAMES_IN_SECTIONS:
        draft.add_problem(card.where, f"{name} is printed below {section}: a heading between them is missing")
    elif section not in IGNORED_SECTIONS and key not in IGNORED_KEYS:
        draft.add_unknown(_field_name(section, name))


def _is_fan_key(key: Key) -> bool:
    return key[0] == FAN_SECTION and key[1].startswith("fan")


def _store_fastest_fan(draft: Draft, device: int, text_by_fan: Mapping[str, str], fan_count: int | None) -> None:
    """Store the speed of the fastest fan, or an `Absent` value if a fan is missing."""
    if not text_by_fan and not fan_count:
        return
    values = [_fan_speed(draft, device, text, where) for where, text in text_by_fan.items()]
    speeds = [value for value in values if not isinstance(value, Absent)]
    absent_values = [value for value in values if isinstance(value, Absent)] or [Absent.NOT_REPORTED]
    draft.set_value(device, FAN_TARGET, max(speeds) if len(speeds) == len(values) == fan_count else absent_values[0])


def _fan_speed(draft: Draft, device: int, text: str, where: str) -> Value:
    value = draft.value_in(FAN_TARGET, text)
    item = reading(device, FAN_TARGET.key, Absent.NOT_UNDERSTOOD if value is None else value)
    draft.report_bad_value(item, text, where)
    return item.value


def _field_name(section: str, key: str) -> str:
    """Return the name under which an unknown key is reported."""
    return quote(f"{section}/{key or '(blank)'}".removeprefix("/"))


def _normalize(name: str) -> str:
    return " ".join(name.lower().split())
