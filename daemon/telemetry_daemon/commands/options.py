"""Arguments that several commands share, and the settings that result from these arguments."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from telemetry_daemon.config.inputs import DEFAULT_FILE, FILE_VARIABLE, runtime_directory
from telemetry_daemon.terminal import streams
from telemetry_daemon.terminal.exits import CommandError
from telemetry_exporters.text import clean

if TYPE_CHECKING:  # imported on demand: the help and a snapshot from the daemon do not need these modules
    from telemetry_daemon.config.inputs import ConfigInputs
    from telemetry_daemon.config.settings import Settings
    from telemetry_daemon.plugins.candidates import PluginFailure
    from telemetry_daemon.plugins.loading import ParserSet
    from telemetry_daemon.recordings.playback import PlaybackOptions
    from telemetry_daemon.recordings.survey import RecordingTime
    from telemetry_parsers.model import MergedDevice

USER_VARIABLE, PASSWORD_VARIABLE = "TELEMETRY_USER", "TELEMETRY_PASSWORD"
_REPEATABLE_SETTINGS = frozenset({"web.listen_address"})
DEMO_HELP = "The cards are healthy at first and have no owners; 'telemetry top --demo' simulates faults and owners"
LIVE_DEMO_HELP = "The demo has owners, half an hour of history, an overheated card and random faults"
T = TypeVar("T")


class DaemonRefusedError(CommandError):
    """The daemon on this node does not answer this user."""


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add `--config`."""
    default = f"${FILE_VARIABLE}, or {DEFAULT_FILE}"
    parser.add_argument("--config", metavar="FILE", help=f"configuration file (default: {default})")


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """Add `--ca` and `--password-file`."""
    parser.add_argument("--ca", metavar="FILE", default="", help="file with trusted certificates, for https")
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help=f"file with USER:PASSWORD (otherwise taken from ${USER_VARIABLE} and ${PASSWORD_VARIABLE})",
    )


