"""Reads a Chrome trace of any size in blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from telemetry_parsers.model import Problem
from telemetry_profile.files.trace_events import (
    BLOCK_BYTES,
    NEAR_THE_END,
    Damage,
    Event,
    IncompleteError,
    MalformedError,
    UnreadableError,
    Window,
    decode_singly,
    next_block,
    next_event_start,
    value_at,
)
from telemetry_profile.format_contract import Device, Facts, FileSample, TraceReader, TraceSample

_MAX_EVENTS = 100_000_000
MAX_EVENT_BYTES = 32 * 2**20  # real events are far smaller
_MAX_VALUE_BYTES = 2**20  # the limit for values outside the list of events; larger values are skipped
_UNREADABLE = object()
_EVENTS_KEY = "traceEvents"
_STRUCTURE = re.compile(rb"[\"\[\]{},]")
_IN_STRING = re.compile(rb"[\"\\]")
_EVENT_START_BYTES = 64  # enough bytes to recognise the start of the next event
_MAX_KEYS = 1000
_KeyAndValue = tuple[str, Any]
ChooseReader = Callable[[TraceSample], TraceReader | None]


def read_trace(
    stream: BinaryIO, file: FileSample, choose: ChooseReader, block_bytes: int = BLOCK_BYTES
) -> Facts | None:
    """Return the content of a trace, or None if `choose` returns None."""
    damage, keys, has_events = Damage(), dict[str, Any](), False
    reader: TraceReader | None = None
    for member in trace_members(Window(stream, damage, block_bytes), damage):
        if isinstance(member, tuple):
            _pass_key(*member, keys, reader)
            continue
        has_events = True
        if member and reader is None and (reader := _start_reader(choose, TraceSample(file, keys, member))) is None:
            return None
        if reader is not None:
            reader.read_events(member)
    if reader is None and has_events:  # an empty trace is recognised by its keys
        reader = _start_reader(choose, TraceSample(file, keys, []))
    return None if reader is None else _with_problems(reader.facts(), _problems_of(damage))


def _start_reader(choose: ChooseReader, sample: TraceSample) -> TraceReader | None:
    """Choose a reader, and pass it the keys that were read so far."""
    reader = choose(sample)
    if reader is not None:
        for name, value in sample.keys.items():
            reader.read_key(name, value)
    return reader


def _pass_key(name: str, value: Any, keys: dict[str, Any], reader: TraceReader | None) -> None:
    """Pass a key to the reader. If none was chosen yet, store the key in `keys`."""
    if reader is not None:
        reader.read_key(name, value)
    elif len(keys) < _MAX_KEYS:
        keys[name] = value


def _problems_of(damage: Damage) -> tuple[Problem, ...]:
    problems = []
    if damage.unreadable_events:
        problems.append(Problem("events", f"{damage.unreadable_events} ignored: unreadable"))
    if damage.is_cut:
        problems.append(Problem("end", "the rest is missing, because the file is truncated or damaged"))
    return tuple(problems)


def _with_problems(facts: Facts, problems: Sequence[Problem]) -> Facts:
    """Return the facts with these problems. If there are any, drop the values that depend on missing events."""
    if not problems:
        return facts
    devices = tuple(_without_uncertain_values(device) for device in facts.devices)
    return replace(facts, devices=devices, problems=(*facts.problems, *problems))


def _without_uncertain_values(device: Device) -> Device:
    device = device.without("exposed_communication_ns", "exposed_copy_ns", "idle_ns")
    flops = device.flops and replace(device.flops, per_step=None, per_second=None)
    return replace(device, steps=tuple(replace(step, is_cut=True) for step in device.steps), flops=flops)


def trace_members(window: Window, damage: Damage) -> Iterator[_KeyAndValue | list[Event]]:
    """Yield the keys of a trace as (name, value), and the events in blocks."""
    window.read_more()
    window.data = window.data.removeprefix(b"\xef\xbb\xbf")
    opening = window.peek()
    window.consume(1)
    if opening == b"{":
        yield from _read_object_members(window, damage)
    elif opening == b"[" and window.peek() in (b"{", b"]"):
        yield from _read_events(window, damage)


def _read_object_members(window: Window, damage: Damage) -> Iterator[_KeyAndValue | list[Event]]:
    while True:
        try:
            yield from _remaining_members(window, damage)
        except IncompleteError:
            damage.is_cut = True
        except MalformedError:
            damage.is_cut = True
            if _skip_to(window, b'"%b"' % _EVENTS_KEY.encode()):
                continue
        return


def _remaining_members(window: Window, damage: Damage) -> Iterator[_KeyAndValue | list[Event]]:
    while (first_byte := window.peek(b",")) != b"}":
        yield from _read_member(_read_member_name(first_byte, window), window, damage)


def _read_member_name(first_byte: bytes, window: Window) -> str:
    if not first_byte:
        raise IncompleteError
    name = _read_value(window) if first_byte == b'"' else None
    if not isinstance(name, str):
        raise MalformedError
    return name


def _read_member(name: str, window: Window, damage: Damage) -> Iterator[_KeyAndValue | list[Event]]:
    if window.peek() != b":":
        raise MalformedError
    window.consume(1)
    if window.peek() == b"[" and name == _EVENTS_KEY:
        window.consume(1)
        yield from _read_events(window, damage)
    elif (value := _read_value(window)) is not _UNREADABLE:
        yield name, value
    else:
        _skip_value(window)


def _read_events(window: Window, damage: Damage) -> Iterator[list[Event]]:
    """Yield the events in blocks. The first block is empty and shows that the trace has a list of events."""
    count = 0
    yield []
    while count < _MAX_EVENTS:
        window.read_more()
        window.peek(b",")
        block = next_block(window)
        if block is not None:
            window.consume(block.consumed)
            events, is_last = block.events, block.is_last
            if is_last:
                window.peek()
                window.consume(1)
        else:
            events, is_last = _read_events_singly(window, damage)
        count += len(events)
        yield events
        if is_last or (window.has_ended and damage.is_cut):
            return
    damage.is_cut = True


def _read_events_singly(window: Window, damage: Damage) -> tuple[list[Event], bool]:
    """Decode events one by one, without unreadable events. Return the events, and whether the list has ended."""
    text = _text(window.data)
    decoded = decode_singly(text)
    window.data = _bytes(text[decoded.consumed :])
    damage.unreadable_events += decoded.unreadable
    if not decoded.is_last:
        if window.has_ended:
            damage.is_cut = True
        elif len(window.data) > MAX_EVENT_BYTES:
            damage.unreadable_events += 1
            _skip_event(window)
    return decoded.events, decoded.is_last


def _skip_event(window: Window) -> None:
    text = _text(window.data)
    window.data = _bytes(text[min(next_event_start(text, 1), len(text) - _EVENT_START_BYTES) :])


def _read_value(window: Window) -> Any:
    """Return the next value, or `_UNREADABLE` if the value cannot be decoded."""
    while True:
        text = _text(window.data[:_MAX_VALUE_BYTES])
        try:
            value, end = value_at(text, 0)
        except IncompleteError:
            if len(window.data) >= _MAX_VALUE_BYTES:
                return _UNREADABLE
            if not window.read_more():
                raise
        except UnreadableError:
            return _UNREADABLE
        else:
            if end + NEAR_THE_END > len(text) and window.read_more():  # the value may continue in the next block
                continue
            window.consume(len(_bytes(text[:end])))
            return value


def _skip_value(window: Window) -> None:
    depth = 0
    for position, char in _structural_characters(window):
        if depth == 0 and char in b",]}":
            window.consume(position)
            return
        depth += (char in b"[{") - (char in b"]}")


def _structural_characters(window: Window) -> Iterator[tuple[int, bytes]]:
    """Yield (position, character) for each bracket and comma outside strings."""
    is_in_string, position = False, 0
    while True:
        match = (_IN_STRING if is_in_string else _STRUCTURE).search(window.data, position)
        if match is None:
            position = max(0, position - len(window.data))
            window.consume(len(window.data))
            if not window.read_more():
                return
        elif match[0] == b'"':
            is_in_string, position = not is_in_string, match.end()
        elif is_in_string:  # skip the escaped character
            position = match.end() + 1
        else:
            position = match.end()
            yield match.start(), match[0]


def _skip_to(window: Window, pattern: bytes) -> bool:
    """Skip the bytes before the pattern, and return whether the pattern was found."""
    while (position := window.data.find(pattern)) < 0:
        window.consume(max(0, len(window.data) - len(pattern)))
        if not window.read_more():
            return False
    window.consume(position)
    return True


def _text(data: bytes) -> str:
    """Decode bytes, which may be invalid UTF-8, so that `_bytes` returns the same bytes."""
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
