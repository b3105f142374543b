"""The `telemetry` command: parses the arguments, runs one command, and turns errors into one line and a status."""

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

# The commands and their descriptions in the order of the help. Modules are imported on demand: `telemetry version` must
# not pay for the daemon.
COMMANDS = (
    ("serve", "run the daemon that Prometheus scrapes"),
    ("snapshot", "read all accelerators once and show the readings"),
    ("doctor", "find what is wrong with sources, drivers, rights, limits and the daemon, and what to do"),
    ("check", "judge the node for a scheduler or a monitoring system, with an exit status"),
    ("record", "record the output of tools, files and libraries, for a bug report or a replay"),
    ("replay", "stop or move the recording that the daemon plays, or play it faster"),
    ("top", "watch the devices of this node, or of many, in the terminal"),
    ("jobs", "show how long each owner had cards, and the cost"),
    ("profile", "explain why a training step is slow, from a profiler's files"),
    ("parse", "run one parser on saved output of its tool"),
    ("metrics", "list all metrics"),
    ("config", "check the configuration, show it, or print a default file"),
    ("forget", "stop reporting a device that is gone for good as lost"),
    ("release", "make the daemon close a library or tool, so that a device can be reset"),
    ("resume", "make the daemon poll a released source again"),
    ("maintenance", "announce that the node is worked on, so that its alerts are held back"),
    ("job", "report the start or end of a job to the daemon; called by the hooks of Slurm, PBS and Flux"),
    ("completions", "print the completion script for bash, zsh or fish"),
    ("version", "print the version"),
)
# Commands that are packages of their own, which nothing else imports.
_ELSEWHERE = {"profile": "telemetry_profile.profile_command"}


# The errors of a full disk, a broken terminal or a closed descriptor.
_CHOICE = re.compile(r"invalid choice: '(.*)' \(choose from (.*)\)", re.DOTALL)  # as argparse words it
_OUTPUT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF})


class _Parser(argparse.ArgumentParser):
    """argparse with the exit status of sysexits(3), and examples at the end of the help."""

    examples: Mapping[str, str] = {}
    refused: Callable[[str], int] | None = None

    def error(self, message: str) -> NoReturn:
        """Report wrong usage in one line, with the nearest word for a mistyped choice, and exit."""
        wrong = _CHOICE.search(message)
        if wrong is not None:
            from telemetry_daemon.terminal.suggestions import nearest_or_all

            hint = nearest_or_all(wrong[1], re.findall(r"[\w.:-]+", wrong[2]))
            message = message.replace(wrong[0], f"no such choice: '{wrong[1]}'{hint}")
        message = f"{message}; see '{self.prog} --help'"
        if self.refused is not None:
            sys.exit(self.refused(message))
        streams.say(message, self.prog)
        sys.exit(exits.USAGE)

    def refuse(self, arguments: Sequence[str]) -> NoReturn:
        """Exit because of arguments that the command does not have."""
        from telemetry_daemon.terminal.suggestions import did_you_mean, nearest

        name = arguments[0].partition("=")[0]
        near = nearest(name, self._option_string_actions) if name.startswith("-") else ()
        self.error(f"unrecognized arguments: {' '.join(arguments)}{did_you_mean(near)}")

    def format_help(self) -> str:
        """Return the help, with examples at its end."""
        lines = [f"  {typed}\n      {what}\n" for typed, what in self.examples.items()]
        return super().format_help() + ("\nexamples:\n" + "".join(lines) if lines else "")


def _overview() -> str:
    width = max(len(name) for name, _ in COMMANDS)
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS)


def build_parser(command: str | None) -> _Parser:
    """Return the parser of one command, or the parser that lists all commands."""
    if command is None:
        parser = _Parser(
            prog="telemetry",
            description="Reads every accelerator of a node and exposes metrics.",
            epilog=f"commands:\n{_overview()}\n\n'telemetry COMMAND --help' describes each command.",
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=streams.columns() - 2),
            usage="telemetry COMMAND [OPTION …]",
            allow_abbrev=False,
        )
        parser.add_argument("--version", action="store_true", help="print the version")
        return parser
    text = dict(COMMANDS)[command]
    description = text[0].upper() + text[1:] + "."
    # argparse would ask shutil for the width, which stays in the daemon with two libraries.
    # No abbreviations: one that works today is ambiguous as soon as there is another flag that begins so.
    parser = _Parser(
        prog=f"telemetry {command}",
        description=description,
        formatter_class=partial(argparse.HelpFormatter, width=streams.columns() - 2),
        allow_abbrev=False,
    )
    module = module_of(command)
    module.configure(parser)
    parser.examples = module.EXAMPLES
    parser.refused = getattr(module, "refused", None)
    return parser


class _Command(Protocol):
    """The interface of each module of `commands`. `EXAMPLES` maps command lines to descriptions."""

    EXAMPLES: Mapping[str, str]

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run; returns the exit status."""


def module_of(command: str) -> _Command:
    """Import and return the command's module."""
    module: _Command = importlib.import_module(_ELSEWHERE.get(command, f"telemetry_daemon.commands.{command}"))
    return module


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["job"]:
        from telemetry_daemon.readers.jobs import harmless  # a scheduler drains a node whose hook fails

        harmless.run(partial(_main, arguments))
    return _main(arguments)


def _main(arguments: list[str]) -> int:
    streams.prepare()
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
    except CommandError as error:
        for line in error.lines:
            streams.say(line)
        return error.status
    except BrokenPipeError:
        # The reader of our output has exited, as with `| head`.
        _discard_output()
        return exits.OK
    except KeyboardInterrupt as end:
        return exits.BY_SIGNAL + (end.number if isinstance(end, SignalledError) else signal.SIGINT)
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            return _bug(error)
        _discard_output()
        streams.say(f"cannot write to standard output: {error.strerror}; make room, or send it elsewhere")
        return exits.OUTPUT
    except Exception as error:  # noqa: BLE001  # the last resort: a bug is reported in one line, in full on request
        return _bug(error)
    return status


def _bug(error: Exception) -> int:
    import traceback

    if os.environ.get("TELEMETRY_DEBUG"):
        traceback.print_exception(error)
    where = traceback.extract_tb(error.__traceback__)[-1]
    streams.say(
        f"a bug of ours: {type(error).__name__}: {error} ({where.name}, line {where.lineno});"
        " set TELEMETRY_DEBUG=1 for the traceback and report it"
    )
    return exits.BUG


def _discard_output() -> None:
    """Redirect standard output to /dev/null, so that flushing the buffer at exit raises nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    names = [name for name, _ in COMMANDS]
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    if arguments and arguments[0] in names:
        command = arguments[0]
        parser = build_parser(command)
        parsed, others = parser.parse_known_args(arguments[1:])
        if others:
            parser.refuse(others)
        return module_of(command).run(parsed)
    if arguments and not arguments[0].startswith("-"):
        from telemetry_daemon.commands import options

        raise options.unknown("command", arguments[0], names)
    parsed = build_parser(None).parse_args(arguments)
    if parsed.version:
        return _dispatch(["version"])
    build_parser(None).print_help(sys.stderr)
    return exits.USAGE


if __name__ == "__main__":
    sys.exit(main())
