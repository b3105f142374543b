"""Collects a bug report about a node into a bundle, most important members first."""

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

from telemetry_daemon.config.file import Loaded
from telemetry_daemon.config.table import show_toml
from telemetry_daemon.doctor import examination
from telemetry_daemon.doctor.bundle import (
    MOST_MEMBER_BYTES,
    Bundle,
    Member,
    masked_page,
    masked_settings,
    masked_unit,
    redacted_web,
)
from telemetry_daemon.doctor.daemon import HISTORY, PROPERTIES, UNIT, ask_system
from telemetry_daemon.doctor.document import document
from telemetry_daemon.doctor.examination import Examined
from telemetry_daemon.doctor.sources import Read, tools_found
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import read_file, text_at
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.recordings import recorder
from telemetry_daemon.recordings.parsed_captures import report_of
from telemetry_daemon.remote.control_socket import ControlError
from telemetry_daemon.remote.foreign_documents import DocumentError, document_in
from telemetry_daemon.remote.http_client import Client, Credentials, NodeError
from telemetry_daemon.state.flights import Flight
from telemetry_daemon.version import __version__
from telemetry_exporters.text import clean
from telemetry_parsers.codec.captures import capture_line
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Capture, Device, Report

_MOST_FLIGHTS = 3
_LARGEST_CONFIG_BYTES = 1 << 20
_JOURNAL_LINES = "200"
# Unpacked. Output of tools compresses to a tenth.
_MOST_RECORDING_BYTES = 48 << 20
_MOST_MASKING_SECONDS = 30.0
# Only the labels of a page are masked, each once.
_LONGEST_PAGE = 8 << 20
_PACKAGES = ("pydantic", "APScheduler", "h11", "nvidia-ml-py", "isal", "prometheus-client", "PyYAML", "bcrypt")
# Files in which some drivers report more than their module's version.
_OF_DRIVERS = ("proc/driver/nvidia/version", "usr/local/Ascend/driver/version.info")
_HISTORY_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Material:
    """The facts about the node, the configuration with its origin, and the credentials for the daemon."""

    examined: Examined
    read: Read
    loaded: Loaded
    root: Path
    given: Credentials


def gather(bundle: Bundle, mask: Mask, material: Material) -> None:
    """Write all members. Captures come first, so that identities found in them are masked in the other members, too."""
    recording = _recording(bundle, mask, material)
    view = material.examined.daemon.view
    if view is not None:
        devices = (Device(device.vendor, uuid=device.uuid, serial=device.serial) for device in view.snapshot.devices)
        mask.learn(Report(devices=tuple(devices)))
    _doctor(bundle, mask, material.examined)
    _configuration(bundle, mask, material.loaded)
    versions = "versions of ours, Python, kernel, drivers and tools"
    bundle.text("versions.txt", versions, "\n".join(_versions(material)))
    bundle.text("machine.txt", "cards, drivers, device nodes, limits, folders", "\n".join(_machine(material.examined)))
    _unit(bundle, mask)
    _daemon(bundle, mask, material)
    bundle.add(recording)
    _flights(bundle, material.examined.flights)


def _recording(bundle: Bundle, mask: Mask, material: Material) -> Member:
    """Return the recording: the daemon's last minutes, then new captures of the tools. `serve --replay` plays it."""
    before = mask.places
    lines = [capture_line(mask.capture(capture, report)) for capture, report in material.read.captures]
    past: list[bytes] = []
    try:
        past = _newest(mask, material, _MOST_RECORDING_BYTES - sum(map(len, lines)))
    except ControlError as error:
        bundle.leave_out("the daemon's last minutes", str(error))
    more = f", and the daemon's {len(past)} captures before" if past else ""
    packed = gzip.compress(b"".join([*past, *lines]), mtime=0)
    what = f"the current output of tools, files and libraries{more}"
    return Member("recording.jsonl.gz", what, packed, mask.places - before)


def _newest(mask: Mask, material: Material, room: int) -> list[bytes]:
    """Return the daemon's captures in order; the newest if room or time is short. Raises ControlError."""
    daemon = material.examined.daemon
    if daemon.is_broken:  # its control socket would not answer, either
        raise ControlError(daemon.why_not)
    lines: list[bytes] = []
    captures = list(recorder.recent_captures(material.loaded.settings.state.runtime_directory))
    end = time.monotonic() + _MOST_MASKING_SECONDS
    while captures and time.monotonic() < end:
        capture = captures.pop()
        lines.append(capture_line(mask.capture(capture, _report(capture, material.read))))
        room -= len(lines[-1])
        if room < 0:
            lines.pop()
            break
    return lines[::-1]


def _report(capture: Capture, read: Read) -> Report | None:
    """Return the report of a built-in parser, which shows which texts are numbers. Plugins run elsewhere."""
    patient = next((patient for patient in read.patients if patient.status.source == capture.source), None)
    return report_of(capture, patient.parser) if patient is not None and patient.is_of_ours else None


def _doctor(bundle: Bundle, mask: Mask, examined: Examined) -> None:
    def masked(_whole: str) -> str:
        return "\n".join(examination.lines(examined, lambda text: clean(mask.text(text)), show_all=True))

    # Each text is masked before it is wrapped.
    bundle.text("doctor.txt", "the output of `telemetry doctor --all`", "its lines", masked)
    bundle.document("doctor.json", "the same for programs", document(examined))


