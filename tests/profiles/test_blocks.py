"""Traces in blocks: the same events as the whole file has, whatever its size and damage."""

import gzip
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.traces import collect, event, profile_captures
from telemetry_profile.files import trace

FOLDER = profile_captures()
TRACES = sorted(path for path in FOLDER.rglob("*.json*") if path.suffix != ".0") if FOLDER else []
# Larger traces would not test more about cut events.
MAX_BYTES = 60_000


few = settings(deadline=None, max_examples=30)


def _nanoseconds(value: object) -> int | None:
    try:
        return round(float(str(value)) * 1000)
    except ValueError:
        return None


def _expected(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "ph": entry.get("ph", ""),
            "cat": entry.get("cat", ""),
            "name": entry.get("name", ""),
            "pid": entry.get("pid", 0),
            "tid": entry.get("tid", 0),
            "args": entry.get("args", {}),
        }
        for entry in events
    ]


def _without_times(kept: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: entry[name] for name in entry if name not in ("begin", "length")} for entry in kept]


def _whole(path: Any) -> tuple[bytes, list[Any] | None, dict[str, Any]]:
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    whole = json.loads(data)
    if isinstance(whole, list):
        return data, whole if whole and isinstance(whole[0], dict) else None, {}
    return data, whole.get("traceEvents"), {name: value for name, value in whole.items() if name != "traceEvents"}


def test_real_traces_give_the_events_that_json_gives() -> None:
    for path in (path for path in TRACES if path.stat().st_size < MAX_BYTES):
        data, events, keys = _whole(path)
        collector, facts = collect(data, 2**16)
        if events is None:
            assert facts is None, path
            continue
        assert facts is not None, path
        assert not facts.problems, path
        assert _without_times(collector.kept) == _expected(events), path
        assert collector.keys == keys, path
        for got, printed in zip(collector.kept, events, strict=True):
            assert got["length"] == _nanoseconds(printed.get("dur")), path


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.text(max_size=20) | st.sampled_from(['},{"', "}]", '"},{"', "\\", '\\"}]', "a\nb", "é\U0001f600"])
_EVENTS = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from("XiMs"), "name": _NAMES, "ts": st.integers(0, 2**50)},
        optional={
            "cat": _NAMES,
            "pid": st.integers(-(2**31), 2**40) | _NAMES,
            "tid": _NAMES,
            "args": st.dictionaries(_NAMES, _VALUES),
        },
    ),
    max_size=8,
)
_KEYS = st.dictionaries(st.text(max_size=5).filter(lambda name: name != "traceEvents"), _VALUES, max_size=3)
_BLOCKS = st.sampled_from([10, 60, 400, 4096])
_INDENTS = st.sampled_from([None, 0, 2])


@few
@given(_KEYS, _EVENTS, _KEYS, _INDENTS, _BLOCKS, st.booleans())
def test_any_trace_gives_the_events_that_json_gives(
    before: dict[str, Any], events: list[Any], after: dict[str, Any], indent: int | None, at_once: int, is_ascii: bool
) -> None:
    whole = {**before, "traceEvents": events, **{name: value for name, value in after.items() if name not in before}}
    data = json.dumps(whole, indent=indent, ensure_ascii=is_ascii).encode()
    collector, facts = collect(data, at_once)
    assert facts is not None
    assert not facts.problems
    assert _without_times(collector.kept) == _expected(events)
    assert collector.keys == {name: value for name, value in whole.items() if name != "traceEvents"}


@pytest.mark.parametrize("unreadable", ["[" * 5000 + "]" * 5000, '[{"a":"]}"},' + "[" * 5000 + "]" * 5001])
@pytest.mark.parametrize("position", ["key", "event", "last event"])
def test_event_that_python_cannot_read_leaves_the_others(unreadable: str, position: str) -> None:
    plain, odd = (json.dumps(event("cpu", "a", 1, 2)).replace("{}", f'{{"x":{value}}}') for value in ("1", unreadable))
    events = {"key": (plain, plain), "event": (plain, odd, plain), "last event": (plain, plain, odd)}[position]
    deep = f'"deep":{unreadable},' if position == "key" else ""
    data = f'{{"first":1,"traceEvents":[{",".join(events)}],{deep}"behind":{{"a":1}},"more":[1]}}'
    collector, facts = collect(data.encode(), 2**16)
    assert facts is not None
    assert (len(collector.kept), collector.keys) == (2, {"first": 1, "behind": {"a": 1}, "more": [1]})
    assert len(facts.problems) == (0 if position == "key" else 1)


@few
@given(_EVENTS.filter(bool), st.data(), _BLOCKS)
def test_a_cut_trace_gives_the_events_before_the_cut(events: list[Any], chance: st.DataObject, at_once: int) -> None:
    data = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
    cut = chance.draw(st.integers(0, len(data) - 1))
    collector, facts = collect(data[:cut], at_once)
    assert _without_times(collector.kept) == _expected(events)[: len(collector.kept)]
    assert facts is None or "truncated" in facts.problems[-1].text


