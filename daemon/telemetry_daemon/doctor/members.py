"""What support needs of a node, gathered into a bundle one member after the other, the most telling first."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from telemetry_daemon.config.settings import Settings
from telemetry_daemon.config.table import show_toml
from telemetry_daemon.doctor import redacted, report, versions
from telemetry_daemon.doctor.bundle import MOST_MEMBER_BYTES, Bundle, Member, gzipped
from telemetry_daemon.doctor.document import document
from telemetry_daemon.doctor.examination import Examined
from telemetry_daemon.doctor.reading import Read
from telemetry_daemon.doctor.unit import PROPERTIES, UNIT, ask_system
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.guarded.reading import read_file
from telemetry_daemon.masking.mask import Mask
from telemetry_daemon.recordings import recorder
from telemetry_daemon.recordings.parsed_captures import report_of
from telemetry_daemon.remote.control_socket import ControlError
from telemetry_daemon.remote.documents import DocumentError, document_in
from telemetry_daemon.state.flights import Flight
from telemetry_exporters.text import clean
from telemetry_parsers.codec.captures import capture_to_plain, encode_line
from telemetry_parsers.model import Capture, Device, Report

_MOST_FLIGHTS = 3
_LARGEST_CONFIG_BYTES = 1 << 20
_JOURNAL_LINES = "200"
# Unpacked; what the tools print packs to a tenth.
_MOST_RECORDING_BYTES = 48 << 20
_MOST_MASKING_SECONDS = 30.0
# A page has its labels masked alone, and each but once.
_LONGEST_PAGE = 8 << 20


@dataclass(frozen=True, slots=True)
class History:
    """What the daemon tells of its last half hour, or why it does not."""

    body: bytes = b""
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Material:
    """All that was found out about the node. `history` is the daemon's, empty without one; the configuration file may be none."""

    examined: Examined
    read: Read
    settings: Settings
    origins: Mapping[str, str]
    config_file: str | None
    history: History
    root: Path


def gather(bundle: Bundle, mask: Mask, material: Material) -> None:
    """Put everything into the bundle. The captures come first: their identities are known in all other texts then."""
    recording = _recording(bundle, mask, material)
    view = material.examined.daemon.view
    if view is not None:
        mask.learn(
            Report(devices=tuple(Device(one.vendor, uuid=one.uuid, serial=one.serial) for one in view.snapshot.devices))
        )
    _doctor(bundle, mask, material.examined)
    _configuration(bundle, mask, material)
    bundle.text(
        "versions.txt",
        "versions of ours, Python, kernel, drivers and tools",
        "\n".join(versions.lines(material.root, material.examined.machine, material.read.patients)),
    )
    bundle.text("machine.txt", "cards, drivers, device nodes, limits, folders", "\n".join(_machine(material)))
    _unit(bundle, mask)
    _daemon(bundle, mask, material)
    bundle.add(recording)
    _flights(bundle, material.examined.flights)


def _recording(bundle: Bundle, mask: Mask, material: Material) -> Member:
    """What the tools said just now, behind what the daemon got in the last minutes; `serve --replay` plays it."""
    before = mask.places
    own = [_line(mask.capture(capture, report)) for capture, report in material.read.captures]
    past: list[bytes] = []
    try:
        past = _newest(mask, material, _MOST_RECORDING_BYTES - sum(map(len, own)))
    except ControlError as error:
        bundle.leave_out("the daemon's last minutes", str(error))
    what = "what tools, files and libraries said just now"
    if past:
        what += f", and the daemon's {len(past)} captures before"
    return Member("recording.jsonl.gz", what, gzipped([*past, *own]), mask.places - before)


def _newest(mask: Mask, material: Material, room: int) -> list[bytes]:
    """The daemon's captures in order, the newest of them where room or time does not suffice for all. Raises ControlError."""
    daemon = material.examined.daemon
    if daemon.is_broken:  # its control socket lets us wait as well
        raise ControlError(daemon.why_not)
    captures = list(recorder.past(material.settings.state.runtime_directory))
    lines: list[bytes] = []
    end = time.monotonic() + _MOST_MASKING_SECONDS
    while captures and time.monotonic() < end:
        capture = captures.pop()
        lines.append(_line(mask.capture(capture, _report(capture, material.read))))
        room -= len(lines[-1])
        if room < 0:
            lines.pop()
            break
    return lines[::-1]


def _line(capture: Capture) -> bytes:
    return encode_line(capture_to_plain(capture)).encode("ascii") + b"\n"


def _report(capture: Capture, read: Read) -> Report | None:
    """What our own parser makes of it, so that its numbers are known to be none; those of plugins run elsewhere."""
    patient = next((one for one in read.patients if one.status.source == capture.source), None)
    return report_of(capture, patient.parser) if patient is not None and patient.is_of_ours else None


