"""One answer of hccn_tool, line by line: `key : value`, counters, and the framed tables of Ascend 950."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Problem, Reading, Report, Value
from telemetry_parsers.text.answers import capped
from telemetry_parsers.text.framed import Shape, is_rule, read_table
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.ascend.hccn_tool.keys import (
    BESIDE_FLAPS,
    COUNTERS,
    FACTS,
    FLAGS,
    FLAPS_KEY,
    INDEX_SPACE,
    LINK_KEY,
    PORT_COUNTERS,
    PORT_KEY,
    QUIET,
    ROCE_COUNTERS,
    STATISTICS,
    TITLES,
    UP,
    VENDOR,
    Port,
)

_DEVICE_PREFIX = re.compile(r"[ \t]{0,8}\[(?:devid|device|dev_id)[ \t]{0,4}([0-9]{1,6})\]", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,6}\Z")
_STATUS = re.compile(r"\S{1,20}\Z")
_PORTS = Shape(
    headings=frozenset({"udie id", "port id", "link status"}),
    words=MappingProxyType({"udie id": _NUMBER, "port id": _NUMBER, "link status": _STATUS}),
    opening="udie id",
)
_NUMBERED = Shape(
    headings=frozenset({"npu", "udie", "port"}),
    words=MappingProxyType({"npu": _NUMBER, "udie": _NUMBER, "port": _NUMBER}),
    opening="npu",
)
_MOST_UNKNOWN = 256


@dataclass(slots=True)
class Answer:
    """What one run says of one device; `understood` is whether any line of it was this tool's."""

    device: int | None
    port: Port = field(default_factory=Port)
    understood: bool = False
    are_several: bool = False
    facts: dict[str, str] = field(default_factory=dict)
    readings: dict[tuple[str, str], Reading] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)
    beside: set[str] = field(default_factory=set)

    def give(self, metric: str, value: Value, word: str, text: str, where: str) -> None:
        """Take a reading in; a bad text becomes a problem too."""
        if (metric, word) in self.readings:
            self._find_another(where, f"{metric} of {word}")
        item = reading(0, metric, value, word)
        if item.value is Absent.NOT_UNDERSTOOD or item.value is Absent.IMPLAUSIBLE:
            self.problems.append(Problem(where, f'{metric}: "{quote(text)}" is {item.value.value}'))
        self.readings.setdefault((metric, word), item)

    def state(self, name: str, text: str, where: str) -> None:
        """Take a fact in."""
        if name in self.facts:
            self._find_another(where, name)
        self.facts.setdefault(name, text)

    def _find_another(self, where: str, what: str) -> None:
        """The same thing twice: these are answers about several devices, and nothing or one command says of whose."""
        if self.device is not None:
            self.problems.append(
                Problem(where, f"{what} is told twice; the first is kept, the other may be another device's")
            )
        elif not self.are_several:
            self.are_several = True
            problem = "answers about several devices that don't say about which are not read; keep the command lines"
            self.problems.append(Problem(where, problem))

    def close(self, flags: Sequence[str], where: str) -> None:
        """Say what the answer to these flags lacks; a counter that was not printed is absent."""
        metrics = {metric for metric, _ in self.readings}
        wanted = {FLAGS[flag] for flag in flags if flag in FLAGS} - {""}
        if BESIDE_FLAPS & self.beside:
            wanted.add(COUNTERS[FLAPS_KEY])
        for metric in sorted(wanted - metrics):
            self.problems.append(Problem(where, f"the answer tells no {metric}: it is cut off, or not understood"))
        if self.beside == {STATISTICS}:
            self.problems.append(Problem(where, "the statistics are cut off below their title"))
        elif STATISTICS in self.beside:
            for metric in (PORT_COUNTERS if self.port.number else ROCE_COUNTERS).values():
                if (metric, self.port.word) not in self.readings:
                    self.give(metric, Absent.NOT_REPORTED, self.port.word, "", "")

    def report(self) -> Report:
        """The device with what was read of it; a text that tells neither which one nor anything of it has none."""
        if self.are_several or (self.device is None and not self.readings and not self.facts):
            return Report(problems=capped(self.problems), unknown_fields=tuple(self.unknown)[:_MOST_UNKNOWN])
        return Report(
            devices=(Device(VENDOR, self.device, facts=tuple(self.facts.items())),),
            readings=tuple(self.readings.values()),
            problems=capped(self.problems),
            unknown_fields=tuple(self.unknown)[:_MOST_UNKNOWN],
            index_space=INDEX_SPACE,
        )


