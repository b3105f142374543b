"""The devices and open events that survive a restart: `devices.json` in the state directory, which is always replaced whole."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.state.events import OpenEvents
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge import presence
from telemetry_parsers.merge.new_devices import ENOUGH_WITNESSES
from telemetry_parsers.model import Identity

log = logging.getLogger(__name__)

_Schema = Literal["telemetry.devices/1"]
SCHEMA: _Schema = "telemetry.devices/1"
# Room for a hundred thousand devices.
LARGEST_FILE_BYTES = 64 << 20
_PATIENCE_SECONDS = 1.0
# For files of a version that did not store `since`.
_LONG_AGO = 0.0


@dataclass(frozen=True, slots=True)
class Remembered:
    """The content of the file. `since` is the Unix time from which on it describes the node."""

    devices: tuple[Identity, ...] = ()
    events: tuple[OpenEvents, ...] = ()
    since: float = _LONG_AGO

    def only(self, kept: Callable[[Identity], bool]) -> Remembered:
        """Return only the devices that are kept, with their events."""
        devices = tuple(identity for identity in self.devices if kept(identity))
        ids = {identity.id for identity in devices}
        return replace(self, devices=devices, events=tuple(event for event in self.events if event.id in ids))


@dataclass(frozen=True, slots=True)
class _Document:
    schema: _Schema
    devices: tuple[Identity, ...]
    since: float
    events: tuple[OpenEvents, ...]


def path_in(directory: str) -> Path:
    """Return the path of the file."""
    return Path(directory) / "devices.json"


def load(path: Path, now: float = _LONG_AGO) -> Remembered:
    """Return the remembered devices. Log a warning and start empty if the file cannot be used."""
    try:
        with OwnFolder.at(path.parent) as folder:
            found = _read(folder.read(path.name, LARGEST_FILE_BYTES))
    except FileNotFoundError:  # the first start
        return Remembered(since=now)
    except (OSError, CodecError) as error:
        log.warning("devices are not remembered: the state file is unusable", extra={"path": str(path), "error": error})
        return Remembered(since=now)
    # A device stored without a model gets its model, and the same id, at its next sighting.
    usable = [identity for identity in found.devices if identity.model or identity.lost_since is not None]
    kept = presence.within_limits(usable)
    if len(kept) < len(usable):
        facts = {"path": str(path), "devices": len(usable), "kept": len(kept)}
        log.warning("more devices were remembered than can be; those that were seen least are forgotten", extra=facts)
    return replace(found, devices=tuple(kept)).only(lambda _: True)


def save(path: Path, remembered: Remembered) -> None:
    """Replace the file. Simulated devices are left out. Raises OSError."""
    real = remembered.only(lambda identity: not identity.simulated)
    document = _Document(SCHEMA, real.devices, real.since, real.events)
    text = json.dumps(to_plain(_Document, document), indent=1) + "\n"
    with OwnFolder.made(path.parent) as folder:
        folder.replace(path.name, text.encode())


def of_vendor(vendor: str | None) -> Callable[[Identity], bool]:
    """Return a test whether a device is of this vendor; every device passes if the vendor is empty."""
    return lambda identity: vendor is None or identity.vendor == vendor


class DeviceMemory:
    """The devices file, written only after changes. Threads give up instead of waiting for a disk that hangs; a failure is logged once."""

    def __init__(self, path: Path, now: float) -> None:
        self._path = path
        self._changes = ChangeLog()
        self._turn = threading.Lock()
        self.remembered = load(path, now)

    def keep(self, devices: tuple[Identity, ...], events: tuple[OpenEvents, ...] = ()) -> None:
        """Write the devices and events if they changed. After a failure the next call tries again."""
        if not self._turn.acquire(timeout=_PATIENCE_SECONDS):
            return
        try:
            self._keep(replace(self.remembered, devices=devices, events=events))
        finally:
            self._turn.release()

    def _keep(self, remembered: Remembered) -> None:
        if remembered == self.remembered:
            return
        try:
            save(self._path, remembered)
        except OSError as error:
            if self._changes.changed("file", error.errno):
                facts = {"path": str(self._path), "error": error}
                log.warning("devices will not be remembered over a restart", extra=facts)
            return
        self._changes.changed("file", None)
        self.remembered = remembered


def _read(content: bytes) -> Remembered:
    plain = decode_line(content)
    if isinstance(plain, dict):
        plain.setdefault("since", _LONG_AGO)
        plain.setdefault("events", [])
    devices = plain.get("devices") if isinstance(plain, dict) else None
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict):
            device.setdefault("polls", ENOUGH_WITNESSES)  # as written before polls were counted
    events = plain.get("events") if isinstance(plain, dict) else None
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict):
            event.setdefault("times", [])  # as written before they were kept
    document = from_plain(_Document, plain)
    polled = tuple(replace(device, polls=max(1, device.polls)) for device in document.devices)
    return Remembered(polled, document.events, document.since)
