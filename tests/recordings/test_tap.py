"""The tap writes a capture once for all that listen, and nothing at all while nobody does."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from telemetry_daemon.recordings import last_minutes as module
from telemetry_daemon.recordings.last_minutes import Line, Tap
from telemetry_parsers.codec.captures import capture_from_plain, decode_line
from telemetry_parsers.model import Capture, Library, Output

CAPTURE = Capture("smi", "fast", Library("x"), (Output(data={"watts": 41.5}),), monotonic_time=7.0)


def test_each_listener_gets_each_capture_as_a_line() -> None:
    tap = Tap()
    first: list[Line] = []
    second: list[Line] = []
    tap.listen(first.append, lambda: None)
    tap(CAPTURE, None)
    tap.listen(second.append, lambda: None)
    tap(CAPTURE, None)
    tap.leave(first.append)
    tap(CAPTURE, None)
    assert [len(first), len(second)] == [2, 2]
    assert (first[0].source, first[0].poll, first[0].taken) == ("smi", "fast", 7.0)
    assert capture_from_plain(decode_line(first[0].text)) == CAPTURE
    assert first[0].text.endswith(b"}\n")


def test_a_capture_is_written_once_for_all_and_not_at_all_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    encode = module.capture_line
    monkeypatch.setattr(module, "capture_line", lambda capture: written.append(1) or encode(capture))
    tap = Tap()
    tap(CAPTURE, None)
    assert written == []
    for _ in range(3):
        tap.listen([].append, lambda: None)
    tap(CAPTURE, None)
    assert written == [1]


def test_between_two_captures_nothing_is_lost_and_nothing_comes_twice() -> None:
    """What is fetched first, and what is heard from then on, are all captures, each once."""
    tap = Tap()
    kept: list[Line] = []
    heard: list[Line] = []
    tap.listen(kept.append, lambda: None)
    tap(CAPTURE, None)
    before = tap.listen(heard.append, lambda: list(kept))
    tap(replace(CAPTURE, monotonic_time=8.0), None)
    assert [line.taken for line in (*before, *heard)] == [7.0, 8.0]


def test_what_json_does_not_have_is_told_once_and_costs_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    tap = Tap()
    heard: list[Line] = []
    tap.listen(heard.append, lambda: None)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            tap(replace(CAPTURE, outputs=(Output(data={"watts": float("nan")}),)), None)
    assert [record.message for record in caplog.records] == ["a capture cannot be recorded"]
    tap(CAPTURE, None)
    assert len(heard) == 1
