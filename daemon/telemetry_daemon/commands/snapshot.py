"""`telemetry snapshot`: reads and shows everything once, or repeatedly."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry_daemon.commands import options, rendering
from telemetry_daemon.commands.rendering import Answer
from telemetry_daemon.terminal import exits, streams
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters.text import clean
from telemetry_parsers.model import MergedDevice, Process, Snapshot

if TYPE_CHECKING:  # imported only for processes
    from telemetry_parsers.ownership import Task

EXAMPLES = {
    "telemetry snapshot": "Show all accelerators, and what is wrong with them.",
    "telemetry snapshot --why": "Say why readings are absent, too.",
    "telemetry snapshot --all 'temp*' --device 3": "Show all temperatures of one device, read just now.",
    "telemetry snapshot --format json --watch 10s": "Print a line of JSON every ten seconds.",
    "telemetry snapshot --replay node.jsonl.gz --at 03:12:07": "Show a moment of a recording.",
    "telemetry snapshot --node gpu-17": "Show the readings of another node's daemon.",
}

_Read = Callable[[], Answer]
_BAD_STATES = frozenset({"failed", "stuck"})
# Formats that a daemon's document provides completely. JSON has no other metrics of plugins.
_OF_DAEMONS = ("table", "json")
_TABLE_ONLY = ("why", "width")
# A process that started later than this after the listing is another process with the same PID.
_CLOCKS_APART_SECONDS = 1.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--format", choices=options.FORMATS, default="table", help="output format (default: table)")
    options.add_source(parser, "read")
    parser.add_argument("--vendor", metavar="NAME", help="show only this vendor's devices")
    parser.add_argument("--device", metavar="DEVICE", help="show only devices with this index, `device` label or id")
    parser.add_argument(
        "--all",
        nargs="*",
        metavar="METRIC",
        help="run slow polls too, and show every reading of each device, or those of metrics such as 'temp*'",
    )
    parser.add_argument("--why", action="store_true", help="below the table, say why readings are absent")
    parser.add_argument(
        "--processes",
        action="store_true",
        help="list the processes on the devices: below the table, in JSON, or as CSV; on this machine with their command lines",
    )
    parser.add_argument("--width", type=_columns, metavar="COLUMNS", help="the table's width (default: the terminal's)")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=options.up_to_a_day,
        const=2.0,
        metavar="TIME",
        help="print again and again until interrupted, every TIME (default: 2s)",
    )
    parser.add_argument(
        "--timeout",
        type=options.up_to_a_day,
        metavar="TIME",
        help="give up on sources that have not answered after TIME (default: 20s)",
    )
    options.add_origins(parser, "show", "--node", "--demo", "--replay").add_argument(
        "--from",
        dest="origin",
        choices=("daemon", "tools"),
        help="read from the daemon or from the tools (default: for tables and JSON the daemon if it has the same sources, else the tools)",
    )
    options.add_at(parser)
    options.add_credentials(parser)
    options.add_config(parser)


def _columns(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 20 <= int(text[:6]) <= 10_000):
        raise argparse.ArgumentTypeError("must be a number from 20 to 10000")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Print the document. Return 2 if a source failed, 3 without devices."""
    _check(arguments)
    with ExitStack() as end:
        return _show(_read_by(arguments, end), arguments)


def _check(arguments: argparse.Namespace) -> None:
    _check_format(arguments)
    options.check_replay(arguments)
    if arguments.origin == "daemon" or arguments.node is not None:
        if arguments.source:
            raise CommandError("--source selects tools, and a daemon reports all of them; omit it, or use --from tools")
        if arguments.format == "prometheus":
            raise CommandError("a daemon gives Prometheus's format at its /metrics: ask for it there with curl")
    if arguments.vendor is not None:
        from telemetry_daemon.commands.options import check_vendor

        check_vendor(arguments.vendor, options.settings(arguments).parsers.paths)


def _check_format(arguments: argparse.Namespace) -> None:
    form = arguments.format
    for name in _TABLE_ONLY if form != "table" else ():
        if getattr(arguments, name):
            raise CommandError(f"--{name} is for the table; leave it out with --format {form}")
    if arguments.processes and form == "prometheus":
        raise CommandError("--processes is for tables, JSON and CSV; leave it out with --format prometheus")
    if arguments.all and form != "table":
        raise CommandError(
            f"--all takes metrics for the table only; with --format {form} leave {arguments.all[0]!r} out"
        )


