"""Collects the members of a bundle, the most important first."""

from __future__ import annotations

import gzip
import os
import platform
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from importlib import metadata
from pathlib import Path

from telemetry_daemon.config.file import LoadedConfig
from telemetry_daemon.config.table import effective_toml
from telemetry_daemon.doctor import examination
from telemetry_daemon.doctor.bundle import (
    MAX_MEMBER_BYTES,
    Bundle,
    Member,
    masked_page,
    masked_settings,
    masked_unit,
    redacted_web_config,
)
from telemetry_daemon.doctor.daemon import HISTORY_PATH, UNIT, UNIT_PROPERTIES, run_program
from telemetry_daemon.doctor.document import document
from telemetry_daemon.doctor.examination import Examination
from telemetry_daemon.doctor.sources import PolledSources, installed_tools
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import read_file, text_at
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.recordings import recorder
from telemetry_daemon.recordings.parsed_captures import report_of
from telemetry_daemon.remote.control_socket import ControlError
from telemetry_daemon.remote.foreign_documents import DocumentError, parse_document
from telemetry_daemon.remote.http_client import Client, Credentials, NodeError
from telemetry_daemon.state.flights import FlightFile
from telemetry_daemon.version import __version__
from telemetry_exporters.text import clean
from telemetry_parsers.codec.captures import capture_line
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Device, Report

_MAX_FLIGHTS = 3
_MAX_CONFIG_BYTES = 1 << 20
_JOURNAL_LINES = "200"
# The limit applies before compression, which shrinks the output of tools to a tenth.
_MAX_RECORDING_BYTES = 48 << 20
_MAX_MASKING_SECONDS = 30.0
# Only the labels of a page are masked, which is fast, so this limit is higher than for other texts.
_MAX_PAGE_LENGTH = 8 << 20
_PACKAGES = ("pydantic", "APScheduler", "h11", "nvidia-ml-py", "isal", "prometheus-client", "PyYAML", "bcrypt")
_DRIVER_VERSION_FILES = ("proc/driver/nvidia/version", "usr/local/Ascend/driver/version.info")
_HISTORY_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class BundleMaterial:
    """The data for the bundle's members."""

    examined: Examination
    polled: PolledSources
    configuration: LoadedConfig
    root: Path
    credentials: Credentials


def add_members(bundle: Bundle, mask: Mask, material: BundleMaterial) -> None:
    """Add all members. The recording is created first, so that its identities are masked in all members."""
    recording = _create_recording(bundle, mask, material)
    view = material.examined.daemon.view
    if view is not None:
        devices = (Device(device.vendor, uuid=device.uuid, serial=device.serial) for device in view.snapshot.devices)
        mask.learn(Report(devices=tuple(devices)))
    _add_doctor_output(bundle, mask, material.examined)
    _add_configuration(bundle, mask, material.configuration)
    versions = "versions of device telemetry, Python, kernel, drivers and tools"
    bundle.add_text("versions.txt", versions, "\n".join(_version_lines(material)))
    machine = "\n".join(_machine_lines(material.examined))
    bundle.add_text("machine.txt", "cards, drivers, device nodes, limits, folders", machine)
    _add_unit_and_journal(bundle, mask)
    _add_daemon_output(bundle, mask, material)
    bundle.add(recording)
    _add_flight_files(bundle, material.examined.flights)


def _create_recording(bundle: Bundle, mask: Mask, material: BundleMaterial) -> Member:
    """Return a recording of the daemon's latest captures, followed by the captures of this command."""
    previous_count = mask.replacement_count
    lines = [capture_line(mask.masked_capture(capture, report)) for capture, report in material.polled.captures]
    earlier_lines: list[bytes] = []
    try:
        earlier_lines = _daemon_capture_lines(mask, material, _MAX_RECORDING_BYTES - sum(map(len, lines)))
    except ControlError as error:
        bundle.add_missing("the daemon's last minutes", str(error))
    earlier_text = f", and {len(earlier_lines)} earlier captures of the daemon" if earlier_lines else ""
    compressed = gzip.compress(b"".join([*earlier_lines, *lines]), mtime=0)
    description = f"the current output of tools, files and libraries{earlier_text}"
    return Member("recording.jsonl.gz", description, compressed, mask.replacement_count - previous_count)


