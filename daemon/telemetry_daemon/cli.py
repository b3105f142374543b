"""Parses the arguments of `telemetry`, and runs one command."""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn, Protocol

from telemetry_daemon.terminal import exits, streams
from telemetry_daemon.terminal.exits import CommandError, SignalledError

# Commands with their descriptions, in the order of the help.
COMMANDS = (
    ("serve", "run the daemon that Prometheus scrapes"),
    ("snapshot", "read all accelerators once and show the readings"),
    ("doctor", "find problems with sources, drivers, permissions, limits and the daemon, and suggest remedies"),
    ("check", "report the node's health as an exit status, for a scheduler or a monitoring system"),
    ("record", "record the output of tools, files and libraries, for a bug report or a replay"),
    ("replay", "pause, seek or speed up the recording that the daemon plays"),
    ("top", "watch the devices of this node, or of many, in the terminal"),
    ("jobs", "show how long each owner used cards, and at what cost"),
    ("profile", "explain why a training step is slow, from a profiler's files"),
    ("parse", "parse the saved output of a tool"),
    ("metrics", "list all metrics"),
    ("config", "check the configuration, show it, or print a default file"),
    ("forget", "stop reporting a removed device as lost"),
    ("release", "make the daemon close a library or tool, so that a device can be reset"),
    ("resume", "make the daemon poll a released source again"),
    ("maintenance", "suppress the node's alerts while you work on the node"),
    ("job", "report the start or end of a job to the daemon; called by the hooks of Slurm, PBS and Flux"),
    ("completions", "print the completion script for bash, zsh or fish"),
    ("version", "print the version"),
)
# The modules of these commands are in another package.
_EXTERNAL_MODULES = {"profile": "telemetry_profile.profile_command"}

_INVALID_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)
# Writing to a full disk, a broken terminal or a closed descriptor fails with these errors.
_OUTPUT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF})


class _Parser(argparse.ArgumentParser):
    """An argument parser that exits with the statuses of sysexits(3)."""

    examples: Mapping[str, str] = {}
    report_error: Callable[[str], int] | None = None

    def error(self, message: str) -> NoReturn:
        """Report a usage error in one line, and exit."""
        match = _INVALID_CHOICE.search(message)
        if match is not None:
            from telemetry_daemon.terminal.suggestions import suggest_or_list

            hint = suggest_or_list(match[1], re.findall(r"[\w.:-]+", match[2]))
            message = message.replace(match[0], f"no such choice: '{match[1]}'{hint}")
        message = f"{message}; see '{self.prog} --help'"
        if self.report_error is not None:
            sys.exit(self.report_error(message))
        streams.say(message, self.prog)
        sys.exit(exits.USAGE)

    def reject_unknown_arguments(self, arguments: Sequence[str]) -> NoReturn:
        from telemetry_daemon.terminal.suggestions import did_you_mean, similar_names

        name = arguments[0].partition("=")[0]
        options = {option.lstrip("-"): option for option in self._option_string_actions}
        similar = similar_names(name.lstrip("-"), options) if name.startswith("-") else []
        self.error(f"unrecognized arguments: {' '.join(arguments)}{did_you_mean(options[word] for word in similar)}")

    def format_help(self) -> str:
        lines = [f"  {command}\n      {description}\n" for command, description in self.examples.items()]
        return super().format_help() + ("\nexamples:\n" + "".join(lines) if lines else "")


def _command_list() -> str:
    name_width = max(len(name) for name, _ in COMMANDS)
    return "\n".join(f"  {name:<{name_width}}  {description}" for name, description in COMMANDS)


def build_parser(command: str | None) -> _Parser:
    """Return the argument parser of a command, or of `telemetry` itself."""
    if command is None:
        parser = _Parser(
            prog="telemetry",
            description="Reads every accelerator of a node and exposes metrics.",
            epilog=f"commands:\n{_command_list()}\n\n'telemetry COMMAND --help' describes each command.",
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=streams.terminal_width() - 2),
            usage="telemetry COMMAND [OPTION …]",
            allow_abbrev=False,
        )
        parser.add_argument("--version", action="store_true", help="print the version")
        return parser
    summary = dict(COMMANDS)[command]
    description = summary[0].upper() + summary[1:] + "."
    # With a width, argparse does not import shutil. Abbreviations are off: a new flag could make them ambiguous.
    parser = _Parser(
        prog=f"telemetry {command}",
        description=description,
        formatter_class=partial(argparse.HelpFormatter, width=streams.terminal_width() - 2),
        allow_abbrev=False,
    )
    module = command_module(command)
    module.configure(parser)
    parser.examples = module.EXAMPLES
    parser.report_error = getattr(module, "report_usage_error", None)
    return parser


class _CommandModule(Protocol):
    EXAMPLES: Mapping[str, str]

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add this command's arguments to the parser."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command and return the exit status."""


def command_module(command: str) -> _CommandModule:
    """Import and return the command's module."""
    name = _EXTERNAL_MODULES.get(command, f"telemetry_daemon.commands.{command}")
    module: _CommandModule = importlib.import_module(name)
    return module


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["job"]:
        from telemetry_daemon.readers.jobs import hook_process  # exits with 0, because a failed hook drains the node

        hook_process.run_and_exit(partial(_run_and_report_errors, arguments))
    return _run_and_report_errors(arguments)


def _run_and_report_errors(arguments: list[str]) -> int:
    streams.prepare_streams()
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
    except CommandError as error:
        for line in error.lines:
            streams.say(line)
        return error.status
    except BrokenPipeError:
        # The program that reads the output, such as `head`, has exited.
        _discard_output()
        return exits.OK
    except KeyboardInterrupt as interrupt:
        return exits.BY_SIGNAL + (interrupt.number if isinstance(interrupt, SignalledError) else signal.SIGINT)
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            return _report_bug(error)
        _discard_output()
        streams.say(f"cannot write to standard output: {error.strerror}; free some space, or redirect the output")
        return exits.OUTPUT
    except Exception as error:  # noqa: BLE001  # a bug is reported in one line; TELEMETRY_DEBUG=1 adds the traceback
        return _report_bug(error)
    return status


def _report_bug(error: Exception) -> int:
    import traceback

    if os.environ.get("TELEMETRY_DEBUG"):
        traceback.print_exception(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    streams.say(
        f"this is a bug: {type(error).__name__}: {error} ({frame.name}, line {frame.lineno});"
        " report it with its traceback (set TELEMETRY_DEBUG=1)"
    )
    return exits.BUG


def _discard_output() -> None:
    """Redirect standard output to /dev/null, so that Python's last flush succeeds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    names = [name for name, _ in COMMANDS]
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    command = arguments[0] if arguments and not arguments[0].startswith("-") else None
    if command is not None and command not in names:
        from telemetry_daemon.commands import options

        raise options.unknown_name_error("command", command, names)
    parser = build_parser(command)
    namespace, unknown_arguments = parser.parse_known_args(arguments[command is not None :])
    if unknown_arguments:
        parser.reject_unknown_arguments(unknown_arguments)
    if command is not None:
        return command_module(command).run(namespace)
    if namespace.version:
        return _dispatch(["version"])
    parser.print_help(sys.stderr)
    return exits.USAGE


if __name__ == "__main__":
    sys.exit(main())
