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

# The date of the last change of the texts below.
_REVISED = "2026-11-27"
_WIDTH = 79

_DESCRIPTION = f"""
`telemetry` reads the accelerators of a node through the vendors' tools, libraries and driver files. It shows
temperature, power, power cap, memory, utilization and more, with the same names, units and labels for all vendors.
`telemetry serve` is the daemon that Prometheus scrapes, by default at http://{DEFAULT_ADDRESS}/metrics. The other
commands read once, explain the result, or use the daemon.

A reading is either current, or absent with a reason. A failure is never shown as a number.
"""

_COMMAND_TEXTS: Mapping[str, str] = {
    "serve": "Polls every source in the background and serves /metrics (Prometheus text or OpenMetrics), /api/v1/snapshot "
    "(JSON), /healthz, /readyz and a page. A service manager that sets NOTIFY_SOCKET is notified.",
    "snapshot": "Shows the readings of the running daemon, if its configuration is the same, and their age in the heading. Without "
    "a daemon, and with `--source`, `--timeout` or `--all`, it polls all sources in parallel. If the daemon is using a tool, the "
    "tool's readings come from the daemon.",
    "top": "Shows the last half hour, updated every second, and changes nothing. It shows the daemon's data; without a "
    "daemon, it polls the tools itself. Each node has a line, the worst node first. The bottom line shows the keys of the view; ? shows all keys.",
    "jobs": "Adds up the records of finished and running jobs and other owners, if `attribution.enabled` is true. Hours are card "
    "hours times the owner's share of the card. The total includes unallocated use. Invalid lines are "
    "skipped and reported.",
    "profile": "Reads the output of profilers: a file, or a folder with the files of all ranks, recognised by content. It says first "
    "why a step is slow, then how its time was spent, counting work that runs in parallel on a card once. Only names of kernels, models and "
    "steps are shown. Files are read in parallel, each in a separate process; the first Ctrl-C stops reading and shows "
    "the result so far.",
    "parse": "Parses recordings, too. No card is needed. Several files must be from the same node, and give one document.",
    "record": "Writes each output of a tool, file or library as a line of JSON. The outputs are those of a running daemon with the same "
    "configuration, otherwise of the command's own polls. Serial numbers, UUIDs, addresses and names are replaced by stand-ins. `telemetry top --replay` plays a recording.",
    "replay": "Controls the daemon that runs with `serve --replay`, or shows the position of the recording. In `telemetry top --replay`, keys do the same.",
    "doctor": "Shows where each source was found, its version, the duration and CPU time of its polls, and absent readings with "
    "reasons. It compares the readings with the PCI bus, the kernel's drivers and device nodes, the running daemon and its limits, and "
    "lists its findings with remedies. The exit status is 2 if there are any. `--bundle` writes a masked bug report and lists its contents.",
    "check": "Uses the daemon, or polls the tools once if no daemon answers, and exits as monitoring plugins do: 0 ok, 1 warning, 2 critical, 3 unknown; with "
    "`--format nhc` 0 or 1, with `--format npd` 0, 1 or 2. Readings that a card does not report have no effect.",
    "metrics": "Prints the name, kind, labels and meaning of each metric, or only of the metrics that contain the given words; `--names` prints another exporter's names.",
    "config": "`check` reports every mistake with its line and remedy; `show` prints the effective settings and where each was set; "
    "`default` prints a file with all settings. `peaks` prints a section for this file with the best values of a `roofline.csv` of rocprofiler-compute.",
    "forget": "For a lost device, accelerator_up is 0 until the device returns or is forgotten, for at most seven days. `forget` also ends the open events of "
    "a present device: use it after a repair that the daemon did not notice.",
    "release": "The daemon closes the library or ends the tool and does not poll it, so that a device can be reset or a "
    "driver unloaded.",
    "resume": "Undoes `telemetry release`.",
    "maintenance": "`on` announces work on the node: its alerts are not sent until `off` or the announced end, even while the node is "
    "down. Alerts that are still firing are sent afterwards. Without an argument it shows the maintenance. Prometheus must have "
    "scraped the node once before it goes down.",
    "job": "The prolog and epilog of Slurm or Flux, or a PBS hook, calls this command with the job in the environment. It always exits within "
    "two seconds with status 0, and reports errors on standard error: schedulers drain nodes whose hooks fail.",
    "completions": "Packages and wheels install these files, too; this command is for other shells.",
    "version": "Prints the versions of telemetry and of Python.",
}

