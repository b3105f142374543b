"""`telemetry profile`: explains from the files of profilers why a training step is slow."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from telemetry_daemon.commands import options
from telemetry_daemon.commands.rendering import colour_mode
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.exits import CommandError
from telemetry_daemon.terminal.streams import terminal_width
from telemetry_exporters.text import clean, first_names
from telemetry_parsers.card_peaks import DTYPES
from telemetry_profile import profile_document
from telemetry_profile.facts.trace_facts import shift_times
from telemetry_profile.files.read_files import (
    BadFormatError,
    Outcome,
    ProfileFile,
    find_files,
    installed_formats,
    read_all,
    read_file,
)
from telemetry_profile.profile_screen import render_screen
from telemetry_profile.verdict.combine import FileFacts, Member, Profile, combine
from telemetry_profile.verdict.summary import CardTelemetry, ProfileSummary, achieved_flops
from telemetry_profile.verdict.usual_step import usual_step_of

EXAMPLES = {
    "telemetry profile trace.json.gz": "Explain why the steps in a trace are slow.",
    "telemetry profile traces/ --flops-per-step 2.1e14 --dtype bf16": "Compare the ranks of a job with each other and with the peak.",
}

_MAX_LISTED_NAMES = 3
_MIN_WIDTH, _MAX_WIDTH = 60, 1000


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="a file that a profiler wrote, or a folder with the files of all ranks"
    )
    parser.add_argument("--format", choices=("table", "json"), default="table", help="output format (default: table)")
    parser.add_argument(
        "--flops-per-step",
        type=_parse_positive_number,
        metavar="N",
        help="floating-point operations of one step on one card, such as 2.1e14",
    )
    parser.add_argument(
        "--dtype",
        choices=DTYPES,
        metavar="D",
        default="",
        help="data type of the matrix operations, such as bf16; the FLOP/s are compared with the peak for this type",
    )
    parser.add_argument(
        "--begin",
        type=_parse_timestamp,
        metavar="TIME",
        help="time of the first activity, such as 2026-11-01T12:00:00Z; needed if the files do not contain the date",
    )
    telemetry = parser.add_mutually_exclusive_group()
    telemetry.add_argument(
        "--recording", metavar="FILE", help="a recording that `telemetry record` made on the node during the profile"
    )
    telemetry.add_argument(
        "--prometheus", metavar="URL", help="a Prometheus server that scraped the node, such as http://prometheus:9090"
    )
    parser.add_argument(
        "--publish",
        metavar="JOB",
        help="write each rank's steps to the folder `steps.directory`, so that the daemon exposes them as steps of this job",
    )
    options.add_config(parser)


def _parse_timestamp(text: str) -> float:
    """Parse a time as Unix seconds, in UTC unless it has a time zone."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a time; write 2026-11-01T12:00:00Z") from None
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()


