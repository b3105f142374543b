"""The manual page telemetry(1), made from the commands, the settings and the exit statuses."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping

from command_tree import Argument, CommandTree, commands, common_options

from telemetry_daemon.config.inputs import DEFAULT_FILE, FILE_VARIABLE
from telemetry_daemon.config.settings import DEFAULT_ADDRESS, Settings
from telemetry_daemon.config.table import NAME, settings_rows
from telemetry_daemon.remote import control_socket as control
from telemetry_daemon.state import devices_file, maintenance
from telemetry_daemon.state.ledger_file import JOBS, LEDGER
from telemetry_daemon.terminal import exits
from telemetry_daemon.version import __version__
from telemetry_daemon.web.addresses import local_socket_in

# The day on which the sentences below were last changed; whoever changes them changes it.
_REVISED = "2026-11-22"
_WIDTH = 79

_DESCRIPTION = f"""
`telemetry` reads the accelerators of a node, whoever made them, through the vendors' own tools, libraries and driver
files. It shows temperature, power, power cap, memory, utilization and more, with the same names, units and labels for
all vendors. `telemetry serve` is the daemon that Prometheus scrapes, by default at http://{DEFAULT_ADDRESS}/metrics. The other
commands read once, explain what is found, or talk to the daemon.

A reading is fresh, or it is absent with a reason; a failure is never shown as a number.
"""

_OF_COMMANDS: Mapping[str, str] = {
    "serve": "Polls every source in the background and serves /metrics (Prometheus text or OpenMetrics), /api/v1/snapshot "
    "(JSON), /healthz, /readyz and a page. A service manager that sets NOTIFY_SOCKET is notified.",
    "snapshot": "A running daemon that reads by the same configuration answers first, and the heading tells how old its "
    "readings are; else, and with `--source`, `--timeout` or `--all`, all sources are read in parallel. If a running daemon is "
    "using a tool, its readings are taken from the daemon.",
    "top": "Shows the last half hour and each second anew; it changes nothing. On a node with a daemon it shows what that knows; without "
    "one it polls itself. Of several nodes it shows a line each, the worst first. The keys are at the bottom of the screen and behind ?.",
    "jobs": "Adds up the records of owners that have ended, and of those that the daemon counts now, where `attribution.enabled` "
    "is true. Hours are those of cards, times the share of a card that an owner had. `nobody` has what no owner had, so that the total is the machine's. "
    "Lines that are no records are skipped and told.",
    "profile": "Reads what profilers wrote: a file, or a folder with those of all ranks. What a file is, its content says. The answer begins with "
    "the reason why a step is slow; below is how its time was spent, by unions of intervals on each card. Nothing of the node or the job but the "
    "names of kernels, models and steps is shown. Files are read side by side, each in a process of its own; the first Ctrl-C ends the reading "
    "and shows what was read.",
    "parse": "Parses text that a tool printed, or a recording; no card is needed. Several files are taken as outputs of the "
    "same node and give one document.",
    "record": "Writes each answer of a tool, file or library as a line of JSON: what the running daemon polls if it reads the same, else what this "
    "command polls as the daemon does. Serial numbers, UUIDs, addresses and names are replaced by stand-ins. `telemetry top --replay` plays a recording.",
    "replay": "Asks the daemon that runs with `serve --replay`, and says where in the recording it is. In `telemetry top --replay` keys do the same.",
    "doctor": "Shows where each source was found, its version, the duration and CPU time of its polls, what is absent and "
    "why; holds the PCI bus, the kernel's drivers and device nodes, the running daemon and its limits against that; and ends with its findings, "
    "each with its remedy. The exit status is 2 where there is any. `--bundle` writes all that a bug report needs, masked, and prints what it is.",
    "check": "Asks the daemon, else reads the tools once, and ends as monitoring plugins do: 0 ok, 1 warning, 2 critical, 3 unknown; with "
    "`--format nhc` 0 or 1, with `--format npd` 0, 1 or 2. What a card does not tell is neutral; what nobody knows is unknown, and never ok.",
    "metrics": "Prints the name, kind, labels and meaning of each metric; with `--names` what these are under the names of another exporter.",
    "config": "`check` reports every mistake with its line and its remedy; `show` prints the settings in force and where "
    "each comes from; `default` prints a file with all settings and what they do. `peaks` prints the best that any card reached in a `roofline.csv` of rocprofiler-compute as a section of the file: what those cards are held against then.",
    "forget": "A device that was there once and is gone keeps accelerator_up 0 until it returns, for seven days, or "
    "until it is forgotten. The open events of a device that is there end, too: after a repair that the daemon did not see.",
    "release": "The daemon closes the library or ends the tool and does not poll it, so that a device can be reset or a "
    "driver unloaded.",
    "resume": "Undoes `telemetry release`.",
    "maintenance": "`on` announces that the node is worked on: until `off`, or the announced end, its alerts are held back, even "
    "while it is down; what is still wrong then is told then. Without an argument it says what holds. Prometheus must "
    "have scraped the node once before it goes down.",
    "job": "The prolog and epilog of Slurm or Flux, or a hook of PBS, calls it with the job in its environment. It ends within two seconds, "
    "always with status 0, and says on standard error what went wrong: schedulers take a node out of service whose hook fails.",
    "completions": "Packages and wheels bring these files, too; this is for shells that do not find them there.",
    "version": "Prints the versions of telemetry and of Python.",
}

_EXITS: Mapping[str, str] = {
    "OK": "Success; for `snapshot`, every source that is present was read; for `job`, always. `check` has statuses of its own.",
    "PROBLEMS": "A source failed, or an output contains something that was not understood. The rest is printed all the same.",
    "NOTHING_FOUND": "No device was found.",
    "USAGE": "The command line is wrong.",
    "UNAVAILABLE": "The daemon, or a file that is needed, cannot be reached; for `serve`, the address is in use or not there yet.",
    "BUG": "A bug in telemetry; TELEMETRY_DEBUG=1 shows the traceback.",
    "OUTPUT": "The output could not be written.",
    "RESTART": "For `serve` under systemd: asks to be restarted, because devices appeared after its start.",
    "CONFIGURATION": "The configuration cannot be used. Nothing was started.",
    "BY_SIGNAL": "And the number of the signal that ended the command, such as 130 after Ctrl-C.",
}

_SIGNALS: Mapping[str, str] = {
    "SIGHUP": "`serve` reads its configuration again, without losing a scrape. If it is bad, the running one stays in force, the "
    "error is logged, and telemetry_config_last_reload_successful becomes 0.",
    "SIGTERM, SIGINT": "`serve` stops its tools, saves its state, and ends within ten seconds. Other commands end their tools, "
    "too.",
}


def man_page() -> str:
    """The whole page in roff, for the macros that man(7) tells of."""
    lines = [
        '.\\" Generated by `make docs` from the commands themselves; changes here are lost.',
        f'.TH TELEMETRY 1 "{_REVISED}" "device-telemetry {__version__}" "User Commands"',
        *_section("NAME", ["telemetry \\- export metrics of every accelerator of a node"]),
        *_section("SYNOPSIS", _synopsis()),
        *_section("DESCRIPTION", _paragraphs(_DESCRIPTION)),
        *_section("OPTIONS", (line for each in common_options() for line in _argument(each))),
        *_section("COMMANDS", (line for each in commands() for line in _command(each))),
        *_section("EXIT STATUS", _exit_statuses()),
        *_section("ENVIRONMENT", _environment()),
        *_section("FILES", _items(_files())),
        *_section("SIGNALS", _items(_SIGNALS)),
        *_section("EXAMPLES", _items({typed: what for each in commands() for typed, what in each.examples.items()})),
        *_section("SEE ALSO", [r"\fBsystemctl\fR(1), \fBjournalctl\fR(1), \fBprometheus\fR(1), \fBpromtool\fR(1)"]),
    ]
    return "\n".join(lines) + "\n"


def _section(name: str, lines: Iterator[str] | list[str]) -> Iterator[str]:
    yield f".SH {name}"
    yield from lines


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        if number:
            yield ".PP"
        yield from _filled(paragraph)


def _filled(text: str) -> list[str]:
    """A paragraph as source lines that are not too long, with bold words in place of those in backquotes."""
    bold = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", _roff(" ".join(text.split())))
    lines = textwrap.wrap(bold, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return list(map(_no_request, lines))


def _no_request(line: str) -> str:
    """A line whose first character is not taken for the beginning of a command to roff."""
    return f"\\&{line}" if line.startswith((".", "'")) else line


def _roff(text: str) -> str:
    """Text as roff reads it; what is not ASCII is named by its number."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "".join(each if ord(each) < 128 else f"\\[u{ord(each):04X}]" for each in escaped)