_EXITS: Mapping[str, str] = {
    "OK": "Success; for `snapshot`, every source that is present was read; for `job`, always. `check` has its own statuses.",
    "PROBLEMS": "A source failed, or an output contains text that was not understood. The rest is still printed.",
    "NOTHING_FOUND": "No device was found.",
    "USAGE": "The command line is wrong.",
    "UNAVAILABLE": "The daemon, or a required file, cannot be reached; for `serve`, the address is in use or does not exist yet.",
    "BUG": "A bug in telemetry; TELEMETRY_DEBUG=1 shows the traceback.",
    "OUTPUT": "The output could not be written.",
    "RESTART": "For `serve` under systemd: asks to be restarted, because devices appeared after its start.",
    "CONFIGURATION": "The configuration cannot be used. Nothing was started.",
    "BY_SIGNAL": "128 plus the number of the signal that killed the command, such as 130 after Ctrl-C.",
}

_SIGNALS: Mapping[str, str] = {
    "SIGHUP": "`serve` reads its configuration again, without losing a scrape. If the new configuration is invalid, the previous one stays in use, the "
    "error is logged, and telemetry_config_last_reload_successful becomes 0.",
    "SIGTERM, SIGINT": "`serve` stops its tools, saves its state, and exits within ten seconds. Other commands stop their tools, "
    "too.",
}


def man_page() -> str:
    """Return the whole page in roff, for the macros of man(7)."""
    lines = [
        '.\\" Generated by `make docs` from the commands themselves; changes here are lost.',
        f'.TH TELEMETRY 1 "{_REVISED}" "device-telemetry {__version__}" "User Commands"',
        *_section("NAME", ["telemetry \\- export metrics of every accelerator of a node"]),
        *_section("SYNOPSIS", _synopsis()),
        *_section("DESCRIPTION", _paragraphs(_DESCRIPTION)),
        *_section("OPTIONS", (line for option in common_options() for line in _argument(option))),
        *_section("COMMANDS", (line for command in commands() for line in _command(command))),
        *_section("EXIT STATUS", _exit_statuses()),
        *_section("ENVIRONMENT", _environment()),
        *_section("FILES", _items(_files())),
        *_section("SIGNALS", _items(_SIGNALS)),
        *_section("EXAMPLES", _items({typed: text for row in commands() for typed, text in row.examples.items()})),
        *_section("SEE ALSO", [r"\fBsystemctl\fR(1), \fBjournalctl\fR(1), \fBprometheus\fR(1), \fBpromtool\fR(1)"]),
    ]
    return "\n".join(lines) + "\n"


def _section(name: str, lines: Iterator[str] | list[str]) -> Iterator[str]:
    yield f".SH {name}"
    yield from lines


def _paragraphs(text: str) -> Iterator[str]:
    for index, paragraph in enumerate(text.strip().split("\n\n")):
        if index:
            yield ".PP"
        yield from _wrapped(paragraph)


