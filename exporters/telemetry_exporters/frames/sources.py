"""The sources of one node: the state of each, its version, its polls, and what was not understood."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry_exporters import human
from telemetry_exporters.columns import SEVERITY_STYLES
from telemetry_exporters.frames.body import Body, of_lines, saying
from telemetry_exporters.frames.cards import BADNESS
from telemetry_exporters.frames.lines import wrapped
from telemetry_exporters.frames.model import Line, Piece, Size, State
from telemetry_exporters.frames.scene import chosen_scene
from telemetry_exporters.overview import source_condition
from telemetry_exporters.style import Style
from telemetry_exporters.text import display_width, pad_right
from telemetry_parsers.model import Health, SourceStatus

_INDENT = "  "


def body(state: State, size: Size) -> Body:
    """The sources of the chosen node, those in trouble first."""
    scene = chosen_scene(state)
    if scene is None or scene.seen is None:
        return saying("No node has answered yet.", size.columns)
    if scene.slot is not None:
        return saying("Not kept: how the sources did in the past. n: back to now", size.columns)
    snapshot = scene.seen.snapshot
    if not snapshot.sources:
        return saying("Nothing is known of the sources.", size.columns)
    widest = max(display_width(source.source) for source in snapshot.sources)
    ordered = sorted(snapshot.sources, key=lambda source: BADNESS[source_condition(source).severity])
    lines = [
        line
        for source in ordered
        for line in _lines(source, min(widest, size.columns // 3), snapshot.monotonic_time, size.columns)
    ]
    return of_lines(lines)


def _lines(source: SourceStatus, widest: int, now: float, width: int) -> Iterator[Line]:
    found = source_condition(source)
    name = Piece(pad_right(source.source, widest) + "  ", Style.BOLD)
    version = (Piece(f"  {source.version}"),) if source.version else ()
    yield (name, Piece(found.word, SEVERITY_STYLES[found.severity]), *version)
    texts = [(text, Style.BAD) for text in (source.detail, found.remedy and f"→ {found.remedy}") if text]
    texts += [(_poll_words(poll, now), Style.PLAIN) for poll in source.polls]
    texts += [(f"{problem.where}: {problem.text}", Style.WARNING) for problem in source.problems]
    if source.unknown_fields:
        texts.append((f"{len(source.unknown_fields)} unknown fields", Style.DIM))
    for text, style in texts:
        yield from wrapped(text, width, style, _INDENT * 2, _INDENT)


def _poll_words(poll: Health, now: float) -> str:
    state = f"{poll.state}: {poll.reason}" if poll.reason else poll.state
    if not poll.attempted:
        return f"{poll.poll}: {state}, not tried yet".replace("_", " ")
    age = human.seconds(max(0.0, round(now - poll.attempted_monotonic, 1)))
    return f"{poll.poll}: {state}, took {human.seconds(poll.seconds)}, {age} ago".replace("_", " ")