def _synopsis() -> Iterator[str]:
    yield r"\fBtelemetry\fR \fICOMMAND\fR [\fIOPTION\fR ...] [\fIOPERAND\fR ...]"
    for option in common_options():
        yield ".br"
        yield rf"\fBtelemetry\fR {_flags(option).replace(', ', '|')}"


def _command(command: CommandTree) -> Iterator[str]:
    yield f".SS {command.name}"
    operands = "".join(f" {_shown(each)}{' ...' if each.repeatable else ''}" for each in command.operands)
    yield rf"\fBtelemetry {command.name}\fR [\fIOPTION\fR ...]{operands}"
    yield ".PP"
    yield from _filled(f"{command.help[0].upper()}{command.help[1:]}. {_OF_COMMANDS[command.name]}")
    for argument in (*command.operands, *command.options):
        if argument.name != "help":
            yield from _argument(argument)


def _argument(argument: Argument) -> Iterator[str]:
    yield ".TP"
    if not argument.flags:
        yield _shown(argument)
    else:
        value = "" if argument.takes == "nothing" else f" {_shown(argument)}"
        value = f" [{value.strip()}]" if argument.takes == "perhaps a value" else value
        yield _flags(argument) + value
    yield from _filled(argument.help)


def _flags(argument: Argument) -> str:
    return ", ".join(rf"\fB{_roff(flag)}\fR" for flag in argument.flags)


