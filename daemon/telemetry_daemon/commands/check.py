"""`telemetry check`: reports the node's health to schedulers and monitoring systems."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from telemetry_daemon.commands import options
from telemetry_daemon.terminal.exits import CommandError
from telemetry_parsers.dataclass import dataclass, field

if TYPE_CHECKING:  # imported at run time only when a node is examined
    from telemetry_daemon.commands.rendering import Result
    from telemetry_exporters.judgement.checkup import Checkup

EXAMPLES = {
    "telemetry check": "Check this node as an Icinga or Nagios plugin.",
    "telemetry check --format nhc --thresholds /etc/telemetry/check.toml": "Check this node with custom thresholds, for Node Health Check (NHC).",
}

FORMATS = ("nagios", "nhc", "npd", "json")
_DEFAULT_TIMEOUT_SECONDS = 20.0
_UNKNOWN_STATUS = 3
_EXPECTED_METRIC = "telemetry_devices_expected"
_PCI_METRIC = "telemetry_pci_devices"
_COUNT_LINE = re.compile(rf'({_EXPECTED_METRIC}|{_PCI_METRIC})\{{vendor="([a-z]{{1,32}})"\}} ([0-9.]{{1,9}})\n')
# Formats whose exit status for "unknown" differs from that of monitoring plugins.
_UNKNOWN_STATUS_BY_FORMAT = {"nhc": 1, "npd": 2}
_MAX_FILE_BYTES = 1 << 20
_MAX_DEVICES = 4096
# The thresholds that `check` evaluates. Prometheus evaluates the others.
THRESHOLD_NAMES = (
    "ecc_corrected",
    "ecc_corrected_sram",
    "retired_pages",
    "remapped_rows",
    "limit_margin_celsius",
    "hot_celsius",
    "hot_junction_celsius",
    "critical_celsius",
    "critical_junction_celsius",
    "fan_stopped_celsius",
    "at_cap_ratio",
)


@dataclass(frozen=True, slots=True)
class Overrides:
    """The thresholds and device counts in the `--thresholds` file."""

    thresholds: Mapping[str, float] = field(default_factory=dict)
    expected: Mapping[str, int] = field(default_factory=dict)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="nagios",
        help="output format: for Nagios and Icinga, for Node Health Check, for node-problem-detector, or JSON (default: nagios)",
    )
    parser.add_argument(
        "--thresholds", metavar="FILE", help="TOML file whose [thresholds] and [expect] replace the defaults"
    )
    parser.add_argument("--device", metavar="DEVICE", help="check only devices with this index, `device` label or id")
    parser.add_argument(
        "--timeout",
        type=options.parse_seconds_up_to_a_day,
        default=_DEFAULT_TIMEOUT_SECONDS,
        metavar="TIME",
        help="do not wait longer than TIME for sources (default: 20s)",
    )
    options.add_origins(parser, "check", options.DEMO_HELP, "--node", "--demo")
    options.add_credentials(parser)
    options.add_config(parser)
    # `own_readings.open_tools` reads these arguments, which have no flags here.
    parser.set_defaults(source=[], all=None, replay=None, origin=None)


def run(arguments: argparse.Namespace) -> int:
    """Print the result and return its exit status."""
    from telemetry_exporters.text import clean

    try:
        checkup = _run_checkup(arguments)
    except CommandError as error:
        reason = clean("; ".join(error.lines)).replace("|", "/")
        print(f"TELEMETRY UNKNOWN - {reason}", file=sys.stderr if arguments.format == "json" else sys.stdout)
        # Node Health Check must not drain a node because of missing permissions.
        is_ignored = arguments.format == "nhc" and isinstance(error, options.DaemonRefusedError)
        return 0 if is_ignored else _UNKNOWN_STATUS_BY_FORMAT.get(arguments.format, _UNKNOWN_STATUS)
    from telemetry_exporters.documents import check_formats

    formatters: Mapping[str, Callable[[Checkup], str]] = {
        "nagios": check_formats.nagios_text,
        "nhc": check_formats.nhc_text,
        "npd": check_formats.npd_text,
        "json": check_formats.document,
    }
    status_converters = {"nhc": check_formats.nhc_status, "npd": check_formats.npd_status}
    sys.stdout.write(formatters[arguments.format](checkup))
    return status_converters.get(arguments.format, int)(checkup.status)


def report_usage_error(message: str) -> int:
    """Print a usage error, and return the exit status for UNKNOWN."""
    print(f"TELEMETRY UNKNOWN - {message}")
    return _UNKNOWN_STATUS


def _run_checkup(arguments: argparse.Namespace) -> Checkup:
    from telemetry_exporters.judgement import thresholds
    from telemetry_exporters.judgement.checkup import examine
    from telemetry_exporters.snapshot_filter import clean_snapshot

    overrides = Overrides() if arguments.thresholds is None else read_overrides(arguments.thresholds)
    snapshot = clean_snapshot(_read_snapshot(arguments).snapshot)
    selected_ids = None
    if arguments.device is not None:
        selected_ids = {device.id for device in snapshot.devices if options.matches_device(device, arguments.device)}
        if not selected_ids:
            raise CommandError(f"no device matches {arguments.device!r}; `telemetry snapshot` lists the devices")
    with thresholds.overridden(overrides.thresholds):
        expected, has_accelerators = _device_expectations(arguments)
        return examine(snapshot, overrides.expected or expected, selected_ids, has_accelerators=has_accelerators)


def _read_snapshot(arguments: argparse.Namespace) -> Result:
    """Return a daemon's snapshot, or read the sources if no daemon with the same settings is ready."""
    from telemetry_daemon.commands import daemons

    if arguments.node is not None:
        return daemons.daemon_snapshot(arguments)
    result = None if arguments.demo is not None else daemons.local_daemon_snapshot(arguments)
    if result is not None:
        return result
    from telemetry_daemon.commands import own_readings

    with own_readings.open_tools(arguments) as read_tools:
        return read_tools()