def add_source(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add `--source`, with a help text that begins with `verb`."""
    text = f"{verb} only this source; may be given several times"
    parser.add_argument("--source", action="append", default=[], metavar="NAME", help=text)


def add_origins(parser: argparse.ArgumentParser, verb: str, note: str, *flags: str) -> argparse._MutuallyExclusiveGroup:
    """Add a group of mutually exclusive flags: some of `--node`, `--demo` (with `note` in its help) and `--replay`."""
    options: Mapping[str, Mapping[str, Any]] = {
        "--node": {"metavar": "NODE", "help": f"{verb} another node: HOST, HOST:PORT or the URL of its daemon"},
        "--demo": {
            "nargs": "?",
            "const": "",
            "metavar": "CARDS",
            "help": f"{verb} simulated cards, such as 8xnvidia,4xhygon (default: 8xnvidia). {note}",
        },
        "--replay": {"type": Path, "metavar": "FILE", "help": f"{verb} a recording made by 'telemetry record'"},
    }
    group = parser.add_mutually_exclusive_group()
    for flag in flags:
        group.add_argument(flag, **options[flag])
    return group


def add_faults(parser: argparse.ArgumentParser) -> None:
    """Add `--fault`."""
    text = "with --demo: simulate only these faults, such as lost,hot (an unknown name prints the list of faults)"
    parser.add_argument("--fault", metavar="NAMES", help=text)


def add_setting_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting that has one."""
    from telemetry_daemon.config.settings import DEFAULT_ADDRESS, FLAGS

    help_by_setting = {
        "log.level": "debug, info, warning or error (default: info)",
        "log.format": "text or json (default: text)",
        "web.listen_address": (
            f"listening address: HOST:PORT, :PORT, [IPV6]:PORT or unix:/PATH; may be given several times (default: {DEFAULT_ADDRESS})"
        ),
        "web.config_file": "web configuration file (exporter-toolkit format) for TLS, passwords and headers",
        "web.telemetry_path": "path of the metrics page (default: /metrics)",
    }
    for setting, flag in FLAGS.items():
        action = "append" if setting in _REPEATABLE_SETTINGS else "store"
        parser.add_argument(flag, dest=setting, action=action, metavar="VALUE", help=help_by_setting[setting])


def settings_inputs(arguments: argparse.Namespace) -> ConfigInputs:
    """Return the inputs from which the settings are computed: file, environment and flags."""
    from telemetry_daemon.config.inputs import ConfigInputs
    from telemetry_daemon.config.settings import FLAGS

    values = vars(arguments)
    overrides = {setting: values[setting] for setting in FLAGS if values.get(setting) is not None}
    return ConfigInputs(path=arguments.config, environment=dict(os.environ), overrides=overrides)


def load_settings(arguments: argparse.Namespace) -> Settings:
    """Return the effective settings. Raise ConfigError if a setting is invalid."""
    from telemetry_daemon.config import file

    return file.load(settings_inputs(arguments))


def check_sections(arguments: argparse.Namespace, settings: Settings, polls: Mapping[str, tuple[str, ...]]) -> None:
    """Raise ConfigError if the settings name an unknown source or poll."""
    if not settings.has_only_known_names(polls, polls):
        from telemetry_daemon.config import file

        file.load(replace(settings_inputs(arguments), known_sources=tuple(sorted(polls)), known_polls=polls))


def local_socket_path(arguments: argparse.Namespace) -> Path:
    """Return the path of the daemon's local socket."""
    from telemetry_daemon.web.addresses import local_socket_in

    directory = runtime_directory(arguments.config, os.environ)
    return local_socket_in(load_settings(arguments).state.runtime_directory if directory is None else directory)


def read_content(path: str, max_bytes: int, remedy: str) -> bytes:
    """Return the content of a file, or of standard input for `-`. Raise CommandError if it cannot be read."""
    from telemetry_daemon.guarded.reading import read_path, read_stream

    try:
        return read_stream(sys.stdin.buffer, max_bytes, path) if path == "-" else read_path(path, max_bytes)
    except FileNotFoundError:
        raise CommandError(f"no such file: '{path}'; {remedy}") from None
    except OSError as error:
        raise CommandError(f"cannot read '{path}': {error.strerror or error}; {remedy}") from None


def matches_device(device: MergedDevice, text: str) -> bool:
    """Return whether the text is the device's id, index or label, or the vendor followed by the index or label."""
    names = (str(device.index), device.device)
    return text in (*names, device.id, *(f"{device.vendor} {name}" for name in names))


def warn_about_plugin_failures(parser_set: ParserSet) -> None:
    """Print a warning for each plugin that was not loaded."""
    for failure in parser_set.failures:
        streams.say(plugin_failure_text(failure))


def plugin_failure_text(failure: PluginFailure) -> str:
    """Return one line about a plugin that was not loaded."""
    origin = "" if failure.origin == failure.plugin else f" of {failure.origin}"
    return f"plugin {failure.plugin}{origin}: not loaded: {failure.text}"


def parse_seconds(text: str) -> float:
    """Return the seconds of a duration. Raise ArgumentTypeError if it is invalid or 0."""
    from telemetry_daemon.times import parse_duration

    duration = parse_duration(text)
    if not duration:
        problem = f"'{text}' is not a duration" if duration is None else "must be greater than 0"
        raise argparse.ArgumentTypeError(f"{problem}; write 90s, 10m, 1h30m, 2d or plain seconds")
    return duration


def parse_seconds_up_to_a_day(text: str) -> float:
    """Return the seconds of a duration. Raise ArgumentTypeError unless it is from 0.1 seconds to a day."""
    duration = parse_seconds(text)
    if not 0.1 <= duration <= 86_400:
        raise argparse.ArgumentTypeError(f"'{text}' is out of range; write a duration from 0.1 seconds to 1d")
    return duration


def add_at(parser: argparse.ArgumentParser) -> None:
    """Add `--at`."""
    text = "time in the recording: 90s (from its start), end-30s, or a recorded time in UTC (03:12:07 or 2026-11-23T03:12:07Z)"
    parser.add_argument("--at", type=_parse_recording_time, metavar="TIME", help=text)


def add_playback(parser: argparse.ArgumentParser) -> None:
    """Add `--speed` and `--once`."""
    from telemetry_daemon.recordings import playback_clock

    text = f"play a recording at this speed, from {playback_clock.SLOWEST:g} to {playback_clock.FASTEST:g} (default: 1)"
    speed = partial(_parse_argument, playback_clock.parse_speed)
    parser.add_argument("--speed", type=speed, metavar="TIMES", help=text)
    parser.add_argument("--once", action="store_true", help="stop at the end of the recording instead of repeating it")


def _parse_recording_time(text: str) -> RecordingTime:
    from telemetry_daemon.recordings.survey import parse_time

    return _parse_argument(parse_time, text)


def _parse_argument(parse: Callable[[str], T], text: str) -> T:
    """Return the parsed text. If `parse` raises ValueError, raise ArgumentTypeError with its message."""
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def check_origin_flags(arguments: argparse.Namespace) -> None:
    """Raise CommandError if a flag is used without the `--replay` or `--demo` that it needs."""
    if getattr(arguments, "fault", None) is not None and arguments.demo is None:
        raise CommandError("--fault is only for simulated cards: add --demo")
    flags = [f"--{flag}" for flag in ("at", "speed", "once") if getattr(arguments, flag, None)]
    if flags and arguments.replay is None:
        raise CommandError(f"{flags[0]} is only for recordings: add --replay FILE")


def playback_options(arguments: argparse.Namespace, *, keeps_times: bool) -> PlaybackOptions:
    """Return the options of the replay. If `keeps_times` is set, readings keep their recorded times."""
    from telemetry_daemon.recordings.playback import PlaybackOptions

    return PlaybackOptions(speed=arguments.speed or 1.0, loops=not arguments.once, keeps_times=keeps_times)


def check_sources(requested_names: Iterable[str], sources: Iterable[str]) -> None:
    """Raise CommandError if a name is not among the sources."""
    sources = tuple(sources)
    for name in requested_names:
        if name not in sources:
            raise unknown_name_error("source", name, sources)


def check_vendor(name: str, plugin_paths: Sequence[str]) -> None:
    """Raise CommandError if neither a built-in parser nor a plugin supports this vendor."""
    from telemetry_parsers.vendors import VENDOR_WORDS

    if name in VENDOR_WORDS:
        return
    from telemetry_daemon.plugins.loading import load_parsers
    from telemetry_daemon.plugins.sources import find_parsers

    with load_parsers(find_parsers(plugin_paths)) as parser_set:
        vendors = {*VENDOR_WORDS, *(loaded.parser.vendor for loaded in parser_set.parsers if loaded.parser.vendor)}
    if name not in vendors:
        raise unknown_name_error("vendor", name, vendors)


def unknown_name_error(noun: str, name: str, choices: Iterable[str], fallback: str = "") -> CommandError:
    """Return an error for an unknown name. It suggests a similar choice, else `fallback`, else lists the choices."""
    from telemetry_daemon.terminal.suggestions import similar_names

    suggestions = similar_names(name, names := sorted(choices))
    hint = f"did you mean '{suggestions[0]}'?" if suggestions else fallback or f"the {noun}s are {', '.join(names)}"
    return CommandError(f"unknown {noun} '{clean(name)}'; {hint}")
