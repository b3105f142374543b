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
# Of a file as it was written before it told when it was begun.
_LONG_AGO = 0.0


@dataclass(frozen=True, slots=True)
class _Document:
    """The file; `since` is the Unix time from which on it knows the node."""

    schema: _Schema
    devices: tuple[Identity, ...]
    since: float


def path_in(directory: str) -> Path:
    """Where the file lies."""
    return Path(directory) / "devices.json"


def load(path: Path) -> tuple[Identity, ...]:
    """The remembered devices; none, with a warning, when the file cannot be used."""
    return _remembered(path, _read(path))


def since(path: Path) -> float:
    """The Unix time from which on the file knows the node; 0 where nobody can say."""
    document = _read(path)
    return document.since if document is not None else _LONG_AGO


def _read(path: Path) -> _Document | None:
    try:
        with OwnFolder.at(path.parent) as folder:
            return _document_in(folder.read(path.name, LARGEST_FILE_BYTES))
    except FileNotFoundError:  # the first start
        return None
    except (OSError, CodecError) as error:
        log.warning("devices are not remembered: the state file is unusable", extra={"path": str(path), "error": error})
        return None


def _remembered(path: Path, document: _Document | None) -> tuple[Identity, ...]:
    identities = document.devices if document is not None else ()
    # A device that was named without a model gets its model, and the same id, when it is seen again.
    usable = [identity for identity in identities if identity.model or identity.lost_since is not None]
    remembered_now = remembered(usable)
    if len(remembered_now) < len(usable):
        facts = {"path": str(path), "devices": len(usable), "kept": len(remembered_now)}
        log.warning("more devices were remembered than can be; those that were seen least are forgotten", extra=facts)
    return tuple(remembered_now)


def save(path: Path, identities: Iterable[Identity], since: float = _LONG_AGO) -> None:
    """Replace the file; simulated devices are not remembered. Raises OSError."""
    document = _Document(SCHEMA, tuple(identity for identity in identities if not identity.simulated), since)
    text = json.dumps(to_plain(_Document, document), indent=1) + "\n"
    with OwnFolder.made(path.parent) as folder:
        folder.replace(path.name, text.encode())


def of_vendor(vendor: str | None) -> Callable[[Identity], bool]:
    """Whether a device is one of this vendor, where one is given."""
    return lambda identity: vendor is None or identity.vendor == vendor


class DeviceMemory:
    """The file, written only when there is something new to remember; a failure is logged once while it lasts.

    `since` is the Unix time from which on the node is known: that of the file, else `now`.

    Safe to use from any thread; a thread gives up instead of waiting for a disk that hangs.
    """

    def __init__(self, path: Path, now: float) -> None:
        self._path = path
        self._changes = ChangeLog()
        self._turn = threading.Lock()
        document = _read(path)
        self.identities = _remembered(path, document)
        self.since = now if document is None else document.since

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
            save(self._path, identities, self.since)
        except OSError as error:
            if self._changes.changed("file", error.errno):
                facts = {"path": str(self._path), "error": error}
                log.warning("devices will not be remembered over a restart", extra=facts)
            return
        self._changes.changed("file", None)
        self.identities = identities


def _document_in(content: bytes) -> _Document:
    plain = decode_line(content)
    if isinstance(plain, dict):
        plain.setdefault("since", _LONG_AGO)
    devices = plain.get("devices") if isinstance(plain, dict) else None
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict):
            device.setdefault("polls", doubts.ENOUGH_WITNESSES)  # as written before polls were counted
    document = from_plain(_Document, plain)
    return replace(document, devices=tuple(replace(each, polls=max(1, each.polls)) for each in document.devices))
