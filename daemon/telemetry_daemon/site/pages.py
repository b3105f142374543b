"""The HTML pages of the node and of a device, which are complete without the script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import urlencode

from telemetry_daemon.site.page_files import script, style
from telemetry_daemon.state.flights import FlightFile
from telemetry_daemon.version import __version__
from telemetry_exporters import human
from telemetry_exporters.judgement import overview
from telemetry_exporters.judgement.verdict import Finding
from telemetry_exporters.snapshot_filter import NO_METRICS, Metrics, clean_snapshot, usable_metrics
from telemetry_exporters.terminal import details
from telemetry_exporters.terminal.style import ABSENT
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent, Health, MergedDevice, MergedReading, Snapshot, SourceStatus, Value
from telemetry_parsers.past import SLOT_SECONDS, SLOTS

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect x='3' y='3' width='10' height='10' rx='2' fill='%232b6cd4'/%3E"
    "%3Cpath d='M6 1v2M10 1v2M6 13v2M10 13v2M1 6h2M1 10h2M13 6h2M13 10h2' stroke='%232b6cd4' stroke-width='1.5'/%3E"
    "%3C/svg%3E"
)
_MAX_FLIGHTS = 20
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


@dataclass(frozen=True, slots=True)
class Links:
    """The paths of a page's links, and the flight recordings to list."""

    metrics: str
    snapshot: str
    history: str
    health: str
    readiness: str
    peers: tuple[str, ...] = ()
    flights: tuple[FlightFile, ...] = ()


def page(snapshot: Snapshot, links: Links, plugin_metrics: Metrics = NO_METRICS) -> str:
    """Return the HTML page of the node."""
    cleaned = clean_snapshot(snapshot, plugin_metrics)
    rows = overview.rows(cleaned)
    return "".join(
        (
            "<!doctype html>\n",
            _head_html(cleaned),
            _header_html(cleaned),
            '<main id="main" class="plain" tabindex="-1">\n',
            _tiles_html(overview.node_tiles((overview.node_figures(rows),))),
            _troubles_html(overview.troubles(cleaned)),
            _devices_html(sorted(rows, key=lambda row: row.condition.urgency)),
            _sources_html(cleaned),
            "</main>\n",
            _footer_html(links),
            f"<script>{script()}</script>\n</body>\n</html>\n",
        )
    )


def device_page(snapshot: Snapshot, device_id: str, links: Links, plugin_metrics: Metrics = NO_METRICS) -> str:
    """Return the HTML page of a device, or "" if the device is unknown."""
    cleaned = clean_snapshot(snapshot, plugin_metrics)
    row = next((row for row in overview.rows(cleaned) if row.device.id == device_id), None)
    if row is None:
        return ""
    metrics = usable_metrics(plugin_metrics)
    lines = (*details.identity_lines(row.device), *details.device_lines(row.device, metrics))
    counters = {
        details.reading_name(reading, metrics): reading
        for reading in row.device.readings
        if reading.metric in metrics and metrics[reading.metric].kind == "counter"
    }
    return "".join(
        (
            "<!doctype html>\n",
            _head_html(cleaned),
            _header_html(cleaned),
            '<main id="main" class="plain" tabindex="-1">\n<p><a href="./">← All devices</a></p>\n',
            f"<h2>{_device_name(row.device)}</h2>\n",
            "".join(map(_finding_html, row.findings)),
            f'<dl class="list">\n{"".join(_reading_item(line, counters.get(line[0])) for line in lines)}</dl>\n</main>\n',
            _footer_html(links),
            "</body>\n</html>\n",
        )
    )


def escaped(text: str) -> str:
    """Return the text escaped for HTML content and attributes."""
    return text.translate(_ESCAPES)


def _head_html(snapshot: Snapshot) -> str:
    # The script needs these attributes before its first request.
    attributes = f'data-version="{escaped(__version__)}" data-slots="{SLOTS}" data-slot-seconds="{SLOT_SECONDS:g}"'
    return (
        f'<html lang="en" {attributes}>\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="{_ICON}">\n'
        f"<title>{escaped(snapshot.hostname)} · device telemetry</title>\n<style>{style()}</style>\n</head>\n"
    )