def _daemon_capture_lines(mask: Mask, material: BundleMaterial, max_bytes: int) -> list[bytes]:
    """Return the daemon's latest captures as lines, oldest first. Raise ControlError if the daemon does not answer."""
    daemon = material.examined.daemon
    if daemon.is_broken:  # a broken daemon does not answer on its control socket
        raise ControlError(daemon.error)
    lines: list[bytes] = []
    captures = list(recorder.recent_captures(material.configuration.settings.state.runtime_directory))
    end_time = time.monotonic() + _MAX_MASKING_SECONDS
    while captures and time.monotonic() < end_time:
        capture = captures.pop()
        lines.append(capture_line(mask.masked_capture(capture, _built_in_report(capture, material.polled))))
        max_bytes -= len(lines[-1])
        if max_bytes < 0:
            lines.pop()
            break
    return lines[::-1]


def _built_in_report(capture: Capture, polled: PolledSources) -> Report | None:
    """Parse the capture of a built-in parser. For a plugin's capture, return None."""
    source = next((source for source in polled.examined_sources if source.status.source == capture.source), None)
    return report_of(capture, source.parser) if source is not None and source.is_built_in else None


def _add_doctor_output(bundle: Bundle, mask: Mask, examined: Examination) -> None:
    def masked_lines(_text: str) -> str:
        return "\n".join(examination.text_lines(examined, lambda text: clean(mask.masked_text(text)), show_all=True))

    # Texts are masked before they are wrapped to lines, so `masked_lines` ignores its argument, a placeholder.
    bundle.add_text("doctor.txt", "the output of `telemetry doctor --all`", "placeholder", masked_lines)
    bundle.add_document("doctor.json", "the same as JSON", document(examined))


def _add_configuration(bundle: Bundle, mask: Mask, configuration: LoadedConfig) -> None:
    def masked(text: str) -> str:
        return masked_settings(text, mask)

    bundle.add_text("configuration.toml", "all effective settings", effective_toml(configuration.settings), masked)
    origins = "\n".join(f"{setting}: {origin}" for setting, origin in sorted(configuration.origins.items()))
    variables = sorted(name for name in os.environ if name.startswith("TELEMETRY_"))
    bundle.add_text(
        "configuration-origins.txt",
        "the settings that come from variables or flags, and the names of all variables",
        f"{origins}\nvariables in this environment: {', '.join(variables) or 'none'}",
    )
    file_text = _read_config_file(configuration.file)
    bundle.add_text("configuration-file.toml", "the configuration file without comments", file_text, masked)
    web_text = _read_web_config(configuration.settings.web.config_file)
    bundle.add_text("web.txt", "the web configuration without users, hashes and paths", web_text)


def _read_config_file(path: str | None) -> str:
    try:
        return read_file(path, _MAX_CONFIG_BYTES).decode("utf-8", "replace") if path else ""
    except (OSError, ValueError):  # a finding reports the error
        return ""


def _read_web_config(path: str) -> str:
    try:
        return redacted_web_config(read_file(path, _MAX_CONFIG_BYTES)) if path else ""
    except (OSError, ValueError) as error:
        return f"the file cannot be read: {getattr(error, 'strerror', None) or 'invalid file name'}"


def _machine_lines(examined: Examination) -> Iterator[str]:
    machine, limits = examined.machine, examined.limits
    yield f"container: {machine.container or 'none'}"
    for card in machine.cards:
        assignment = ", assigned to a virtual machine" if card.is_passed_through else ""
        yield f"card {card.bus_id} {card.vendor} class {card.class_code:06x} driver {card.driver or 'none'}{assignment}"
    for node in machine.nodes:
        mode = stat.filemode(stat.S_IFCHR | node.mode)
        refusal = f" refused: {os.strerror(node.refusal_errno)}" if node.refusal_errno else ""
        yield f"node {mode} {node.owner} {node.group} {node.path} of {' or '.join(node.vendors)}{refusal}"
    yield f"limits: memory {limits.memory_bytes}, tasks {limits.tasks}, CPUs {limits.cpus}, open files {limits.open_files}"
    for folder in examined.folders:
        yield f"folder {folder.setting} {folder.path}: free {folder.free_bytes} bytes; {folder.trouble or 'ok'}"


