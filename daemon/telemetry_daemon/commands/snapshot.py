"""`telemetry snapshot`: reads all sources and prints the readings, once or repeatedly."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry_daemon.commands import options, rendering
from telemetry_daemon.commands.rendering import Result
from telemetry_daemon.terminal import exits, streams
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters.text import clean
from telemetry_parsers.model import MergedDevice, Process, Snapshot

if TYPE_CHECKING:  # imported at run time only for `--processes`
    from telemetry_parsers.ownership import Task

EXAMPLES = {
    "telemetry snapshot": "Show all accelerators and their problems.",
    "telemetry snapshot --why": "Also show why readings are absent.",
    "telemetry snapshot --all 'temp*' --device 3": "Read and show all temperatures of one device.",
    "telemetry snapshot --format json --watch 10s": "Print a line of JSON every ten seconds.",
    "telemetry snapshot --replay node.jsonl.gz --at 03:12:07": "Show a recording at a certain time.",
    "telemetry snapshot --node gpu-17": "Show the readings of another node's daemon.",
}

_ReadSnapshot = Callable[[], Result]
_FAILED_STATES = frozenset({"failed", "stuck"})
_FORMATS = ("table", "json", "csv", "prometheus")
# A daemon's document contains all data that these formats need.
_DAEMON_FORMATS = ("table", "json")
_TABLE_FLAGS = ("why", "width")
# Reported start times of the same process differ by at most this.
_START_TOLERANCE_SECONDS = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument("--format", choices=_FORMATS, default="table", help="output format (default: table)")
    options.add_source(parser, "read")
    parser.add_argument("--vendor", metavar="NAME", help="show only this vendor's devices")
    parser.add_argument("--device", metavar="DEVICE", help="show only devices with this index, `device` label or id")
    parser.add_argument(
        "--all",
        nargs="*",
        metavar="METRIC",
        help="run slow polls, too, and show all readings of each device; METRIC, such as 'temp*', selects some of them",
    )
    parser.add_argument("--why", action="store_true", help="show the reasons for absent readings below the table")
    parser.add_argument(
        "--processes",
        action="store_true",
        help="list the devices' processes below the table, in JSON or as CSV; on this machine, show their command lines, too",
    )
    parser.add_argument(
        "--width", type=_parse_width, metavar="COLUMNS", help="the table's width (default: the terminal's)"
    )
    parser.add_argument(
        "--watch",
        nargs="?",
        type=options.parse_seconds_up_to_a_day,
        const=2.0,
        metavar="TIME",
        help="print at this interval until interrupted (default: 2s)",
    )
    parser.add_argument(
        "--timeout",
        type=options.parse_seconds_up_to_a_day,
        metavar="TIME",
        help="do not wait longer than TIME for a source (default: 20s)",
    )
    options.add_origins(parser, "show", options.DEMO_HELP, "--node", "--demo", "--replay").add_argument(
        "--from",
        dest="origin",
        choices=("daemon", "tools"),
        help="read from the daemon or the tools (default: for tables and JSON, the daemon if it has the same settings; otherwise the tools)",
    )
    options.add_at(parser)
    options.add_credentials(parser)
    options.add_config(parser)


def _parse_width(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 20 <= int(text[:6]) <= 10_000):
        raise argparse.ArgumentTypeError("must be a number from 20 to 10000")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Print the snapshot and return the exit status."""
    _check_flags(arguments)
    with ExitStack() as exit_stack:
        return _print_snapshots(_choose_reader(arguments, exit_stack), arguments)


def _check_flags(arguments: argparse.Namespace) -> None:
    _check_format(arguments)
    options.check_origin_flags(arguments)
    if arguments.origin == "daemon" or arguments.node is not None:
        if arguments.source:
            raise CommandError("a daemon reports all sources; omit --source, or read the tools with --from tools")
        if arguments.format == "prometheus":
            raise CommandError("--format prometheus needs --from tools; a daemon serves this format at /metrics")
    if arguments.vendor is not None:
        options.check_vendor(arguments.vendor, options.load_settings(arguments).parsers.paths)


