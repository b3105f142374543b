"""A Chrome trace from its first byte to its last: led to the reader that knows it.

A JSON trace consists of blocks of events, and of keys beside them, in any order. Memory holds one block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    next_block,
    next_event,
    value_at,
    walk,
)
from telemetry_profile.format_contract import Clue, Device, Facts, Split, TraceReader, TraceSample

_MOST_EVENTS = 100_000_000
MOST_EVENT_BYTES = 32 * 2**20
"""An event is no larger; names of 10 MB have been tried."""

_MOST_KEY_BYTES = 2**20
"""A key beside the events that is larger is passed over."""

_NOT_READ = object()
_EVENTS = "traceEvents"
_STRUCTURE = re.compile(rb"[\"\[\]{},]")
_IN_STRING = re.compile(rb"[\"\\]")
_TAIL = 64  # what the look of a next event may need
_MOST_KEYS = 1000
Choose = Callable[[TraceSample], TraceReader | None]


def read_trace(stream: BinaryIO, clue: Clue, choose: Choose, block_bytes: int = BLOCK_BYTES) -> Facts | None:
    """What the reader says that `choose` gives for the first events; None where it gives none, or where this is no trace.

    The stream holds unpacked JSON; it is read once, forwards. Where it raises, what came before counts.
    """
    damage, keys, has_events = Damage(), dict[str, Any](), False
    reader: TraceReader | None = None
    for member in members(Window(stream, damage, block_bytes), damage):
        if isinstance(member, Key):
            _take_key(member, keys, reader)
            continue
        has_events = True
        if member and reader is None and (reader := _reader(choose, TraceSample(clue, keys, member))) is None:
            return None
        if reader is not None:
            reader.events(member)
    if reader is None and has_events:  # an empty trace is known by its keys
        reader = _reader(choose, TraceSample(clue, keys, []))
    return None if reader is None else _lower_bounds(reader.facts(), _problems_of(damage))


def _reader(choose: Choose, sample: TraceSample) -> TraceReader | None:
    """Who reads the trace, with the keys that came before the first events."""
    reader = choose(sample)
    if reader is not None:
        for name, value in sample.keys.items():
            reader.key(name, value)
    return reader


def _take_key(key: Key, keys: dict[str, Any], reader: TraceReader | None) -> None:
    """Hand a key to the reader, or keep it until the first events have shown which reader takes them."""
    if reader is not None:
        reader.key(key.name, key.value)
    elif len(keys) < _MOST_KEYS:
        keys[key.name] = key.value


def _problems_of(damage: Damage) -> tuple[Problem, ...]:
    problems = []
    if damage.events:
        problems.append(Problem("events", f"{damage.events} cannot be read, and are left out"))
    if damage.is_cut:
        problems.append(Problem("end", "the file is cut or damaged: what follows is missing"))
    return tuple(problems)


def _lower_bounds(facts: Facts, problems: Sequence[Problem]) -> Facts:
    """Facts of a file with these problems. Idle time and what is not hidden need every interval, so they are unknown, and each step is cut."""
    if not problems:
        return facts
    devices = tuple(_partial(device) for device in facts.devices)
    return replace(facts, devices=devices, problems=(*facts.problems, *problems))


def _partial(device: Device) -> Device:
    steps = tuple(replace(step, split=_counted(step.split), is_cut=True) for step in device.steps)
    flops = device.flops and replace(device.flops, per_step=None, per_second=None)
    return replace(device, split=_counted(device.split), steps=steps, flops=flops)


def _counted(split: Split) -> Split:
    return replace(split, exposed_communication_ns=None, exposed_copy_ns=None, idle_ns=None)


@dataclass(frozen=True, slots=True)
class Key:
    """One key beside the events."""

    name: str
    value: Any


def members(window: Window, damage: Damage) -> Iterator[Key | list[Event]]:
    """The keys and events of a trace, as an object or a list; nothing where the stream holds neither."""
    window.grow()
    window.data = window.data.removeprefix(b"\xef\xbb\xbf")
    opening = window.first()
    window.use(1)
    if opening == b"{":
        yield from _of_object(window, damage)
    elif opening == b"[" and window.first() in (b"{", b"]"):
        yield from _events(window, damage)


def _of_object(window: Window, damage: Damage) -> Iterator[Key | list[Event]]:
    while True:
        try:
            yield from _rest_of_object(window, damage)
        except IncompleteError:
            damage.is_cut = True
        except MalformedError:
            damage.is_cut = True
            if _seek(window, b'"%b"' % _EVENTS.encode()):
                continue
        return


def _rest_of_object(window: Window, damage: Damage) -> Iterator[Key | list[Event]]:
    while (char := window.first(b",")) != b"}":
        yield from _member(_name(char, window), window, damage)


def _name(first: bytes, window: Window) -> str:
    if not first:
        raise IncompleteError
    name = _value(window) if first == b'"' else None
    if not isinstance(name, str):
        raise MalformedError
    return name


def _member(name: str, window: Window, damage: Damage) -> Iterator[Key | list[Event]]:
    if window.first() != b":":
        raise MalformedError
    window.use(1)
    if window.first() == b"[" and name == _EVENTS:
        window.use(1)
        yield from _events(window, damage)
    elif (value := _value(window)) is not _NOT_READ:
        yield Key(name, value)
    else:
        _skip_value(window)


def _events(window: Window, damage: Damage) -> Iterator[list[Event]]:
    """The blocks of a list that was opened; an empty one at least."""
    count = 0
    yield []
    while count < _MOST_EVENTS:
        window.grow()
        window.first(b",")
        block = next_block(window)
        if block is not None:
            window.use(block.used)
            events, is_last = block.events, block.is_last
            if is_last:
                window.first()
                window.use(1)
        else:
            events, is_last = _stray_events(window, damage)
        count += len(events)
        yield events
        if is_last or (window.has_ended and damage.is_cut):
            return
    damage.is_cut = True


def _stray_events(window: Window, damage: Damage) -> tuple[list[Event], bool]:
    """What is found one by one, and whether the list ends behind it."""
    text = _text(window.data)
    found = walk(text)
    window.data = _bytes(text[found.used :])
    damage.events += found.lost
    if not found.is_last:
        if window.has_ended:
            damage.is_cut = True
        elif len(window.data) > MOST_EVENT_BYTES:
            damage.events += 1
            _leave_event(window)
    return found.events, found.is_last


def _leave_event(window: Window) -> None:
    """Go on behind an event without an end."""
    text = _text(window.data)
    window.data = _bytes(text[min(next_event(text, 1), len(text) - _TAIL) :])


def _value(window: Window) -> Any:
    """The next value, or what stands for one that is too large or too deep to be decoded."""
    while True:
        text = _text(window.data[:_MOST_KEY_BYTES])
        try:
            value, end = value_at(text, 0)
        except IncompleteError:
            if len(window.data) >= _MOST_KEY_BYTES:
                return _NOT_READ
            if not window.grow():
                raise
        except UnreadableError:
            return _NOT_READ
        else:
            if end + NEAR_THE_END > len(text) and window.grow():  # a number may go on
                continue
            window.use(len(_bytes(text[:end])))
            return value


def _skip_value(window: Window) -> None:
    """Go to what follows a value, without keeping it."""
    depth = 0
    for place, char in _structure(window):
        if depth == 0 and char in b",]}":
            window.use(place)
            return
        depth += (char in b"[{") - (char in b"]}")


def _structure(window: Window) -> Iterator[tuple[int, bytes]]:
    """The brackets and commas outside of strings, and where they are in the window, which moves on."""
    is_string, place = False, 0
    while True:
        found = (_IN_STRING if is_string else _STRUCTURE).search(window.data, place)
        if found is None:
            place = max(0, place - len(window.data))
            window.use(len(window.data))
            if not window.grow():
                return
        elif found[0] == b'"':
            is_string, place = not is_string, found.end()
        elif is_string:  # what is escaped is passed over
            place = found.end() + 1
        else:
            place = found.end()
            yield found.start(), found[0]


def _seek(window: Window, sought: bytes) -> bool:
    """Go to the next place where these bytes stand; whether there is one."""
    while (place := window.data.find(sought)) < 0:
        window.use(max(0, len(window.data) - len(sought)))
        if not window.grow():
            return False
    window.use(place)
    return True


def _text(data: bytes) -> str:
    """Text that goes back to the same bytes, whatever they are."""
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
