"""docs/images/telemetry-terminal.svg: what `telemetry snapshot` shows of a simulated node, one of whose cards is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.course import NO_FAULTS, Faults
from telemetry_daemon.simulate.demo import parse_demo
from telemetry_daemon.simulate.source import simulated_sources
from telemetry_daemon.state.health import SourceFacts, judge
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_exporters.terminal.style import Colour
from telemetry_exporters.terminal.table import table
from telemetry_parsers.model import Snapshot

NODE = "2xamd,2xascend,1xhygon,1xmoorethreads,2xnvidia"
FAULTS = Faults(lost_cards=1.0)
_MINUTES = 24 * 60
COLUMNS = 110
_LOST = "lost: "
_FONT_SIZE, _ADVANCE, _LINE, _MARGIN = 14, 8.4, 20, 18
# By the parameter of the escape sequence.
_CLASSES = {"1": "bold", "2": "dim", "31": "bad", "32": "good", "33": "warning"}
_PAINTED = re.compile(r"\x1b\[(\d+)m(.*?)\x1b\[0m")
_STYLE = (
    "text { font: 14px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #d0d7de;"
    " white-space: pre } .bold { font-weight: bold; fill: #ffffff } .dim { fill: #848d97 } .bad { fill: #ff7b72 }"
    " .good { fill: #56d364 } .warning { fill: #e3b341 }"
)


def snapshots(node: str, faults: Faults = NO_FAULTS, step_seconds: float = 60.0) -> Iterator[Snapshot]:
    """What a simulated node shows from step to step of its course, the first time at its start."""
    times = {"now": 0.0}
    clock = Clock(lambda: times["now"], lambda: 1_780_000_000.0 + times["now"])
    store = Store("node7", clock)
    sources = simulated_sources(parse_demo(node), faults=faults, clock=clock)
    for source in sources:
        store.add_source(SourceFacts(source.parser.name, source.parser.vendor, source.parser.gives))
    while True:
        for source in sources:
            for poll in source.parser.polls:
                capture = source.reader.read(poll, Targets())
                report = source.parser.parse(capture)
                store.put(source.parser.name, poll, capture, report, judge(capture, report, 0), poll.interval)
        yield store.snapshot()
        times["now"] += step_seconds


def picture() -> str:
    """The picture, of the first minute at which a card is lost."""
    minutes = (
        table(shown, COLUMNS, Colour.ANSI) for shown, _ in zip(snapshots(NODE, FAULTS), range(_MINUTES), strict=False)
    )
    text = next(text for text in minutes if _LOST in text)
    return svg(["\x1b[1m$ telemetry snapshot\x1b[0m", *text.splitlines()])


def svg(lines: list[str]) -> str:
    """Lines of a terminal as a picture."""
    plain = [_PAINTED.sub(r"\2", line) for line in lines]
    width = round(max(map(len, plain)) * _ADVANCE) + 2 * _MARGIN
    height = len(lines) * _LINE + 2 * _MARGIN
    rows = "".join(
        _row(number, line, len(text)) for number, (line, text) in enumerate(zip(lines, plain, strict=True)) if text
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n{rows}</svg>\n'
    )


def _row(number: int, line: str, length: int) -> str:
    top = _MARGIN + number * _LINE + _FONT_SIZE
    # Whatever the font's own advance is, a column is a column.
    wide = round(length * _ADVANCE, 1)
    spans = _PAINTED.sub(
        lambda found: f'<tspan class="{_CLASSES[found[1]]}">{found[2]}</tspan>', escape(line, quote=False)
    )
    return f'<text x="{_MARGIN}" y="{top}" textLength="{wide}" xml:space="preserve">{spans}</text>\n'