def _version_lines(material: BundleMaterial) -> Iterator[str]:
    yield f"telemetry {__version__}"
    yield f"Python {platform.python_version()} ({platform.python_implementation()}, {sys.platform}, {platform.machine()})"
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):  # some packages are optional
            yield f"{package} {metadata.version(package)}"
    yield f"kernel {platform.system()} {platform.release()}"
    root, examined_sources = material.root, material.polled.examined_sources
    yield from (line for line in text_at(f"{root}/etc/os-release").splitlines() if line.startswith("PRETTY_NAME="))
    for driver in sorted({card.driver for card in material.examined.machine.cards if card.driver}):
        yield f"driver {driver} {text_at(f'{root}/sys/module/{driver}/version') or 'reports no version'}"
    yield from (f"/{name}:\n{text}" for name in _DRIVER_VERSION_FILES if (text := text_at(f"{root}/{name}")))
    for source in examined_sources:
        if source.status.version:
            yield f"source {source.status.source} version {source.status.version}"
        yield from (f"tool {tool.path}" for tool in installed_tools(source))


def _add_unit_and_journal(bundle: Bundle, mask: Mask) -> None:
    properties = run_program("systemctl", "show", UNIT, f"--property={','.join(UNIT_PROPERTIES)}")
    files = run_program("systemctl", "cat", UNIT)
    text = f"{files}\n# systemctl show\n{properties}" if files or properties else ""
    description = "the unit and its drop-ins, without the values of environment variables"
    bundle.add_text("unit.txt", description, text, lambda text: masked_unit(text, mask))
    options = ("-n", _JOURNAL_LINES, "-o", "short-iso", "--no-hostname", "--no-pager")
    journal = run_program("journalctl", "-u", UNIT, *options)
    entries = "\n".join(line for line in journal.splitlines() if not line.startswith("-- "))
    bundle.add_text("journal.txt", f"the last {_JOURNAL_LINES} lines of the unit's journal", entries)


def _add_daemon_output(bundle: Bundle, mask: Mask, material: BundleMaterial) -> None:
    daemon = material.examined.daemon
    if daemon.view is None or daemon.address is None:
        bundle.add_missing("snapshot.json, history.json, metrics.txt", f"no daemon: {daemon.error}")
        return
    bundle.add_document("snapshot.json", "the daemon's readings", daemon.view.document)
    try:
        with closing(Client(daemon.address, material.credentials, _HISTORY_TIMEOUT_SECONDS)) as client:
            history = parse_document(client.get(HISTORY_PATH).body)
        bundle.add_document("history.json", "the daemon's last half hour and its events", history)
    except NodeError as error:
        bundle.add_missing("history.json", str(error))
    except DocumentError as error:
        bundle.add_missing("history.json", f"the document is invalid: {error}")
    page = daemon.view.page
    bundle.add_text(
        "metrics.txt", "the daemon's metrics page", page, lambda text: masked_page(text, mask), _MAX_PAGE_LENGTH
    )


def _add_flight_files(bundle: Bundle, flights: Sequence[FlightFile]) -> None:
    for flight in flights[:_MAX_FLIGHTS]:
        name, path = f"flights/{flight.name}", Path(flight.path)
        try:
            with OwnFolder.at(path.parent) as folder:
                content = folder.read(path.name, MAX_MEMBER_BYTES)
        except OSError as error:
            bundle.add_missing(name, error.strerror or str(error))
            continue
        bundle.add(Member(name, f"flight recorder: {flight.cause} (masked when the file was written)", content))