def _header_html(snapshot: Snapshot) -> str:
    visible_notes = "".join(f'<p class="note">{escaped(note)}</p>\n' for note in overview.notes(snapshot))
    return (
        '<body>\n<a class="skip" href="#main">Skip to the devices</a>\n'
        f"<header>\n{_clipped('h1', snapshot.hostname)}{_clipped('p', overview.inventory(snapshot), 'inventory')}"
        f'<span class="time">{human.utc(snapshot.wall_time)}</span>\n'
        '<noscript><a href="./">Reload</a></noscript>\n</header>\n'
        f'<div id="notes">{visible_notes}</div>\n<p id="banner" class="note" role="status" hidden></p>\n'
        '<p id="news" class="unseen" aria-live="polite"></p>\n'
    )


def _clipped(tag: str, text: str, classes: str = "") -> str:
    """Return an HTML element with the full text as its tooltip."""
    return f'<{tag} class="{classes}" title="{escaped(text)}">{escaped(text)}</{tag}>\n'


def _tiles_html(tiles: Iterable[overview.Tile]) -> str:
    parts = [
        f"<div><dt>{escaped(tile.label)}</dt><dd>{escaped(tile.value)} <small>{escaped(tile.note)}</small></dd></div>\n"
        for tile in tiles
    ]
    return f'<dl class="figures">\n{"".join(parts)}</dl>\n' if parts else ""


def _troubles_html(troubles: Iterable[overview.Trouble]) -> str:
    parts = [
        f'<li class="{trouble.severity.value}"><strong>{escaped(trouble.what)}</strong>: {escaped(trouble.reason)}<br>'
        f'<span class="dim">{_render_code_spans(trouble.remedy)}</span></li>\n'
        for trouble in troubles
    ]
    return f'<ul class="troubles">\n{"".join(parts)}</ul>\n' if parts else ""


def _render_code_spans(text: str) -> str:
    parts = escaped(text).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _devices_html(rows: Sequence[overview.DeviceRow]) -> str:
    if not rows:
        return '<h2>Devices</h2>\n<p class="empty">No devices reported.</p>\n'
    headings = ("Device", "State", "Model", "Temperature", "Power", "Memory", "Utilization")
    if not any(row.device.allocations for row in rows):
        return f"<h2>Devices</h2>\n{_table(headings, map(_device_row, rows))}"
    cell = '<td class="wide" data-heading="Owner">{}</td>'.format
    lines = (_device_row(row, cell(escaped(human.owners_text(row.device.allocations)) or ABSENT)) for row in rows)
    return f"<h2>Devices</h2>\n{_table((*headings, 'Owner'), lines)}"


def _device_row(row: overview.DeviceRow, owner: str = "") -> str:
    device = row.device
    return "".join(
        (
            f'<tr data-device="{escaped(device.id)}">',
            f'<th scope="row"><a href="./?{escaped(urlencode({"device": device.id}))}">{_device_name(device)}</a>',
            f"<small>{escaped(device.id)}</small></th>",
            _state_cell(row.condition),
            f'<td class="wide" data-heading="Model">{escaped(row.model) or _absent_mark("unknown")}</td>',
            _number_cell("temperature_celsius", "Temperature", _html(row.temperature, human.celsius)),
            _number_cell("power_watts", "Power", *_usage_html(row.power, row.power_cap, human.watts)),
            _number_cell("memory_used_bytes", "Memory", *_memory_html(row)),
            _number_cell(
                "utilization_ratio", "Utilization", _html(row.utilization, human.percent), _ratio(row.utilization, 1.0)
            ),
            owner,
            "</tr>\n",
        )
    )


def _device_name(device: MergedDevice) -> str:
    return escaped(f"{device.vendor} {device.device}")


def _finding_html(finding: Finding) -> str:
    meaning = f": {escaped(finding.meaning)}" if finding.meaning else ""
    headline = f'<span class="state {finding.severity.value}">{escaped(finding.headline)}</span>'
    return f"<p>{headline}{meaning}<br>{_render_code_spans(finding.remedy)}</p>\n"


def _reading_item(line: details.Line, counter: MergedReading | None) -> str:
    """Return a reading as HTML. The page's script computes a counter's rate from the attributes."""
    name, content, note = map(escaped, line)
    attributes = ""
    if counter is not None and not isinstance(counter.value, Absent):
        unit = next((unit for unit in ("bytes", "joules", "seconds") if f"_{unit}_" in counter.metric), "")
        attributes = f' data-total="{counter.value}" data-taken="{counter.taken}" data-unit="{unit}"'
    return f"<div{attributes}><dt>{name}</dt><dd>{content} <small>{note}</small></dd></div>\n"


def _table(headings: Iterable[str], lines: Iterable[str]) -> str:
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(lines)}</tbody>\n</table>\n"