def _shown(argument: Argument) -> str:
    """A value in italics, or the words that it can be in bold."""
    return "|".join(rf"\f{'B' if '|' in argument.shown else 'I'}{_roff(each)}\fR" for each in argument.shown.split("|"))


def _items(items: Mapping[str, str]) -> Iterator[str]:
    for name, text in items.items():
        yield ".TP"
        yield rf"\fB{_roff(name)}\fR"
        yield from _filled(text)


def _exit_statuses() -> Iterator[str]:
    statuses = {name: value for name, value in vars(exits).items() if isinstance(value, int) and name.isupper()}
    by_number = sorted((value, _EXITS[name]) for name, value in statuses.items())
    yield from _items({str(value): text for value, text in by_number})


def _environment() -> Iterator[str]:
    yield from _filled(
        "A variable overrides the configuration file; a flag overrides both. "
        "`telemetry config default` explains each setting."
    )
    own = {
        FILE_VARIABLE: f"The configuration file to use instead of {DEFAULT_FILE}.",
        "TELEMETRY_DEBUG": "If set, a bug in telemetry prints its traceback.",
        "NO_COLOR": "If set, `snapshot` and `parse` print no colours.",
        "PATH": "Where tools are looked for first.",
    }
    yield from _items(own | {row.variable: f"The setting `{row.dotted}`." for row in settings_rows() if row.variable})
    yield ".PP"
    yield from _filled(
        f"{NAME} stands for the name of a source, in capitals and with underscores: TELEMETRY_SOURCES_MTHREADS_GMI_MODE."
    )


def _files() -> dict[str, str]:
    """What is read and written by default."""
    settings = Settings()
    return {
        DEFAULT_FILE: "The configuration.",
        str(
            devices_file.path_in(settings.state.directory)
        ): "The node's devices and their open events, so that a lost one is noticed after a restart too.",
        str(
            maintenance.path_in(settings.state.directory)
        ): "The announced maintenance, so that it lasts over a restart.",
        f"{settings.state.directory}/{JOBS}": "What owners had of the cards: a line of JSON for each that ended.",
        f"{settings.state.directory}/{LEDGER}": "The same of those that have not ended, so that the daemon goes on with it after a restart.",
        str(
            control.path_in(settings.state.runtime_directory)
        ): "The socket through which `forget`, `release`, `resume`, `maintenance` and `snapshot` reach the daemon.",
        str(
            local_socket_in(settings.state.runtime_directory)
        ): "The socket at which `top` and `snapshot` find the daemon's pages.",
        f"{settings.state.runtime_directory}/locks/*.lock": "One lock for each tool, held while it runs.",
    }
