"""docs/images/telemetry-top.svg: the screen of `telemetry top` for a simulated node with a lost card."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from html import escape

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_daemon.simulate.simulation import NO_FAULTS, FaultRates
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.events import Events
from telemetry_daemon.state.health import SourceFacts, result_of
from telemetry_daemon.state.history import History
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters.terminal.frames.frame import frame
from telemetry_exporters.terminal.frames.model import NodeState, Size, State
from telemetry_exporters.terminal.style import Colour, paint
from telemetry_parsers.model import Snapshot
from telemetry_parsers.past import SLOT_SECONDS, SLOTS

NODE = "2xamd,2xascend,1xhygon,1xmoorethreads,2xnvidia"
FAULTS = FaultRates(lost_cards=1.0)
COLUMNS = 110
_CARDS, _SIZE = "8xnvidia", Size(120, 24)
_MAX_STEPS = 24 * 60 * 12
_FONT_SIZE, _ADVANCE, _LINE_HEIGHT, _MARGIN = 14, 8.4, 20, 18
# Maps parameters of escape sequences to CSS classes.
_CLASSES = {"1": "bold", "2": "dim", "31": "bad", "32": "good", "33": "warning", "36": "accent"}
_PAINTED = re.compile(r"\x1b\[(\d+)m(.*?)\x1b\[0m")
_STYLE = (
    "text { font: 14px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d0d7de;"
    " white-space: pre } .bold { font-weight: bold; fill: #ffffff } .dim { fill: #848d97 } .bad { fill: #ff7b72 }"
    " .good { fill: #56d364 } .warning { fill: #e3b341 } .accent { fill: #56d4dd }"
)


def simulate(node: str, faults: FaultRates, step_seconds: float) -> Iterator[tuple[Snapshot, History]]:
    """Simulate a node from its start on. Yield its snapshot and its history at each step."""
    times = {"now": 0.0}
    clock = Clock(lambda: times["now"], lambda: 1_780_000_000.0 + times["now"])
    history = History(clock)
    store = Store("node7", clock, (), Accumulator(Events(), history))
    sources = simulated_sources(parse_demo(node), faults=faults, clock=clock)
    for source in sources:
        store.add_source(SourceFacts(source.parser.name, source.parser.vendor, source.parser.gives))
    polls = [(source, poll) for source in sources for poll in source.parser.polls]
    due = [0.0] * len(polls)
    while True:
        for index, (source, poll) in enumerate(polls):
            if times["now"] >= due[index]:
                due[index] = times["now"] + poll.interval
                capture = source.reader.read(poll, Targets())
                report = source.parser.parse(capture)
                store.put(source.parser.name, poll, capture, report, result_of(capture, report, 0), poll.interval)
        history.end_slots(store.snapshot)
        yield store.snapshot(), history
        times["now"] += step_seconds


def snapshots(node: str, faults: FaultRates = NO_FAULTS, step_seconds: float = 60.0) -> Iterator[Snapshot]:
    """Yield the snapshot of a simulated node at each step."""
    return (snapshot for snapshot, _ in simulate(node, faults, step_seconds))


def picture() -> str:
    """Return the picture of the first step after half an hour at which a card is lost."""
    steps = itertools.islice(simulate(_CARDS, FAULTS, SLOT_SECONDS), SLOTS, _MAX_STEPS)
    snapshot, history = next(step for step in steps if any(device.up is False for device in step[0].devices))
    state = NodeState("node7", snapshot, history.past(), age_seconds=0.0)
    screen = frame(State(nodes=(state,), title="the daemon of this node"), _SIZE)
    lines = ["".join(paint(piece.text, piece.style, Colour.ANSI) for piece in line) for line in screen.lines]
    return svg(["\x1b[1m$ telemetry top\x1b[0m", *lines])


def svg(lines: list[str]) -> str:
    """Return lines of a terminal as an SVG picture."""
    texts = [_PAINTED.sub(r"\2", line) for line in lines]
    width = round(max(map(len, texts)) * _ADVANCE) + 2 * _MARGIN
    height = len(lines) * _LINE_HEIGHT + 2 * _MARGIN
    rows = "".join(
        _svg_row(index, line, len(text)) for index, (line, text) in enumerate(zip(lines, texts, strict=True)) if text
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n{rows}</svg>\n'
    )


def _svg_row(index: int, line: str, length: int) -> str:
    top = _MARGIN + index * _LINE_HEIGHT + _FONT_SIZE
    # Fonts differ in their advance, but columns must keep their width.
    text_width = round(length * _ADVANCE, 1)
    spans = _PAINTED.sub(
        lambda match: f'<tspan class="{_CLASSES[match[1]]}">{match[2]}</tspan>', escape(line, quote=False)
    )
    return f'<text x="{_MARGIN}" y="{top}" textLength="{text_width}" xml:space="preserve">{spans}</text>\n'