def _state_cell(condition: Finding) -> str:
    return (
        f'<td class="state-cell" data-heading="State">'
        f'<span class="state {condition.severity.value}">{escaped(condition.word)}</span></td>'
    )


def _number_cell(metric: str, heading: str, content: str, share: float | None = None) -> str:
    bar = "" if share is None else _bar(share)
    return f'<td class="number" data-metric="{metric}" data-heading="{heading}">{content}{bar}</td>'


def _bar(share: float) -> str:
    return (
        '<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{min(share, 1.0) * 100:.1f}" height="4"/></svg>'
    )


def _ratio(part: Value | None, whole: Value | None) -> float | None:
    number, limit = overview.as_number(part), overview.as_number(whole)
    return number / limit if number is not None and limit is not None and limit > 0 else None


def _absent_mark(reason: str) -> str:
    return f'<span class="absent" title="{escaped(reason)}">{ABSENT}</span>'


def _html(value: Value | None, to_text: Callable[[float], str]) -> str:
    if value is None:
        return _absent_mark("no source reports it")
    if isinstance(value, Absent):
        return _absent_mark(value.value.replace("_", " "))
    return escaped(to_text(value))


def _usage_html(part: Value | None, whole: Value | None, to_text: Callable[[float], str]) -> tuple[str, float | None]:
    if overview.as_number(whole) is None:
        return _html(part, to_text), None
    return f'{_html(part, to_text)} <span class="dim">of {_html(whole, to_text)}</span>', _ratio(part, whole)


def _memory_html(row: overview.DeviceRow) -> tuple[str, float | None]:
    if overview.shares_host_memory(row.device):
        return escaped(human.SHARED_WITH_HOST), None
    return _usage_html(row.memory_used, row.memory_total, human.byte_size)


def _sources_html(snapshot: Snapshot) -> str:
    if not snapshot.sources:
        return '<h2>Sources</h2>\n<p class="empty">No source has been polled yet.</p>\n'
    lines = (_source_row(source, snapshot.monotonic_time) for source in snapshot.sources)
    return f"<h2>Sources</h2>\n{_table(('Source', 'State', 'Version', 'Last polls'), lines)}"


def _source_row(source: SourceStatus, now: float) -> str:
    polls = ", ".join(_poll_text(poll, now) for poll in source.polls if poll.attempted)
    problems = "".join(_problem_lines(source))
    return (
        f'<tr><th scope="row">{escaped(source.source)}</th>{_state_cell(overview.source_condition(source))}'
        f'<td data-heading="Version">{escaped(source.version or "") or ABSENT}</td>'
        f'<td class="wide" data-heading="Last polls">{polls or ABSENT}{problems}</td></tr>\n'
    )


def _poll_text(poll: Health, now: float) -> str:
    age = human.seconds(max(0.0, round(now - poll.attempted_monotonic)))
    return f'{escaped(poll.poll)} <span class="dim">{age} ago, took {human.seconds(poll.seconds)}</span>'


def _problem_lines(source: SourceStatus) -> Iterator[str]:
    for problem in source.problems:
        yield f'<span class="problem">{escaped(problem.where)}: {escaped(problem.text)}</span>'


def _footer_html(links: Links) -> str:
    links_by_name = (
        ("metrics", links.metrics),
        ("JSON", links.snapshot),
        ("history", links.history),
        ("health", links.health),
        ("ready", links.readiness),
    )
    # Relative links also work behind a proxy that serves the page below another path.
    anchors = "\n".join(f'<a href=".{escaped(path)}">{name}</a>' for name, path in links_by_name)
    return f"<footer>\n{anchors}\n<span>device telemetry {escaped(__version__)}</span>\n{_peers_html(links.peers)}{_flights_html(links.flights)}</footer>\n"


def _peers_html(paths: tuple[str, ...]) -> str:
    if not paths:
        return ""
    anchors = " ".join(f'<a href=".{escaped(path)}">{escaped(path.rpartition("/")[2])}</a>' for path in paths)
    return f"<details><summary>metrics under other exporters' names</summary>\n{anchors}</details>\n"


def _flights_html(flights: tuple[FlightFile, ...]) -> str:
    if not flights:
        return ""
    lines = (
        f"<li>{human.utc(flight.wall_time)} {escaped(flight.cause.replace('_', ' '))}: "
        f"<code>telemetry top --replay {escaped(flight.path)}</code></li>\n"
        for flight in flights[:_MAX_FLIGHTS]
    )
    return f"<details><summary>recordings of incidents</summary>\n<ul>\n{''.join(lines)}</ul>\n</details>\n"