def _read_by(arguments: argparse.Namespace, end: ExitStack) -> _Read:
    if arguments.node is not None or arguments.origin == "daemon":
        from telemetry_daemon.commands import daemons

        return lambda: daemons.of_daemon(arguments)
    if arguments.replay is not None:
        from telemetry_daemon.commands import own_readings

        return end.enter_context(own_readings.of_recording(arguments))
    tools: list[_Read] = []

    def read_tools() -> Answer:
        if not tools:
            from telemetry_daemon.commands import own_readings

            tools.append(end.enter_context(own_readings.of_tools(arguments)))
        return tools[0]()

    return _daemon_first(arguments, read_tools) if _daemon_may_answer(arguments) else read_tools


def _daemon_first(arguments: argparse.Namespace, read_tools: _Read) -> _Read:
    """Return a function that asks the daemon, or else reads the tools. A daemon that does not answer is reported once."""
    warned: list[bool] = []

    def read() -> Answer:
        try:
            return (None if warned else _reported_by_daemon(arguments)) or read_tools()
        except options.NotAskedError as error:
            warned.append(True)
            streams.say(f"{error}; read from the tools instead")
            return read_tools()

    return read


def _reported_by_daemon(arguments: argparse.Namespace) -> Answer | None:
    """Return what the daemon reports; None without a daemon, before anything is imported to ask it. Raises NotAskedError."""
    try:
        options.local_socket(arguments).stat()
    except FileNotFoundError:
        return None
    except OSError:  # in a folder that this user may not enter
        pass
    from telemetry_daemon.commands import daemons

    return daemons.of_daemon_here(arguments)


def _daemon_may_answer(arguments: argparse.Namespace) -> bool:
    """Return whether the daemon's snapshot will do: `--timeout` is for tools, and `--all` wants current slow polls."""
    instead = arguments.origin or arguments.demo is not None
    is_narrowed = arguments.source or arguments.timeout is not None or arguments.all is not None
    return not instead and not is_narrowed and arguments.format in _OF_DAEMONS


def _show(read: _Read, arguments: argparse.Namespace) -> int:
    is_first = True
    # Of other nodes, simulated and recorded cards only the reports are known.
    is_elsewhere = arguments.node is not None or arguments.demo is not None or arguments.replay is not None
    while True:
        answer = read()
        if arguments.processes and not is_elsewhere:
            answer = _with_processes(answer)
        if is_first:
            _check_patterns(arguments.all or (), answer)
        ids = _chosen(answer.snapshot, arguments)
        is_unmatched = bool(answer.snapshot.devices) and not ids
        if is_unmatched:
            streams.say(_unmatched(arguments, answer.snapshot.devices))
        if not is_unmatched or arguments.format != "table":
            sys.stdout.write(_text(answer, ids, arguments, is_first=is_first))
            sys.stdout.flush()
        if not answer.snapshot.devices and not is_elsewhere and arguments.origin is None and is_first:
            _mention_simulation(arguments)
        if arguments.watch is None:
            return _status(answer.snapshot, ids)
        is_first = False
        time.sleep(arguments.watch)


def _mention_simulation(arguments: argparse.Namespace) -> None:
    from telemetry_daemon.commands import daemons

    if daemons.shows_simulated_cards(arguments):
        streams.say("the daemon of this node shows simulated cards; `telemetry snapshot --from daemon` shows them, too")


def _with_processes(answer: Answer) -> Answer:
    """Return this machine's answer with everything that this user may read about its processes. Ended processes stay as reported."""
    from telemetry_daemon.readers.base import Targets
    from telemetry_daemon.readers.proc import ProcReader, command_line
    from telemetry_parsers.owners.proc import PARSER

    snapshot = answer.snapshot
    listed = {process.pid: process for device in snapshot.devices for process in device.processes}
    (poll,) = PARSER.polls
    report = PARSER.parse(ProcReader("", environment=False).read(poll, Targets(pids=tuple(listed))))
    tasks = {task.pid: task for task in report.tasks if _is_same(listed[task.pid], task, snapshot.wall_time)}
    devices = tuple(
        replace(device, processes=tuple(_with_task(process, tasks.get(process.pid)) for process in device.processes))
        for device in snapshot.devices
    )
    command_lines = {pid: command_line(pid) for pid in tasks}
    return replace(answer, snapshot=replace(snapshot, devices=devices), command_lines=command_lines)