def _wrapped(text: str) -> list[str]:
    """Return a paragraph as source lines of limited length, with bold words in place of backquotes."""
    bold = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", _roff(" ".join(text.split())))
    lines = textwrap.wrap(bold, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return list(map(_without_request, lines))


def _without_request(line: str) -> str:
    """Return the line, escaped if roff would interpret its first character as the start of a request."""
    return f"\\&{line}" if line.startswith((".", "'")) else line


def _roff(text: str) -> str:
    """Return the text escaped for roff. Characters outside ASCII become code points."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "".join(letter if ord(letter) < 128 else f"\\[u{ord(letter):04X}]" for letter in escaped)


def _synopsis() -> Iterator[str]:
    yield r"\fBtelemetry\fR \fICOMMAND\fR [\fIOPTION\fR ...] [\fIOPERAND\fR ...]"
    for option in common_options():
        yield ".br"
        yield rf"\fBtelemetry\fR {_flags(option).replace(', ', '|')}"


def _command(command: CommandTree) -> Iterator[str]:
    yield f".SS {command.name}"
    operands = "".join(f" {_value_name(operand)}{' ...' if operand.repeatable else ''}" for operand in command.operands)
    yield rf"\fBtelemetry {command.name}\fR [\fIOPTION\fR ...]{operands}"
    yield ".PP"
    yield from _wrapped(f"{command.help[0].upper()}{command.help[1:]}. {_COMMAND_TEXTS[command.name]}")
    for argument in (*command.operands, *command.options):
        if argument.name != "help":
            yield from _argument(argument)


def _argument(argument: Argument) -> Iterator[str]:
    yield ".TP"
    if not argument.flags:
        yield _value_name(argument)
    else:
        value = "" if argument.value_use == "none" else f" {_value_name(argument)}"
        value = f" [{value.strip()}]" if argument.value_use == "optional" else value
        yield _flags(argument) + value
    yield from _wrapped(argument.help)


def _flags(argument: Argument) -> str:
    return ", ".join(rf"\fB{_roff(flag)}\fR" for flag in argument.flags)


def _value_name(argument: Argument) -> str:
    """Return the value in italics, or the allowed words in bold."""
    font = "B" if "|" in argument.value_name else "I"
    return "|".join(rf"\f{font}{_roff(word)}\fR" for word in argument.value_name.split("|"))


def _items(items: Mapping[str, str]) -> Iterator[str]:
    for name, text in items.items():
        yield ".TP"
        yield rf"\fB{_roff(name)}\fR"
        yield from _wrapped(text)


def _exit_statuses() -> Iterator[str]:
    statuses = {name: value for name, value in vars(exits).items() if isinstance(value, int) and name.isupper()}
    by_number = sorted((value, _EXITS[name]) for name, value in statuses.items())
    yield from _items({str(value): text for value, text in by_number})


def _environment() -> Iterator[str]:
    yield from _wrapped(
        "A variable overrides the configuration file; a flag overrides both. "
        "`telemetry config default` explains each setting."
    )
    program_variables = {
        FILE_VARIABLE: f"The configuration file to use instead of {DEFAULT_FILE}.",
        "TELEMETRY_DEBUG": "If set, a bug in telemetry prints its traceback.",
        "NO_COLOR": "If set, `snapshot` and `parse` print no colours.",
        "PATH": "The folders that are searched for tools first.",
    }
    setting_variables = {row.variable: f"The setting `{row.dotted_path}`." for row in settings_rows() if row.variable}
    yield from _items(program_variables | setting_variables)
    yield ".PP"
    yield from _wrapped(
        f"{NAME} stands for the name of a source, in capitals and with underscores: TELEMETRY_SOURCES_MTHREADS_GMI_MODE."
    )


def _files() -> dict[str, str]:
    settings = Settings()
    return {
        DEFAULT_FILE: "The configuration.",
        str(
            devices_file.path_in(settings.state.directory)
        ): "The node's devices and their open events, so that a lost device is noticed even after a restart.",
        str(
            maintenance.path_in(settings.state.directory)
        ): "The announced maintenance, so that it continues after a restart.",
        f"{settings.state.directory}/{JOBS}": "The use of cards: a line of JSON for each finished job or other owner.",
        f"{settings.state.directory}/{LEDGER}": "The use of cards by running jobs and other owners, so that the daemon continues their records after a restart.",
        str(
            control.socket_path(settings.state.runtime_directory)
        ): "The socket through which `forget`, `release`, `resume`, `maintenance` and `snapshot` reach the daemon.",
        str(
            local_socket_in(settings.state.runtime_directory)
        ): "The socket from which `top` and `snapshot` read the daemon's pages.",
        f"{settings.state.runtime_directory}/locks/*.lock": "One lock for each tool, held while the tool runs.",
    }