def _check_format(arguments: argparse.Namespace) -> None:
    fmt = arguments.format
    for flag in _TABLE_FLAGS if fmt != "table" else ():
        if getattr(arguments, flag):
            raise CommandError(f"--{flag} is only for tables; leave it out with --format {fmt}")
    if arguments.processes and fmt == "prometheus":
        raise CommandError("--processes is only for tables, JSON and CSV; leave it out with --format prometheus")
    if arguments.all and fmt != "table":
        raise CommandError(f"METRIC after --all is only for tables; leave out {arguments.all[0]!r} with --format {fmt}")


def _choose_reader(arguments: argparse.Namespace, exit_stack: ExitStack) -> _ReadSnapshot:
    if arguments.node is not None or arguments.origin == "daemon":
        from telemetry_daemon.commands import daemons

        return lambda: daemons.daemon_snapshot(arguments)
    if arguments.replay is not None:
        from telemetry_daemon.commands import own_readings

        return exit_stack.enter_context(own_readings.open_recording(arguments))
    opened_tools: list[_ReadSnapshot] = []

    def read_tools() -> Result:
        if not opened_tools:
            from telemetry_daemon.commands import own_readings

            opened_tools.append(exit_stack.enter_context(own_readings.open_tools(arguments)))
        return opened_tools[0]()

    return _daemon_or_tools_reader(arguments, read_tools) if _is_daemon_sufficient(arguments) else read_tools


def _daemon_or_tools_reader(arguments: argparse.Namespace, read_tools: _ReadSnapshot) -> _ReadSnapshot:
    """Return a function that returns the local daemon's snapshot or, if there is none, reads the tools."""
    refusals: list[options.DaemonRefusedError] = []

    def read_result() -> Result:
        try:
            return (None if refusals else _read_local_daemon(arguments)) or read_tools()
        except options.DaemonRefusedError as error:
            refusals.append(error)
            streams.say(f"{error}; the tools were read instead")
            return read_tools()

    return read_result


def _read_local_daemon(arguments: argparse.Namespace) -> Result | None:
    try:
        options.local_socket_path(arguments).stat()
    except FileNotFoundError:
        return None
    except OSError:  # this user may not enter the folder
        pass
    from telemetry_daemon.commands import daemons

    return daemons.local_daemon_snapshot(arguments)


def _is_daemon_sufficient(arguments: argparse.Namespace) -> bool:
    has_other_origin = arguments.origin or arguments.demo is not None
    needs_tools = arguments.source or arguments.timeout is not None or arguments.all is not None
    return not has_other_origin and not needs_tools and arguments.format in _DAEMON_FORMATS


def _print_snapshots(read_result: _ReadSnapshot, arguments: argparse.Namespace) -> int:
    is_first = True
    is_this_node = arguments.node is None and arguments.demo is None and arguments.replay is None
    while True:
        result = read_result()
        if arguments.processes and is_this_node:
            result = _with_process_details(result)
        if is_first:
            _check_metric_patterns(arguments.all or (), result)
        ids = _selected_ids(result.snapshot, arguments)
        matches_none = bool(result.snapshot.devices) and not ids
        if matches_none:
            streams.say(_no_match_text(arguments, result.snapshot.devices))
        if not matches_none or arguments.format != "table":
            sys.stdout.write(_format_result(result, ids, arguments, is_first=is_first))
            sys.stdout.flush()
        if not result.snapshot.devices and is_this_node and arguments.origin is None and is_first:
            _mention_simulation(arguments)
        if arguments.watch is None:
            return _exit_status(result.snapshot, ids)
        is_first = False
        time.sleep(arguments.watch)  # the interval that the user chose


def _mention_simulation(arguments: argparse.Namespace) -> None:
    from telemetry_daemon.commands import daemons

    if daemons.local_daemon_has_simulated_cards(arguments):
        streams.say("the daemon of this node has simulated cards; `telemetry snapshot --from daemon` shows them")


def _with_process_details(result: Result) -> Result:
    """Add the details from /proc that this user may read to the processes."""
    from telemetry_daemon.readers.base import Targets
    from telemetry_daemon.readers.proc import ProcReader, command_line
    from telemetry_parsers.owners.proc import PARSER

    snapshot = result.snapshot
    processes = {process.pid: process for device in snapshot.devices for process in device.processes}
    (poll,) = PARSER.polls
    report = PARSER.parse(ProcReader("", environment=False).read(poll, Targets(pids=tuple(processes))))
    tasks = {task.pid: task for task in report.tasks if _is_same_process(processes[task.pid], task, snapshot.wall_time)}
    devices = tuple(
        replace(device, processes=tuple(_with_details(process, tasks.get(process.pid)) for process in device.processes))
        for device in snapshot.devices
    )
    command_lines_by_pid = {pid: command_line(pid) for pid in tasks}
    return replace(result, snapshot=replace(snapshot, devices=devices), command_lines_by_pid=command_lines_by_pid)


