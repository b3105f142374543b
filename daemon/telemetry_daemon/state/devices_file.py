"""The devices remembered over restarts: `devices.json` in the state directory, replaced whole."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_parsers.codec.derived import from_plain, to_plain
from telemetry_parsers.codec.plain import CodecError, decode_line
from telemetry_parsers.merge import doubts
from telemetry_parsers.merge.presence import remembered
from telemetry_parsers.model import Identity

log = logging.getLogger(__name__)

_Schema = Literal["telemetry.devices/1"]
SCHEMA: _Schema = "telemetry.devices/1"
# Room for a hundred thousand devices.
LARGEST_FILE_BYTES = 64 << 20
_PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Document:
    """The file."""

    schema: _Schema
    devices: tuple[Identity, ...]


def path_in(directory: str) -> Path:
    """Where the file lies."""
    return Path(directory) / "devices.json"


def load(path: Path) -> tuple[Identity, ...]:
    """The remembered devices; none, with a warning, when the file cannot be used."""
    try:
        with OwnFolder.at(path.parent) as folder:
            identities = _devices_in(folder.read(path.name, LARGEST_FILE_BYTES))
    except FileNotFoundError:  # the first start
        return ()
    except (OSError, CodecError) as error:
        log.warning("devices are not remembered: the state file is unusable", extra={"path": str(path), "error": error})
        return ()
    # A device that was named without a model gets its model, and the same id, when it is seen again.
    usable = [identity for identity in identities if identity.model or identity.lost_since is not None]
    remembered_now = remembered(usable)
    if len(remembered_now) < len(usable):
        facts = {"path": str(path), "devices": len(usable), "kept": len(remembered_now)}
        log.warning("more devices were remembered than can be; those that were seen least are forgotten", extra=facts)
    return tuple(remembered_now)


def save(path: Path, identities: Iterable[Identity]) -> None:
    """Replace the file; simulated devices are not remembered. Raises OSError."""
    document = _Document(SCHEMA, tuple(identity for identity in identities if not identity.simulated))
    text = json.dumps(to_plain(_Document, document), indent=1) + "\n"
    with OwnFolder.made(path.parent) as folder:
        folder.replace(path.name, text.encode())


def of_vendor(vendor: str | None) -> Callable[[Identity], bool]:
    """Whether a device is one of this vendor, where one is given."""
    return lambda identity: vendor is None or identity.vendor == vendor


class DeviceMemory:
    """The file, written only when there is something new to remember; a failure is logged once while it lasts.

    Safe to use from any thread; a thread gives up instead of waiting for a disk that hangs.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changes = ChangeLog()
        self._turn = threading.Lock()
        self.identities = load(path)

    def keep(self, identities: tuple[Identity, ...]) -> None:
        """Remember these; after a failure, the next call tries again even if nothing changed."""
        if not self._turn.acquire(timeout=_PATIENCE_SECONDS):
            return
        try:
            self._keep(identities)
        finally:
            self._turn.release()

    def _keep(self, identities: tuple[Identity, ...]) -> None:
        if identities == self.identities:
            return
        try:
            save(self._path, identities)
        except OSError as error:
            if self._changes.changed("file", error.errno):
                facts = {"path": str(self._path), "error": error}
                log.warning("devices will not be remembered over a restart", extra=facts)
            return
        self._changes.changed("file", None)
        self.identities = identities


def _devices_in(content: bytes) -> tuple[Identity, ...]:
    plain = decode_line(content)
    devices = plain.get("devices") if isinstance(plain, dict) else None
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict):
            device.setdefault("polls", doubts.ENOUGH_WITNESSES)  # as written before polls were counted
    return tuple(replace(device, polls=max(1, device.polls)) for device in from_plain(_Document, plain).devices)