def _doctor(bundle: Bundle, mask: Mask, examined: Examined) -> None:
    def masked(_whole: str) -> str:
        return "\n".join(report.lines(examined, lambda text: clean(mask.text(text)), tell_all=True))

    # Each text of it is masked before it is broken into lines.
    bundle.text("doctor.txt", "what `telemetry doctor --all` says", "its lines", masked)
    bundle.document("doctor.json", "the same for programs", document(examined))


def _configuration(bundle: Bundle, mask: Mask, material: Material) -> None:
    def masked(text: str) -> str:
        return redacted.settings(text, mask)

    bundle.text(
        "configuration.toml",
        "all settings in force",
        show_toml(material.settings),
        masked,
    )
    origins = "\n".join(f"{setting}: {origin}" for setting, origin in sorted(material.origins.items()))
    named = sorted(name for name in os.environ if name.startswith("TELEMETRY_"))
    bundle.text(
        "configuration-origins.txt",
        "which settings come from variables or flags, and which variables are set",
        f"{origins}\nset here: {', '.join(named) or 'none'}",
    )
    bundle.text("configuration-file.toml", "the file as it is, without comments", _text(material.config_file), masked)
    web = material.settings.web.config_file
    bundle.text("web.txt", "keys and switches of the web configuration; users, hashes and paths are removed", _web(web))


def _text(path: str | None) -> str:
    try:
        return read_file(path, _LARGEST_CONFIG_BYTES).decode("utf-8", "replace") if path else ""
    except (OSError, ValueError):  # the findings say so
        return ""


def _web(path: str) -> str:
    try:
        return redacted.web(read_file(path, _LARGEST_CONFIG_BYTES)) if path else ""
    except (OSError, ValueError) as error:
        return f"it cannot be read: {getattr(error, 'strerror', None) or 'its name is none'}"


def _machine(material: Material) -> Iterator[str]:
    machine, limits = material.examined.machine, material.examined.limits
    yield f"container: {machine.container or 'none'}"
    for card in machine.cards:
        given = ", given to a virtual machine" if card.given_away else ""
        yield f"card {card.bus_id} {card.vendor} class {card.class_code:06x} driver {card.driver or 'none'}{given}"
    for node in machine.nodes:
        kind = stat.filemode(stat.S_IFCHR | node.mode)
        refused = f" refused: {os.strerror(node.refusal)}" if node.refusal else ""
        yield f"node {kind} {node.owner} {node.group} {node.path} of {' or '.join(node.vendors)}{refused}"
    yield f"limits: memory {limits.memory_bytes}, tasks {limits.tasks}, CPUs {limits.cpus}, open files {limits.open_files}"
    for folder in material.examined.folders:
        yield f"folder {folder.setting} {folder.path}: free {folder.free_bytes} bytes; {folder.trouble or 'well'}"


def _unit(bundle: Bundle, mask: Mask) -> None:
    shown = ask_system("systemctl", "show", UNIT, f"--property={','.join(PROPERTIES)}")
    files = ask_system("systemctl", "cat", UNIT)
    text = f"{files}\n# systemctl show\n{shown}" if files or shown else ""
    bundle.text(
        "unit.txt",
        "the unit and its drop-ins, without values of its environment",
        text,
        lambda whole: redacted.unit(whole, mask),
    )
    journal = ask_system(
        "journalctl", "-u", UNIT, "-n", _JOURNAL_LINES, "-o", "short-iso", "--no-hostname", "--no-pager"
    )
    entries = "\n".join(line for line in journal.splitlines() if not line.startswith("-- "))
    bundle.text("journal.txt", f"the last {_JOURNAL_LINES} lines of the unit's journal", entries)


def _daemon(bundle: Bundle, mask: Mask, material: Material) -> None:
    view = material.examined.daemon.view
    if view is None:
        bundle.leave_out("snapshot.json, history.json, metrics.txt", f"no daemon: {material.examined.daemon.why_not}")
        return
    bundle.document("snapshot.json", "the daemon's readings", dict(view.document))
    _history(bundle, material.history)
    bundle.text("metrics.txt", "its page of metrics", view.page, lambda text: redacted.page(text, mask), _LONGEST_PAGE)


def _history(bundle: Bundle, history: History) -> None:
    if history.why_not:
        bundle.leave_out("history.json", history.why_not)
        return
    try:
        bundle.document("history.json", "its last half hour and its events", dict(document_in(history.body)))
    except DocumentError as error:
        bundle.leave_out("history.json", f"it cannot be understood: {error}")


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
