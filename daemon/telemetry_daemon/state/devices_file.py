"""Stores devices and open events in `devices.json`, so that they survive a restart."""

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
from telemetry_parsers.merge.new_devices import REQUIRED_WITNESSES
from telemetry_parsers.model import Identity

log = logging.getLogger(__name__)

_Schema = Literal["telemetry.devices/1"]
SCHEMA: _Schema = "telemetry.devices/1"
# Enough for a hundred thousand devices.
MAX_FILE_BYTES = 64 << 20
_LOCK_TIMEOUT_SECONDS = 1.0
# The value of `since` if the file was first written by an older version.
_UNKNOWN_TIME = 0.0


@dataclass(frozen=True, slots=True)
class StoredDevices:
    """The content of `devices.json`, first written at the Unix time `since`."""

    devices: tuple[Identity, ...] = ()
    events: tuple[OpenEvents, ...] = ()
    since: float = _UNKNOWN_TIME

    def filtered(self, is_kept: Callable[[Identity], bool]) -> StoredDevices:
        """Return the devices for which `is_kept` is true, with their events."""
        devices = tuple(identity for identity in self.devices if is_kept(identity))
        ids = {identity.id for identity in devices}
        return replace(self, devices=devices, events=tuple(event for event in self.events if event.id in ids))


@dataclass(frozen=True, slots=True)
class _Document:
    schema: _Schema
    devices: tuple[Identity, ...]
    since: float
    events: tuple[OpenEvents, ...]


def path_in(directory: str) -> Path:
    """Return the path of `devices.json` in a state directory."""
    return Path(directory) / "devices.json"


def load(path: Path, default_since: float = _UNKNOWN_TIME) -> StoredDevices:
    """Return the content of the file. If it is missing or unusable, return no devices, and `default_since`."""
    try:
        with OwnFolder.at(path.parent) as folder:
            content = _decode_devices(folder.read(path.name, MAX_FILE_BYTES))
    except FileNotFoundError:  # the first start
        return StoredDevices(since=default_since)
    except (OSError, CodecError) as error:
        log.warning("devices not loaded: the state file is unusable", extra={"path": str(path), "error": error})
        return StoredDevices(since=default_since)
    # Present devices without a model are dropped. They get the same id when a source reports them again.
    usable_devices = [identity for identity in content.devices if identity.model or identity.lost_since is not None]
    kept_devices = presence.keep_most_seen(usable_devices)
    if len(kept_devices) < len(usable_devices):
        extra = {"path": str(path), "devices": len(usable_devices), "kept": len(kept_devices)}
        log.warning("too many recorded devices; the devices reported least often are forgotten", extra=extra)
    # `filtered` also drops the events of devices that are no longer kept.
    return replace(content, devices=tuple(kept_devices)).filtered(lambda _: True)


def save(path: Path, stored: StoredDevices) -> None:
    """Write all devices that are not simulated, and their events. Raise OSError if the file cannot be written."""
    real_devices = stored.filtered(lambda identity: not identity.simulated)
    document = _Document(SCHEMA, real_devices.devices, real_devices.since, real_devices.events)
    text = json.dumps(to_plain(_Document, document), indent=1) + "\n"
    with OwnFolder.create_at(path.parent) as folder:
        folder.replace(path.name, text.encode())


def vendor_filter(vendor: str | None) -> Callable[[Identity], bool]:
    """Return a predicate that accepts a vendor's devices, or all devices if `vendor` is None."""
    return lambda identity: vendor is None or identity.vendor == vendor


class DevicesFileWriter:
    """Writes the devices file after changes."""

    def __init__(self, path: Path, now: float) -> None:
        self._path = path
        self._changes = ChangeLog()
        self._write_lock = threading.Lock()
        self.stored = load(path, now)

    def save(self, devices: tuple[Identity, ...], events: tuple[OpenEvents, ...] = ()) -> None:
        """Write the devices and events if they changed."""
        if not self._write_lock.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            return
        try:
            self._save(replace(self.stored, devices=devices, events=events))
        finally:
            self._write_lock.release()

    def _save(self, stored: StoredDevices) -> None:
        if stored == self.stored:
            return
        try:
            save(self._path, stored)
        except OSError as error:
            if self._changes.changed("file", error.errno):
                extra = {"path": str(self._path), "error": error}
                log.warning("the devices cannot be saved and will be forgotten at a restart", extra=extra)
            return
        self._changes.changed("file", None)
        self.stored = stored


def _decode_devices(content: bytes) -> StoredDevices:
    decoded = decode_line(content)
    if isinstance(decoded, dict):  # older versions stored fewer fields
        decoded.setdefault("since", _UNKNOWN_TIME)
        decoded.setdefault("events", [])
        _set_default(decoded.get("devices"), "polls", REQUIRED_WITNESSES)
        _set_default(decoded["events"], "times", [])
    document = from_plain(_Document, decoded)
    seen_devices = tuple(replace(device, polls=max(1, device.polls)) for device in document.devices)
    return StoredDevices(seen_devices, document.events, document.since)


def _set_default(items: object, key: str, default: object) -> None:
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            item.setdefault(key, default)