def _device_expectations(arguments: argparse.Namespace) -> tuple[Mapping[str, int], bool]:
    """Return the expected device counts by vendor, and whether the node seems to have accelerators."""
    if arguments.demo is not None:
        return {}, True
    if arguments.node is None:
        return options.load_settings(arguments).expect.devices, _has_accelerators()
    from telemetry_daemon.commands import daemons

    names = urlencode([("name[]", name) for name in (_EXPECTED_METRIC, _PCI_METRIC)])
    (address,) = daemons.addresses([arguments.node], None)
    page = daemons.fetch(arguments, address, f"/metrics?{names}", arguments.timeout).decode("utf-8", "replace")
    samples = [(match[1], match[2], int(float(match[3]))) for match in _COUNT_LINE.finditer(page)]
    expected = {vendor: count for name, vendor, count in samples if name == _EXPECTED_METRIC}
    return expected, any(count for name, _, count in samples if name == _PCI_METRIC)


def _has_accelerators() -> bool:
    from telemetry_daemon.readers.device_nodes import NODE_PATTERNS
    from telemetry_daemon.readers.pci import find_accelerators

    # /dev/dri is skipped, because every graphics driver creates nodes there.
    vendor_nodes = (pattern.removeprefix("/dev/") for pattern in NODE_PATTERNS if not pattern.startswith("/dev/dri/"))
    return bool(find_accelerators()) or any(any(Path("/dev").glob(pattern)) for pattern in vendor_nodes)


def read_overrides(path: str) -> Overrides:
    """Return the overrides in a file. If it is invalid, raise CommandError with all errors in it."""
    from telemetry_parsers.vendors import VENDOR_WORDS

    document = _read_toml(path)
    thresholds, expected = document.pop("thresholds", {}), document.pop("expect", {})
    count_requirement = f"a whole number from 0 to {_MAX_DEVICES}"
    problems = [
        *(f"[{name}]: no such section; the sections are thresholds and expect" for name in document),
        *_section_problems("thresholds", thresholds, "number", THRESHOLD_NAMES, _is_threshold, "a non-negative number"),
        *_section_problems("expect", expected, "vendor", VENDOR_WORDS, _is_count, count_requirement),
    ]
    if problems:
        raise CommandError(*(f"{path}: {problem}" for problem in problems))
    return Overrides({name: float(value) for name, value in thresholds.items()}, expected)


def _read_toml(path: str) -> dict[str, Any]:
    from telemetry_daemon.config.inputs import parse_toml

    content = options.read_content(path, _MAX_FILE_BYTES, "use a readable TOML file")
    try:
        return parse_toml(content.decode())
    except ValueError as error:
        raise CommandError(f"{path} is not valid TOML: {error}") from None


def _section_problems(
    section: str, table: Any, entry_kind: str, names: Sequence[str], is_valid: Callable[[Any], bool], requirement: str
) -> Iterator[str]:
    from telemetry_daemon.terminal.suggestions import suggest_or_list

    if not isinstance(table, dict):
        yield f"{section}: must be a section, as in [{section}]"
        return
    for name, value in table.items():
        if name not in names:
            yield f"{section}.{name}: no such {entry_kind}{suggest_or_list(name, names)}"
        if not is_valid(value):
            yield f"{section}.{name}: must be {requirement}, not {value!r}"


def _is_threshold(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_DEVICES