def _is_same_process(process: Process, task: Task, snapshot_time: float) -> bool:
    if task.started is None:
        return False
    if process.started is not None:
        return abs(process.started - task.started) <= _START_TOLERANCE_SECONDS
    return task.started <= snapshot_time + _START_TOLERANCE_SECONDS


def _with_details(process: Process, task: Task | None) -> Process:
    if task is None:
        return process
    return replace(
        process,
        started=task.started,
        user=task.user or process.user,
        command=task.command or process.command,
        container=task.container or process.container,
        owner=process.owner or task.owner,
    )


def _format_result(result: Result, ids: frozenset[str], arguments: argparse.Namespace, *, is_first: bool) -> str:
    if arguments.format == "json":
        from telemetry_exporters.documents import json_values, snapshot_json

        document = result.document
        if document is None:
            document = snapshot_json.document(result.snapshot, result.metrics_by_key(), ids)
        else:
            document = {**document, "devices": [device for device in document["devices"] if clean(device["id"]) in ids]}
        if arguments.processes:
            document = snapshot_json.with_processes(document, result.snapshot, result.command_lines_by_pid)
        return json_values.indented_json(document) if arguments.watch is None else json_values.json_line(document)
    if arguments.format == "table":
        from telemetry_exporters.terminal.table import Detail

        detail = Detail.EVERYTHING if arguments.all is not None else Detail.BRIEF
        detail |= Detail.REASONS if arguments.why else Detail.BRIEF
        detail |= Detail.PROCESSES if arguments.processes else Detail.BRIEF
        text = rendering.render_table(result, detail, arguments.width or 0, ids, arguments.all or ())
        return text if is_first else f"\n{text}"
    devices = tuple(device for device in result.snapshot.devices if clean(device.id) in ids)
    selected_result = replace(result, snapshot=replace(result.snapshot, devices=devices))
    if not arguments.processes:
        text = rendering.render_document(selected_result, arguments.format)
    else:
        from telemetry_exporters.documents import snapshot_csv

        text = snapshot_csv.processes(selected_result.snapshot, selected_result.command_lines_by_pid)
    return text if is_first or arguments.format != "csv" else text.partition("\n")[2]


def _check_metric_patterns(patterns: Sequence[str], result: Result) -> None:
    if not patterns:
        return
    from telemetry_daemon.terminal.suggestions import did_you_mean, patterns_like, similar_names
    from telemetry_exporters.terminal.details import matches
    from telemetry_parsers.metrics import CATALOGUE

    metrics = (*(metric for metric in CATALOGUE if metric.scope != "daemon"), *result.plugin_metrics)
    for pattern in patterns:
        if not any(matches(metric, (pattern,)) for metric in metrics):
            keys, bare_pattern = [metric.key for metric in metrics], pattern.strip("*")
            suggestions = similar_names(bare_pattern, keys) or patterns_like(bare_pattern, keys)
            raise CommandError(
                f"unknown metric '{clean(pattern)}'{did_you_mean(suggestions) or '; `telemetry metrics` lists them'}"
            )


def _selected_ids(snapshot: Snapshot, arguments: argparse.Namespace) -> frozenset[str]:
    def is_selected(device: MergedDevice) -> bool:
        matches_name = arguments.device is None or options.matches_device(device, arguments.device)
        return arguments.vendor in (None, device.vendor) and matches_name

    return frozenset(clean(device.id) for device in snapshot.devices if is_selected(device))


def _no_match_text(arguments: argparse.Namespace, devices: Sequence[MergedDevice]) -> str:
    from telemetry_exporters.judgement.overview import device_list

    flags = (("--vendor", arguments.vendor), ("--device", arguments.device))
    selection = " ".join(f"{flag} {value}" for flag, value in flags if value is not None)
    return f"no device matches {selection}; this node has {device_list(devices)}"


def _exit_status(snapshot: Snapshot, ids: frozenset[str]) -> int:
    if any(status.state in _FAILED_STATES for status in snapshot.sources):
        return exits.PROBLEMS
    return exits.OK if ids else exits.NOTHING_FOUND
