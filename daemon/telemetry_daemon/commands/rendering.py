"""A snapshot as a command has it, rendered in the format that was asked for; what a format needs is imported with it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from telemetry_parsers.model import Metric, Snapshot

if TYPE_CHECKING:
    from telemetry_exporters.terminal.style import Colour

# Where the output is no terminal, lines are as long as they need to be.
_UNLIMITED = 0
_USUAL = 80


@dataclass(frozen=True, slots=True)
class Answer:
    """A snapshot, where it is from, and the metrics that plugins declare; `document` is the daemon's own, with those metrics, too.

    `command_lines` are those of its processes by pid, where this command itself may read them.
    """

    snapshot: Snapshot
    origin: str = ""
    metrics: tuple[Metric, ...] = ()
    document: Mapping[str, Any] | None = None
    command_lines: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Look:
    """How much the table shows, of which devices, in how many columns (0: as the terminal has), and who its heading says told it.

    `command_lines` are those of processes, by pid.
    """

    everything: bool = False
    why: bool = False
    processes: bool = False
    ids: frozenset[str] | None = None
    patterns: tuple[str, ...] = ()
    width: int = 0
    origin: str = ""
    command_lines: Mapping[int, str] = field(default_factory=dict)


def render(snapshot: Snapshot, form: str, metrics: Iterable[Metric], look: Look) -> str:
    """The whole document as text; `metrics` are those that plugins declare."""
    extra = {metric.key: metric for metric in metrics}
    if form == "json":
        from telemetry_exporters.documents import snapshot_json

        return snapshot_json.render(snapshot, extra)
    if form == "csv":
        from telemetry_exporters.documents import snapshot_csv

        return (
            snapshot_csv.processes(snapshot, look.command_lines)
            if look.processes
            else snapshot_csv.render(snapshot, extra)
        )
    if form == "prometheus":
        from telemetry_exporters.prometheus import renderer

        return renderer.text_page(snapshot, extra).decode()
    return _table(snapshot, extra, look)


def _table(snapshot: Snapshot, extra: dict[str, Metric], look: Look) -> str:
    from telemetry_exporters.terminal.table import Chosen, Detail, table

    wanted = (
        (look.everything, Detail.EVERYTHING),
        (look.why, Detail.REASONS),
        (look.processes, Detail.PROCESSES),
    )
    detail = Detail.BRIEF
    for is_wanted, one in wanted:
        detail |= one if is_wanted else Detail.BRIEF
    chosen = Chosen(look.ids, look.patterns, look.origin, look.command_lines)
    return table(snapshot, look.width or _terminal_width(), colour(), detail, extra, chosen)


def _terminal_width() -> int:
    """As $COLUMNS says, or the terminal; shutil knows it as well, and takes 5 ms to import."""
    if not sys.stdout.isatty():
        return _UNLIMITED
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL
    except OSError:  # a terminal that does not tell its size
        return _USUAL


def colour() -> Colour:
    """Colours where they are understood and nobody asked for none (https://no-color.org)."""
    from telemetry_exporters.terminal.style import Colour

    is_wanted = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")
    return Colour.ANSI if is_wanted else Colour.NEVER
