"""`telemetry parse`: runs one parser on saved output of its tool."""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from telemetry_daemon.commands import options, rendering
from telemetry_daemon.guarded.gzip_reader import is_gzip
from telemetry_daemon.plugins.loading import load_parsers
from telemetry_daemon.plugins.sources import find_parsers
from telemetry_daemon.recordings.recording_file import Damage, captures_in
from telemetry_daemon.simulate.jobs import simulated_parser
from telemetry_daemon.state.health import SourceFacts, result_of
from telemetry_daemon.state.store import Store
from telemetry_daemon.terminal import exits, streams
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.times import Clock
from telemetry_parsers.combining import combine_reports
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Library, Output, Poll, Problem, Report, Snapshot

EXAMPLES = {
    "telemetry parse rocm-smi saved.txt --format table": "Parse saved output.",
    "npu-smi info | telemetry parse npu-smi -": "Parse the current output of a tool.",
}

_VALIDITY_SECONDS = 3600.0
_MAX_INPUT_BYTES = 64 << 20
_HEAD_BYTES = 200


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument("source", metavar="SOURCE", help="the source of the output, such as mthreads-gmi")
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="a file with saved output, or a recording; - reads standard input"
    )
    parser.add_argument(
        "--format", choices=("json", "table", "prometheus"), default="json", help="output format (default: json)"
    )
    parser.add_argument(
        "--parsers.paths",
        dest="paths",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder with parser plugins; may be given several times",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the parsed outputs as one document, and return the exit status."""
    with load_parsers(find_parsers(arguments.paths)) as parser_set:
        options.warn_about_plugin_failures(parser_set)
        parsers = {loaded.parser.name: loaded.parser for loaded in parser_set.parsers}
        hyphenated = arguments.source.replace("_", "-")  # the tool `hccn_tool` has the source `hccn-tool`
        source = hyphenated if hyphenated in parsers else arguments.source
        options.check_sources([source], parsers)
        parser = parsers[source]
        captures = [capture for path in arguments.files for capture in _captures_in_file(parser, path)]
        snapshot = parse_captures(parser, captures)
        result = rendering.Result(snapshot, plugin_metrics=parser_set.metrics)
        sys.stdout.write(_format_result(result, arguments.format))
    status = snapshot.sources[0]
    return exits.PROBLEMS if status.problems or status.state not in ("ok", "no_devices") else exits.OK


def _format_result(result: rendering.Result, output_format: str) -> str:
    if output_format != "table":
        return rendering.render_document(result, output_format)
    from telemetry_exporters.terminal.table import Detail

    return rendering.render_table(result, Detail.EVERYTHING)


def _captures_in_file(parser: Parser, path: str) -> list[Capture]:
    content = options.read_content(path, _MAX_INPUT_BYTES, "use a readable file with the output of one run of the tool")
    if is_gzip(content) or b'"telemetry.capture/' in content.lstrip()[:_HEAD_BYTES]:
        return _recorded_captures(parser, path, content)
    request = parser.polls[0].request
    if isinstance(request, Library):
        text = f"'{path}' is not a recording, and '{parser.name}' cannot parse text"
        raise CommandError(f"{text}; use a file that `telemetry record` wrote")
    output = Output(name=path, text=content.decode(errors="replace"))
    return [Capture(source=parser.name, poll=path, request=request, outputs=(output,))]


def _recorded_captures(parser: Parser, path: str, content: bytes) -> list[Capture]:
    """Return the newest capture for each of the parser's polls."""
    newest_by_poll: dict[str, Capture] = {}
    sources: set[str] = set()
    damage = Damage()
    for capture in captures_in(io.BytesIO(content), damage):
        sources.add(capture.source)
        if capture.source == parser.name:
            newest_by_poll[capture.poll] = capture
    damage_lines = [f"'{path}': {text}" for text in damage.lines()]
    if not sources:
        reason = damage_lines[0] if damage_lines else f"'{path}' contains no captures"
        raise CommandError(f"{reason}; use a recording or the tool's output")
    for text in damage_lines:
        streams.say(text)
    if not newest_by_poll:
        raise CommandError(f"'{path}' has no capture of '{parser.name}', only of {', '.join(sorted(sources))}")
    if any(map(simulated_parser, newest_by_poll.values())):
        text = f"'{path}' is a recording of simulated cards, which contains no output of '{parser.name}'"
        raise CommandError(f"{text}; show it with `telemetry snapshot --replay FILE`")
    return list(newest_by_poll.values())


def parse_captures(parser: Parser, captures: Sequence[Capture]) -> Snapshot:
    """Parse the captures, and return a snapshot with all their readings."""
    reports = [_parse_capture(parser, capture, adds_poll_name=len(captures) > 1) for capture in captures]
    report = combine_reports(reports)
    monotonic_time, wall_time = time.monotonic(), time.time()
    store = Store("", Clock(lambda: monotonic_time, lambda: wall_time))
    store.facts.set_peaks(None)  # the output of a tool contains no peak rates
    store.add_source(SourceFacts(parser.name, parser.vendor, parser.gives), parser.metrics)
    poll = Poll("outputs", parser.polls[0].request)
    capture = replace(captures[0], poll=poll.name, failure=None, wall_time=wall_time, monotonic_time=monotonic_time)
    # A tool that was missing during the recording is reported as missing.
    failure = captures[0].failure if all(capture.failure for capture in captures) else None
    result = result_of(replace(capture, failure=failure), report, 0)
    store.put(parser.name, poll, capture, report, result, _VALIDITY_SECONDS)
    return _restore_problems(store.snapshot(), report)


def _parse_capture(parser: Parser, capture: Capture, *, adds_poll_name: bool) -> Report:
    if capture.failure is not None:
        problem = Problem(capture.poll, capture.failure.text)
        return Report(outcome="failed", reason=capture.failure.reason, problems=(problem,))
    report = parser.parse(capture)
    if not adds_poll_name:
        return report
    return replace(
        report,
        problems=tuple(Problem(f"{capture.poll} {problem.where}".strip(), problem.text) for problem in report.problems),
    )


def _restore_problems(snapshot: Snapshot, report: Report) -> Snapshot:
    """Add the report's problems to the snapshot of a failed source, for which the store drops them."""
    status = snapshot.sources[0]
    if status.state in ("ok", "no_devices"):
        return snapshot
    problems = report.problems or (Problem("output", status.detail or "the output was not understood"),)
    return replace(snapshot, sources=(replace(status, problems=problems, unknown_fields=report.unknown_fields),))
