"""Arguments that several commands share, the settings derived from them, and the errors for invalid ones."""

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

if TYPE_CHECKING:  # the help and `snapshot` of a daemon need none of these
    from telemetry_daemon.config.inputs import ConfigInputs
    from telemetry_daemon.config.settings import Settings
    from telemetry_daemon.plugins.candidates import PluginFailure
    from telemetry_daemon.plugins.loading import Loaded
    from telemetry_daemon.recordings.playback import PlaybackOptions
    from telemetry_daemon.recordings.survey import Moment
    from telemetry_parsers.model import MergedDevice

USER_VARIABLE, PASSWORD_VARIABLE = "TELEMETRY_USER", "TELEMETRY_PASSWORD"  # the name of a variable
# Output formats of a snapshot.
FORMATS = ("table", "json", "csv", "prometheus")
_REPEATABLE = frozenset({"web.listen_address"})
T = TypeVar("T")


class NotAskedError(CommandError):
    """A daemon runs on this node but refuses this user. Contains the reason for each address that was tried."""


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add `--config`."""
    where = f"${FILE_VARIABLE}, or {DEFAULT_FILE}"
    parser.add_argument("--config", metavar="FILE", help=f"configuration file (default: {where})")


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """Add the credentials. A password is never an argument: every user of the node could read it."""
    parser.add_argument("--ca", metavar="FILE", default="", help="certificates to trust, for https")
    parser.add_argument(
        "--password-file",
        metavar="FILE",
        help=f"file with USER:PASSWORD (default: ${USER_VARIABLE} and ${PASSWORD_VARIABLE})",
    )


def add_source(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add `--source`. `verb` is what the command does with the source."""
    text = f"{verb} only this source; may be given several times"
    parser.add_argument("--source", action="append", default=[], metavar="NAME", help=text)


def add_origins(parser: argparse.ArgumentParser, verb: str, *flags: str) -> argparse._MutuallyExclusiveGroup:
    """Add the named ones of `--node`, `--demo` and `--replay`, which exclude each other."""
    options: Mapping[str, Mapping[str, Any]] = {
        "--node": {"metavar": "NODE", "help": f"{verb} another node: HOST, HOST:PORT or the URL of its daemon"},
        "--demo": {
            "nargs": "?",
            "const": "",
            "metavar": "CARDS",
            "help": f"{verb} simulated cards, such as 8xnvidia,4xhygon (default: 8xnvidia)",
        },
        "--replay": {"type": Path, "metavar": "FILE", "help": f"{verb} a recording made by 'telemetry record'"},
    }
    group = parser.add_mutually_exclusive_group()
    for flag in flags:
        group.add_argument(flag, **options[flag])
    return group


def add_faults(parser: argparse.ArgumentParser) -> None:
    """Add `--fault`."""
    text = "with --demo: stage only these faults, such as lost,hot; an unknown name is answered with the known ones"
    parser.add_argument("--fault", metavar="NAMES", help=text)


def check_faults(arguments: argparse.Namespace) -> None:
    """Refuse faults without simulated cards. Raises CommandError."""
    if arguments.fault is not None and arguments.demo is None:
        raise CommandError("--fault stages faults of simulated cards: give it with --demo")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of settings."""
    from telemetry_daemon.config.settings import DEFAULT_ADDRESS, FLAGS

    help_of = {
        "log.level": "debug, info, warning or error (default: info)",
        "log.format": "text or json (default: text)",
        "web.listen_address": (
            f"where to listen: HOST:PORT, :PORT, [IPV6]:PORT or unix:/PATH; may be given several times (default: {DEFAULT_ADDRESS})"
        ),
        "web.config_file": "web configuration file of the exporter-toolkit: TLS, passwords, headers",
        "web.telemetry_path": "path of the metrics page (default: /metrics)",
    }
    for setting, flag in FLAGS.items():
        action = "append" if setting in _REPEATABLE else "store"
        parser.add_argument(flag, dest=setting, action=action, metavar="VALUE", help=help_of[setting])


def inputs(arguments: argparse.Namespace) -> ConfigInputs:
    """Return the inputs of the settings: file, environment and flags."""
    from telemetry_daemon.config.inputs import ConfigInputs
    from telemetry_daemon.config.settings import FLAGS

    values = vars(arguments)
    overrides = {setting: values[setting] for setting in FLAGS if values.get(setting) is not None}
    return ConfigInputs(path=arguments.config, environment=dict(os.environ), overrides=overrides)


def settings(arguments: argparse.Namespace) -> Settings:
    """Return the effective settings. Raises ConfigError."""
    from telemetry_daemon.config import file

    return file.load(inputs(arguments))


def check_names(arguments: argparse.Namespace, settings: Settings, polls: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse settings of unknown sources and polls. Raises ConfigError."""
    if not settings.all_known(polls, polls):
        from telemetry_daemon.config import file

        file.load(replace(inputs(arguments), known_sources=tuple(sorted(polls)), known_polls=polls))


def local_socket(arguments: argparse.Namespace) -> Path:
    """Return the socket of the daemon that uses this configuration."""
    from telemetry_daemon.web.addresses import local_socket_in

    directory = runtime_directory(arguments.config, os.environ)
    return local_socket_in(settings(arguments).state.runtime_directory if directory is None else directory)


