"""`telemetry jobs`: shows how long owners used cards, and the cost."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry_daemon.commands import options
from telemetry_daemon.terminal import exits, streams
from telemetry_daemon.terminal.exits import CommandError

if TYPE_CHECKING:  # imported on demand, because the help of all commands imports this module
    from telemetry_exporters.terminal.job_bill import Bill
    from telemetry_parsers.job_record import JobRecord

EXAMPLES = {
    "telemetry jobs --since 30d --by user": "Show how each user used this node's cards in the last 30 days.",
    "telemetry jobs gpu-17.jsonl gpu-18.jsonl --format csv": "Print the totals of two nodes as CSV.",
}

_GROUPINGS = ("owner", "user", "account", "namespace")
_MAX_FILE_BYTES = 64 << 20
_MAX_QUOTED_ERRORS = 3
_LEDGER_PREFIX = b'{"schema":"telemetry.ledger/1"'


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="a jobs.jsonl or ledger.json of any node, or - for standard input (default: the files of this node)",
    )
    parser.add_argument(
        "--since",
        type=_parse_since,
        metavar="TIME",
        help="only owners that are still running or ended after TIME, such as 7d or 2026-11-01",
    )
    parser.add_argument("--user", metavar="NAME", help="only owners of this user")
    parser.add_argument("--by", choices=_GROUPINGS, default="owner", help="how to group the totals (default: owner)")
    parser.add_argument(
        "--format", choices=("table", "json", "csv"), default="table", help="output format (default: table)"
    )
    options.add_config(parser)


def _parse_since(text: str) -> float:
    with contextlib.suppress(argparse.ArgumentTypeError):  # the text may be a date
        return time.time() - options.parse_seconds(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"'{text}' is not a time; write 7d, 12h or a day such as 2026-11-01") from None


def run(arguments: argparse.Namespace) -> int:
    """Print the totals and return the exit status."""
    from telemetry_exporters.terminal.job_bill import Bill

    bill = Bill(arguments.by)
    errors: list[str] = []
    has_records, users = False, set[str]()
    for path, content in _read_record_files(arguments):
        for record in _records_in_file(path, content, errors):
            users.add(record.owner.user)
            if _is_selected(record, arguments):
                has_records = True
                bill.add(record)
    if has_records or not (errors or arguments.user):
        sys.stdout.write(_format_bill(bill, arguments.format))
    elif arguments.user and users:
        raise options.unknown_name_error("user", arguments.user, users)
    if errors:
        return exits.PROBLEMS
    return exits.OK if has_records else exits.NOTHING_FOUND


def _format_bill(bill: Bill, output_format: str) -> str:
    if output_format == "json":
        return bill.json()
    if output_format == "csv":
        return bill.csv()
    from telemetry_daemon.commands.rendering import colour_mode

    return bill.table(colour_mode())


def _is_selected(record: JobRecord, arguments: argparse.Namespace) -> bool:
    if arguments.user is not None and record.owner.user != arguments.user:
        return False
    return arguments.since is None or record.end is None or record.end.time >= arguments.since


def _read_record_files(arguments: argparse.Namespace) -> Iterator[tuple[str, bytes]]:
    if arguments.files:
        remedy = "use a readable jobs.jsonl"
        yield from ((name, options.read_content(name, _MAX_FILE_BYTES, remedy)) for name in arguments.files)
        return
    settings = options.load_settings(arguments)
    folder = Path(settings.state.directory)
    files = [(str(folder / name), content) for name, content in _read_node_files(folder)]
    if not files:
        remedy = "the daemon writes records only if attribution.enabled is true"
        if settings.attribution.enabled:
            remedy = "the daemon writes the first records within a minute after its start"
        raise CommandError(f"no records in {folder}: {remedy}; or pass a node's jobs.jsonl", status=exits.NOTHING_FOUND)
    yield from files


def _read_node_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    from telemetry_daemon.guarded.own_folder import OwnFolder
    from telemetry_daemon.state.ledger_file import JOBS, LEDGER, ROTATED_JOBS

    try:
        with OwnFolder.at(folder) as own_folder:
            for name in (ROTATED_JOBS, JOBS, LEDGER):
                with contextlib.suppress(FileNotFoundError):  # the file was not created yet
                    yield name, own_folder.read(name, _MAX_FILE_BYTES)
    except FileNotFoundError:  # no record was written yet
        return
    except OSError as error:
        remedy = "run the command as root, or name a readable file"
        raise CommandError(f"cannot read {folder}: {error.strerror}; {remedy}", status=exits.UNAVAILABLE) from None


def _records_in_file(path: str, content: bytes, all_errors: list[str]) -> Iterator[JobRecord]:
    from telemetry_parsers.codec.plain import CodecError

    errors: list[str] = []
    for line_number, line in enumerate(io.BytesIO(content), 1):
        try:
            records = _records_in_line(line)
        except CodecError as error:  # the line was cut off, or another program wrote the file
            errors.append(f"line {line_number}: {error}")
            continue
        yield from records
    if errors:
        quoted = "; ".join(errors[:_MAX_QUOTED_ERRORS]) + ("; …" if len(errors) > _MAX_QUOTED_ERRORS else "")
        subject = "invalid line was" if len(errors) == 1 else "invalid lines were"
        remedy = "" if len(errors) < line_number else "; use a jobs.jsonl or a ledger.json"
        streams.say(f"{path}: {len(errors)} {subject} skipped: {quoted}{remedy}")
    all_errors += errors


def _records_in_line(line: bytes) -> Sequence[JobRecord]:
    """Return the records in a line: one in `jobs.jsonl`, all allocations in `ledger.json`."""
    from telemetry_exporters.documents import job_json

    if line.startswith(_LEDGER_PREFIX):
        from telemetry_daemon.state.ledger_file import decode_ledger

        return decode_ledger(line).jobs
    return (job_json.read(line),) if line.strip() else ()