def _parse_positive_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Print the summary, publish the steps if requested, and return the exit status."""
    outcomes, was_interrupted = _read_outcomes(_find_files(arguments.paths))
    file_facts = [
        FileFacts(outcome.file.folders, outcome.file.display_name, outcome.facts)
        for outcome in outcomes
        if outcome.facts is not None
    ]
    profile = combine(file_facts)
    _print_unread([outcome for outcome in outcomes if outcome.facts is None], was_interrupted=was_interrupted)
    if file_facts:
        sys.stdout.write(_render(profile, arguments))
    if arguments.publish:
        _publish(profile, arguments)
    if profile.problems or was_interrupted or len(file_facts) < len(outcomes):
        return exits.PROBLEMS
    return exits.OK if profile.members else exits.NOTHING_FOUND


def _find_files(paths: Sequence[str]) -> list[ProfileFile]:
    try:
        files = find_files(paths)
    except OSError as error:
        remedy = "pass a readable file or folder that a profiler wrote"
        raise CommandError(f"cannot read '{error.filename}': {error.strerror}; {remedy}") from None
    if not files:
        raise CommandError(f"no files in {', '.join(paths)}", status=exits.NOTHING_FOUND)
    return files


def _read_outcomes(files: Sequence[ProfileFile]) -> tuple[list[Outcome], bool]:
    """Return the outcomes of all files, and whether Ctrl-C interrupted the reading."""
    try:
        read = partial(read_file, formats=installed_formats())
    except BadFormatError as error:
        raise CommandError(str(error)) from None
    file_order = {file.path: index for index, file in enumerate(files)}
    outcomes: list[Outcome] = []
    was_interrupted = False
    with contextlib.closing(read_all(files, read)) as finished:
        try:
            outcomes.extend(finished)
        except KeyboardInterrupt:  # the files read so far are shown
            was_interrupted = True
    return sorted(outcomes, key=lambda outcome: file_order[outcome.file.path]), was_interrupted


def _print_unread(unread: Sequence[Outcome], *, was_interrupted: bool) -> None:
    detailed_outcomes = [outcome for outcome in unread if outcome.file.is_named or outcome.is_recognised]
    other_names = [item.file.display_name for item in unread if not (item.file.is_named or item.is_recognised)]
    for outcome in detailed_outcomes:
        sys.stderr.write(f"telemetry: {clean(f'{outcome.file.display_name}: {outcome.error}')}\n")
    if other_names:
        count_text = "1 file was" if len(other_names) == 1 else f"{len(other_names)} files were"
        names = clean(first_names(other_names, ", ", _MAX_LISTED_NAMES))
        sys.stderr.write(f"telemetry: {count_text} not written by a supported profiler: {names}\n")
    if was_interrupted:
        sys.stderr.write("telemetry: interrupted before all files were read; the files read so far are shown\n")


def _render(profile: Profile, arguments: argparse.Namespace) -> str:
    summary = _summarize(profile, arguments)
    if arguments.format == "json":
        return profile_document.render(summary)
    return render_screen(summary, min(max(_MIN_WIDTH, terminal_width()), _MAX_WIDTH), colour_mode())


def _publish(profile: Profile, arguments: argparse.Namespace) -> None:
    from telemetry_profile.files.publish import publish, step_counts_of

    folder = Path(options.load_settings(arguments).steps.directory)
    for member in profile.members:
        counts = step_counts_of(member, arguments.publish)
        if counts is None:
            continue
        try:
            publish(folder, counts)
        except OSError as error:
            remedy = f"create the folder: install -d -m 1777 {folder}"
            raise CommandError(
                f"cannot write to {folder}: {error.strerror}; {remedy}", status=exits.UNAVAILABLE
            ) from None


def _summarize(profile: Profile, arguments: argparse.Namespace) -> ProfileSummary:
    members = _with_derived_times(profile.members, arguments.begin)
    profile = replace(profile, members=members)
    rank_steps = tuple(usual_step_of(member) for member in members)
    achieved = tuple(achieved_flops(rank_step, arguments.flops_per_step, arguments.dtype) for rank_step in rank_steps)
    telemetry = arguments.recording or arguments.prometheus or ""
    return ProfileSummary(profile, rank_steps, achieved, _read_card_telemetry(members, arguments), telemetry)


def _with_derived_times(members: tuple[Member, ...], begin: float | None) -> tuple[Member, ...]:
    """Set the members' unknown Unix times. `begin` is the Unix time of the first activity, if the user stated it."""
    starts = [member.device.begin_ns for member in members if member.begin_unix_ns is None]
    known_starts = [start for start in starts if start is not None]
    if begin is None or not known_starts:
        return members
    offset_ns = round(begin * 1e9) - min(known_starts)
    return tuple(_with_unix_times(member, offset_ns) if member.begin_unix_ns is None else member for member in members)


def _with_unix_times(member: Member, offset_ns: int) -> Member:
    (device,) = shift_times([member.device], offset_ns)
    return replace(member, begin_unix_ns=device.begin_ns, end_unix_ns=device.end_ns)


def _read_card_telemetry(members: Sequence[Member], arguments: argparse.Namespace) -> tuple[CardTelemetry | None, ...]:
    if not (arguments.recording or arguments.prometheus):
        return (None,) * len(members)
    from telemetry_daemon.recordings.recording_file import RecordingError, RecordingFile
    from telemetry_profile.files.card_readings import (
        ProfiledCard,
        PrometheusError,
        histories_from_prometheus,
        histories_from_recording,
        telemetry_of,
    )

    profiled_cards = [
        None
        if member.begin_unix_ns is None or member.end_unix_ns is None
        else ProfiledCard(member.device.card, member.device.rank, member.begin_unix_ns / 1e9, member.end_unix_ns / 1e9)
        for member in members
    ]
    cards = [card for card in profiled_cards if card is not None]
    if not cards:
        return (None,) * len(members)
    try:
        if arguments.recording:
            recording = RecordingFile(Path(arguments.recording))
            histories = histories_from_recording(recording, cards)
            problems = (clean(f"{recording.path}: {text}") for text in recording.damage.lines())
            sys.stderr.writelines(f"telemetry: {problem}\n" for problem in problems)
        else:
            histories = histories_from_prometheus(arguments.prometheus, cards)
    except (RecordingError, PrometheusError) as error:
        raise CommandError(str(error)) from None
    return tuple(None if card is None else telemetry_of(card, histories) for card in profiled_cards)