def content_of(path: str, most_bytes: int, remedy: str) -> bytes:
    """Return the content of a file that the user named; `-` is standard input. Raises CommandError."""
    from telemetry_daemon.guarded.reading import read_file, read_stream

    try:
        return read_stream(sys.stdin.buffer, most_bytes, path) if path == "-" else read_file(path, most_bytes)
    except FileNotFoundError:
        raise CommandError(f"no such file: '{path}'; {remedy}") from None
    except OSError as error:
        raise CommandError(f"cannot read '{path}': {error.strerror or error}; {remedy}") from None


def is_called(device: MergedDevice, text: str) -> bool:
    """Return whether a text is the device's index, `device` label, both with its vendor as `check` prints them, or id."""
    names = (str(device.index), device.device)
    return text in (*names, device.id, *(f"{device.vendor} {name}" for name in names))


def warn_of_failures(loaded: Loaded) -> None:
    """Print the plugins that were not loaded on standard error."""
    for failure in loaded.failures:
        streams.say(failure_text(failure))


def failure_text(failure: PluginFailure) -> str:
    """Return which plugin was not loaded, its origin, and the reason."""
    origin = "" if failure.origin == failure.plugin else f" of {failure.origin}"
    return f"plugin {failure.plugin}{origin}: not loaded: {failure.text}"


def seconds(text: str) -> float:
    """Return the seconds of a duration. Raises ArgumentTypeError."""
    from telemetry_daemon.times import parse_duration

    duration = parse_duration(text)
    if duration == 0:
        raise argparse.ArgumentTypeError("must be greater than 0; write 90s, 10m, 1h30m or 2d, or seconds")
    if not duration:
        raise argparse.ArgumentTypeError(f"'{text}' is not a duration; write 90s, 10m, 1h30m or 2d, or seconds")
    return duration


def up_to_a_day(text: str) -> float:
    """Return the seconds of a duration between a tenth of a second and a day. Raises ArgumentTypeError."""
    duration = seconds(text)
    if not 0.1 <= duration <= 86_400:
        raise argparse.ArgumentTypeError(f"'{text}' is out of range; write a duration from 0.1 seconds to 1d")
    return duration


def add_at(parser: argparse.ArgumentParser) -> None:
    """Add `--at`."""
    text = (
        "moment of the recording: 90s from its beginning, end-30s, 03:12:07 or 2026-11-23T03:12:07Z as recorded (UTC)"
    )
    parser.add_argument("--at", type=_moment, metavar="TIME", help=text)


def add_pace(parser: argparse.ArgumentParser) -> None:
    """Add `--speed` and `--once`."""
    from telemetry_daemon.recordings import playback_clock

    text = (
        f"play a recording so many times as fast, {playback_clock.SLOWEST:g} to {playback_clock.FASTEST:g} (default: 1)"
    )
    speed = partial(_parsed, playback_clock.speed)
    parser.add_argument("--speed", type=speed, metavar="TIMES", help=text)
    parser.add_argument(
        "--once", action="store_true", help="stop at the end of the recording instead of starting again"
    )


def _moment(text: str) -> Moment:
    from telemetry_daemon.recordings.survey import moment

    return _parsed(moment, text)


def _parsed(parse: Callable[[str], T], text: str) -> T:
    """Return the parsed text. Errors keep the parser's words instead of argparse's."""
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def check_replay(arguments: argparse.Namespace) -> None:
    """Refuse flags of a recording without `--replay`. Raises CommandError."""
    given = [f"--{flag}" for flag in ("at", "speed", "once") if getattr(arguments, flag, None)]
    if given and arguments.replay is None:
        raise CommandError(f"{given[0]} is for a recording: give it with --replay FILE")


def playing(arguments: argparse.Namespace, *, tells_then: bool) -> PlaybackOptions:
    """Return how to play the recording."""
    from telemetry_daemon.recordings.playback import PlaybackOptions

    return PlaybackOptions(speed=arguments.speed or 1.0, loops=not arguments.once, tells_then=tells_then)


def check_sources(names: Iterable[str], sources: Iterable[str]) -> None:
    """Refuse unknown sources. Raises CommandError."""
    sources = tuple(sources)
    for name in names:
        if name not in sources:
            raise unknown("source", name, sources)


def check_vendor(name: str, plugin_paths: Sequence[str]) -> None:
    """Refuse a vendor that is neither built in nor of a plugin. Raises CommandError."""
    from telemetry_parsers.vendors import VENDOR_WORDS

    if name in VENDOR_WORDS:
        return
    from telemetry_daemon.plugins.loading import load
    from telemetry_daemon.plugins.sources import find

    with load(find(plugin_paths)) as loaded:
        vendors = {*VENDOR_WORDS, *(item.parser.vendor for item in loaded.parsers if item.parser.vendor)}
    if name not in vendors:
        raise unknown("vendor", name, vendors)


def unknown(kind: str, name: str, choices: Iterable[str], otherwise: str = "") -> CommandError:
    """Return the error for an unknown name: it suggests the nearest choice, or else ends with `otherwise` or lists all choices."""
    from telemetry_daemon.terminal.suggestions import nearest

    near = nearest(name, names := sorted(choices))
    hint = f"did you mean '{near[0]}'?" if near else otherwise or f"the {kind}s are {', '.join(names)}"
    return CommandError(f"unknown {kind} '{clean(name)}'; {hint}")