def _configuration(bundle: Bundle, mask: Mask, loaded: Loaded) -> None:
    def masked(text: str) -> str:
        return masked_settings(text, mask)

    bundle.text("configuration.toml", "all settings in force", show_toml(loaded.settings), masked)
    origins = "\n".join(f"{setting}: {origin}" for setting, origin in sorted(loaded.origins.items()))
    named = sorted(name for name in os.environ if name.startswith("TELEMETRY_"))
    bundle.text(
        "configuration-origins.txt",
        "which settings come from variables or flags, and which variables are set",
        f"{origins}\nset here: {', '.join(named) or 'none'}",
    )
    bundle.text("configuration-file.toml", "the file as it is, without comments", _text(loaded.file), masked)
    web = loaded.settings.web.config_file
    bundle.text("web.txt", "keys and switches of the web configuration; users, hashes and paths are removed", _web(web))


def _text(path: str | None) -> str:
    try:
        return read_file(path, _LARGEST_CONFIG_BYTES).decode("utf-8", "replace") if path else ""
    except (OSError, ValueError):  # a finding reports this
        return ""


def _web(path: str) -> str:
    try:
        return redacted_web(read_file(path, _LARGEST_CONFIG_BYTES)) if path else ""
    except (OSError, ValueError) as error:
        return f"it cannot be read: {getattr(error, 'strerror', None) or 'its name is none'}"


def _machine(examined: Examined) -> Iterator[str]:
    machine, limits = examined.machine, examined.limits
    yield f"container: {machine.container or 'none'}"
    for card in machine.cards:
        given = ", given to a virtual machine" if card.is_passed_through else ""
        yield f"card {card.bus_id} {card.vendor} class {card.class_code:06x} driver {card.driver or 'none'}{given}"
    for node in machine.nodes:
        kind = stat.filemode(stat.S_IFCHR | node.mode)
        refused = f" refused: {os.strerror(node.refusal)}" if node.refusal else ""
        yield f"node {kind} {node.owner} {node.group} {node.path} of {' or '.join(node.vendors)}{refused}"
    yield f"limits: memory {limits.memory_bytes}, tasks {limits.tasks}, CPUs {limits.cpus}, open files {limits.open_files}"
    for folder in examined.folders:
        yield f"folder {folder.setting} {folder.path}: free {folder.free_bytes} bytes; {folder.trouble or 'well'}"


def _versions(material: Material) -> Iterator[str]:
    yield f"telemetry {__version__}"
    yield f"Python {platform.python_version()} ({platform.python_implementation()}, {sys.platform}, {platform.machine()})"
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):  # some packages are needed on some nodes only
            yield f"{package} {metadata.version(package)}"
    yield f"kernel {platform.system()} {platform.release()}"
    root, patients = material.root, material.read.patients
    yield from (line for line in text_at(f"{root}/etc/os-release").splitlines() if line.startswith("PRETTY_NAME="))
    for driver in sorted({card.driver for card in material.examined.machine.cards if card.driver}):
        yield f"driver {driver} {text_at(f'{root}/sys/module/{driver}/version') or 'reports no version'}"
    yield from (f"/{name}:\n{text}" for name in _OF_DRIVERS if (text := text_at(f"{root}/{name}")))
    for patient in patients:
        if patient.status.version:
            yield f"source {patient.status.source} version {patient.status.version}"
        yield from (f"tool {tool.path}" for tool in tools_found(patient))


def _unit(bundle: Bundle, mask: Mask) -> None:
    shown = ask_system("systemctl", "show", UNIT, f"--property={','.join(PROPERTIES)}")
    files = ask_system("systemctl", "cat", UNIT)
    text = f"{files}\n# systemctl show\n{shown}" if files or shown else ""
    what = "the unit and its drop-ins, without values of its environment"
    bundle.text("unit.txt", what, text, lambda whole: masked_unit(whole, mask))
    form = ("-n", _JOURNAL_LINES, "-o", "short-iso", "--no-hostname", "--no-pager")
    journal = ask_system("journalctl", "-u", UNIT, *form)
    entries = "\n".join(line for line in journal.splitlines() if not line.startswith("-- "))
    bundle.text("journal.txt", f"the last {_JOURNAL_LINES} lines of the unit's journal", entries)


def _daemon(bundle: Bundle, mask: Mask, material: Material) -> None:
    daemon = material.examined.daemon
    if daemon.view is None or daemon.address is None:
        bundle.leave_out("snapshot.json, history.json, metrics.txt", f"no daemon: {daemon.why_not}")
        return
    bundle.document("snapshot.json", "the daemon's readings", daemon.view.document)
    try:
        with closing(Client(daemon.address, material.given, _HISTORY_SECONDS)) as client:
            history = document_in(client.get(HISTORY).body)
        bundle.document("history.json", "its last half hour and its events", history)
    except NodeError as error:
        bundle.leave_out("history.json", str(error))
    except DocumentError as error:
        bundle.leave_out("history.json", f"it cannot be understood: {error}")
    page = daemon.view.page
    bundle.text("metrics.txt", "its page of metrics", page, lambda text: masked_page(text, mask), _LONGEST_PAGE)


def _flights(bundle: Bundle, flights: Sequence[Flight]) -> None:
    for flight in flights[:_MOST_FLIGHTS]:
        name, path = f"flights/{flight.name}", Path(flight.path)
        try:
            with OwnFolder.at(path.parent) as folder:
                content = folder.read(path.name, MOST_MEMBER_BYTES)
        except OSError as error:
            bundle.leave_out(name, error.strerror or str(error))
            continue
        bundle.add(Member(name, f"flight recorder: {flight.cause}; masked when it was written", content))