def _is_same(process: Process, task: Task, seen: float) -> bool:
    if task.started is None:
        return False
    if process.started is not None:
        return abs(process.started - task.started) <= _CLOCKS_APART_SECONDS
    return task.started <= seen + _CLOCKS_APART_SECONDS


def _with_task(process: Process, task: Task | None) -> Process:
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


def _text(answer: Answer, ids: frozenset[str], arguments: argparse.Namespace, *, is_first: bool) -> str:
    """Return the document. More than one is separated by lines in JSON, without another heading in CSV, by blank lines in tables."""
    if arguments.format == "json":
        from telemetry_exporters.documents import json_values, snapshot_json

        document = answer.document
        if document is None:
            document = snapshot_json.document(answer.snapshot, {metric.key: metric for metric in answer.metrics}, ids)
        else:
            document = {**document, "devices": [device for device in document["devices"] if clean(device["id"]) in ids]}
        if arguments.processes:
            document = snapshot_json.with_processes(document, answer.snapshot, answer.command_lines)
        return json_values.text(document) if arguments.watch is None else json_values.line(document)
    if arguments.format == "table":
        from telemetry_exporters.terminal.table import Detail

        detail = Detail.EVERYTHING if arguments.all is not None else Detail.BRIEF
        detail |= Detail.REASONS if arguments.why else Detail.BRIEF
        detail |= Detail.PROCESSES if arguments.processes else Detail.BRIEF
        text = rendering.table(answer, detail, arguments.width or 0, ids, arguments.all or ())
        return text if is_first else f"\n{text}"
    devices = tuple(device for device in answer.snapshot.devices if clean(device.id) in ids)
    chosen = replace(answer, snapshot=replace(answer.snapshot, devices=devices))
    if not arguments.processes:
        text = rendering.document(chosen, arguments.format)
    else:
        from telemetry_exporters.documents import snapshot_csv

        text = snapshot_csv.processes(chosen.snapshot, chosen.command_lines)
    return text if is_first or arguments.format != "csv" else text.partition("\n")[2]


def _check_patterns(patterns: Sequence[str], answer: Answer) -> None:
    if not patterns:
        return
    from telemetry_daemon.terminal.suggestions import did_you_mean, near_beginnings, nearest
    from telemetry_exporters.terminal.details import matches
    from telemetry_parsers.metrics import CATALOGUE

    metrics = (*(metric for metric in CATALOGUE if metric.scope != "daemon"), *answer.metrics)
    for pattern in patterns:
        if not any(matches(metric, (pattern,)) for metric in metrics):
            keys, word = [metric.key for metric in metrics], pattern.strip("*")
            near = nearest(word, keys) or near_beginnings(word, keys)
            raise CommandError(
                f"unknown metric '{clean(pattern)}'{did_you_mean(near) or '; `telemetry metrics` lists them'}"
            )


def _chosen(snapshot: Snapshot, arguments: argparse.Namespace) -> frozenset[str]:
    def is_shown(device: MergedDevice) -> bool:
        is_named = arguments.device is None or options.is_called(device, arguments.device)
        return arguments.vendor in (None, device.vendor) and is_named

    return frozenset(clean(device.id) for device in snapshot.devices if is_shown(device))


def _unmatched(arguments: argparse.Namespace, devices: Sequence[MergedDevice]) -> str:
    from telemetry_exporters.judgement.overview import device_list

    flags = (("--vendor", arguments.vendor), ("--device", arguments.device))
    flags_in_words = " ".join(f"{flag} {value}" for flag, value in flags if value is not None)
    return f"no device matches {flags_in_words}; there are {device_list(devices)}"


def _status(snapshot: Snapshot, ids: frozenset[str]) -> int:
    if any(status.state in _BAD_STATES for status in snapshot.sources):
        return exits.PROBLEMS
    return exits.OK if ids else exits.NOTHING_FOUND