def read(lines: Sequence[Line], device: int | None, port: Port, flags: Sequence[str]) -> Iterator[Answer]:
    """What the lines say of the device that was asked for, or of each that they name by a prefix."""
    answer, is_listing = Answer(device, port), False
    _read_tables(answer, lines)
    for line in lines:
        prefix = _DEVICE_PREFIX.match(line.text)
        if prefix is not None and int(prefix[1]) != answer.device:
            if answer.understood and answer.device is not None:
                answer.close(flags, line.where)
                yield answer
                answer = Answer(None, port)
            answer.device = int(prefix[1])
        text = line.text[prefix.end() :] if prefix else line.text
        is_listing = _take(answer, text.strip(), line, is_listing=is_listing)
    if answer.understood:
        answer.close(flags, lines[-1].where)
        yield answer


def _take(answer: Answer, text: str, line: Line, *, is_listing: bool) -> bool:
    """Take one line in; whether what follows belongs to a title and may hold anything."""
    name, colon, value = text.partition(":")
    key = " ".join(name.lower().split())
    bare = key.strip("- ")
    if not line.ended or not text:
        if not line.ended and text:
            answer.problems.append(Problem(line.where, "the text ends inside this line, which is not read"))
        return is_listing
    if bare in answer.beside & QUIET and not is_listing:
        answer.problems.append(
            Problem(line.where, f"{quote(key)} is told twice: the command between two answers is lost")
        )
    answer.beside.add(bare)
    if bare in TITLES:
        answer.understood = True
        return True
    if colon and not key and value.strip():
        answer.problems.append(Problem(line.where, f"a value without its key: {quote(text)}"))
    if not colon or not key or "|" in text or is_rule(text):
        return is_listing
    if not _take_value(answer, key, value.strip(), line) and not is_listing and key not in QUIET:
        answer.unknown[quote(key) or "(blank)"] = None
    answer.understood = answer.understood or key in QUIET
    return is_listing


def _take_value(answer: Answer, key: str, value: str, line: Line) -> bool:
    """Whether the key is one that gives something."""
    if key == LINK_KEY:
        state = UP.get(value.lower(), units.placeholder(value) or Absent.NOT_UNDERSTOOD)
        answer.give("link_up", state, answer.port.word, value, line.where)
    elif key in COUNTERS:
        is_ports = answer.port.number or key in ROCE_COUNTERS or (key == FLAPS_KEY and _DEVICE_PREFIX.match(line.text))
        if is_ports:
            answer.give(COUNTERS[key], units.number(value), answer.port.word, value, line.where)
        else:
            answer.problems.append(Problem(line.where, f"{key}: which port it is of is not told"))
    elif key == PORT_KEY:
        _take_port(answer, value)
    elif key in FACTS and value and units.placeholder(value) is None:
        answer.state(FACTS[key], value, line.where)
    else:
        return key in FACTS or key in COUNTERS
    answer.understood = True
    return True


def _take_port(answer: Answer, value: str) -> None:
    """`port_id: 4`, or `0x4` in the answer about bit errors."""
    number = value.lower().removeprefix("0x")
    if _NUMBER.match(number) and not answer.port.number:
        answer.port = Port(answer.port.die, number)


def _read_tables(answer: Answer, lines: Sequence[Line]) -> None:
    """The ports of `-dev_info`; the device, die and port that the rows of other tables name."""
    for cells, line in _rows(answer, lines, _PORTS):
        word = Port(cells["udie id"], cells["port id"]).word
        status = cells["link status"]
        state = UP.get(status.lower(), units.placeholder(status) or Absent.NOT_UNDERSTOOD)
        answer.give("link_up", state, word, status, line.where)
        answer.understood = True
    for cells, _ in _rows(answer, lines, _NUMBERED):
        answer.device = int(cells["npu"]) if answer.device is None else answer.device
        answer.port = answer.port if answer.port.number else Port(cells["udie"], cells["port"])
        answer.understood = True


def _rows(answer: Answer, lines: Sequence[Line], shape: Shape) -> Iterator[tuple[dict[str, str], Line]]:
    """The rows of a table that have all its cells; a rule closes it, so that without one below them rows may be missing."""
    table = read_table(lines, shape)
    for record in table.records:
        cells = {heading: value.text for heading, value in record.values.items()}
        if shape.headings <= cells.keys() and not record.misfits and record.line.ended:
            yield cells, record.line
        else:
            answer.problems.append(Problem(record.line.where, f"no row of the table: {quote(record.line.text)}"))
    bars = next((line.text.count("|") for line in lines if _is_head(line, shape)), 0)
    for line in table.unread:
        if line.text.count("|") == bars > 0 and not _is_head(line, shape):
            answer.problems.append(Problem(line.where, f"no row of the table: {quote(line.text)}"))
    last_rule = max((line.number for line in lines if is_rule(line.text)), default=0)
    last_row = max((line.number for line in lines if "|" in line.text), default=0)
    if table.headed and last_rule < last_row:
        answer.problems.append(Problem(lines[-1].where, "the table is cut off here"))


def _is_head(line: Line, shape: Shape) -> bool:
    return shape.opening in line.text.lower()