@few
@given(_EVENTS.filter(bool), st.data(), st.integers(0, 255), _BLOCKS)
def test_a_changed_byte_raises_nothing(events: list[Any], chance: st.DataObject, byte: int, at_once: int) -> None:
    data = bytearray(
        json.dumps({"schemaVersion": 1, "traceEvents": events, "after": [1, "x"]}, ensure_ascii=False).encode()
    )
    data[chance.draw(st.integers(0, len(data) - 1))] = byte
    collect(bytes(data), at_once)


@few
@given(st.binary(max_size=200), st.sampled_from([b"", b"[{", b'{"traceEvents":[', b'[{"ph":"X","args":']))
def test_any_bytes_raise_nothing(rest: bytes, start: bytes) -> None:
    collect(start + rest)


GOOD = event("kernel", "good", 1, 2)
BROKEN = {
    "a literal that Python writes": b'{"ph":"X","name":"odd","ts":NaN,"dur":Infinity,"args":{"bandwidth":NaN}}',
    "empty fields": b'{"ph":"X","name":null,"cat":null,"pid":null,"tid":1.5,"args":null}',
    "half a pair of characters": rb'{"ph":"X","name":"\ud800","ts":1}',
    "bytes that are no text": b'{"ph":"X","name":"\xff\xfe","ts":1}',
    "too large a lane": b'{"ph":"X","name":"odd","pid":' + b"9" * 40 + b"}",
    "the same key twice": b'{"ph":"X","name":"odd","name":"odd","ts":1,"ts":2}',
    "a number without end": b'{"ph":"X","name":"odd","ts":' + b"9" * 5000 + b"}",
    "a name of a megabyte": b'{"ph":"X","name":"' + b"n" * 2**20 + b'","ts":1}',
}
UNREADABLE = {
    "no object": b"17",
    "a missing quote": b'{"ph":"X","name:"odd"}',
    "lists in lists": b'{"ph":"X","args":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "an event of two megabytes": b'{"ph":"X","name":"' + b"n" * 2**21 + b'","ts":1}',
}


def _around(odd: bytes) -> bytes:
    good = json.dumps(GOOD).encode()
    return b'{"traceEvents":[%b, %b, %b],"schemaVersion":1}' % (good, odd, good)


@pytest.mark.parametrize("odd", BROKEN)
def test_an_odd_event_is_read(odd: str) -> None:
    collector, facts = collect(_around(BROKEN[odd]))
    assert facts is not None
    assert not facts.problems
    assert [entry["name"] for entry in collector.kept][::2] == ["good", "good"]
    assert len(collector.kept) == 3
    collector.kept[1]["name"].encode()


def test_invalid_number_is_no_time() -> None:
    collector, _ = collect(_around(BROKEN["a literal that Python writes"]))
    assert (collector.kept[1]["begin"], collector.kept[1]["length"]) == (None, None)


@pytest.mark.parametrize("odd", UNREADABLE)
def test_unreadable_event_leaves_the_others(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MAX_EVENT_BYTES", 2**20)
    collector, facts = collect(_around(UNREADABLE[odd]), 2**19)
    assert facts is not None
    assert facts.problems
    assert collector.kept[0]["name"] == "good"
    assert collector.kept[-1]["name"] == "good"
    assert collector.keys == {"schemaVersion": 1}


def test_times_lose_no_digit() -> None:
    events = [event("kernel", "k", "1704161511420306.491", 13.08), event("kernel", "k", 1704161511420306.5, "0.001")]
    data = json.dumps(events).replace("1704161511420306.5,", "1704161511420306.491,").encode()
    for bytes_ in (data, data.replace(b'"k"', b'"\\ud800"')):  # the second is read event by event
        collector, _ = collect(bytes_)
        assert [(entry["begin"], entry["length"]) for entry in collector.kept] == [
            (1704161511420306491, 13080),
            (1704161511420306491, 1),
        ]


def test_large_key_is_skipped() -> None:
    large = {"stackFrames": [{"name": '"}],[{'}] * 50_000}
    for whole in (large | {"traceEvents": [GOOD], "rank": 3}, {"traceEvents": [GOOD]} | large | {"rank": 3}):
        collector, facts = collect(json.dumps(whole).encode())
        assert facts is not None
        assert not facts.problems
        assert (len(collector.kept), collector.keys) == (1, {"rank": 3})


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[", b"[1, 2]", b"[[{}]]", b'{"a": 1}', b'{"traceEvents": 7}', b"MZ\x90", b'"']
)
def test_file_without_a_trace_gives_nothing(text: bytes) -> None:
    assert collect(text)[1] is None


def test_truncated_gzip_stream_gives_the_events_before() -> None:
    events = [event("kernel", f"k{number * number}", number, 1) for number in range(20_000)]
    packed = gzip.compress(json.dumps({"traceEvents": events}).encode())
    collector, facts = collect(gzip.GzipFile(fileobj=io.BytesIO(packed[: len(packed) // 2])))
    assert facts is not None
    assert "truncated" in facts.problems[0].text
    assert _without_times(collector.kept) == _expected(events)[: len(collector.kept)]
