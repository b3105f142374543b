"""What a running daemon tells of its node, and the unit that should run it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from telemetry_daemon.config.inputs import READS_HEADER
from telemetry_daemon.remote.address import Address
from telemetry_daemon.remote.documents import DocumentError, document_in, snapshot_of
from telemetry_daemon.remote.http_client import Client, Credentials, NodeError
from telemetry_parsers.model import Snapshot

SNAPSHOT, HISTORY = "/api/v1/snapshot", "/api/v1/history"
_VERSION = re.compile(r'^telemetry_build_info\{[^}\n]*\bversion="([^"\\\n]{1,64})"', re.MULTILINE)
_OF_VENDORS = r'^%s\{vendor="([a-z]{1,32})"\} ([0-9]{1,5})(?:\.0)?$'
_ON_BUS = re.compile(_OF_VENDORS % "telemetry_pci_devices", re.MULTILINE)
_SILENT_PEER = re.compile(r'^telemetry_compat_up\{exporter="([A-Za-z0-9_-]{1,64})"\} 0(?:\.0)?$', re.MULTILINE)
_EXPECTED = re.compile(_OF_VENDORS % "telemetry_devices_expected", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DaemonView:
    """What a daemon told: its snapshot, its version, the accelerators on its bus and those that it expects; `reads` is the word for its settings."""

    name: str
    snapshot: Snapshot
    version: str = ""
    on_bus: Mapping[str, int] = field(default_factory=dict)
    reads: str = ""
    document: Mapping[str, Any] = field(default_factory=dict)
    page: str = ""
    expected: Mapping[str, int] = field(default_factory=dict)

    @property
    def silent_peers(self) -> tuple[str, ...]:
        """The other exporters whose pages have an address that the daemon cannot serve."""
        return tuple(match[1] for match in _SILENT_PEER.finditer(self.page))

    @property
    def is_real(self) -> bool:
        """Whether it reads a node: it plays no recording and no simulation."""
        return self.snapshot.recorded is None and not any(device.simulated for device in self.snapshot.devices)


def ask(address: Address, given: Credentials, seconds: float, page_path: str = "/metrics") -> DaemonView:
    """What the daemon at the address tells. Raises NodeError."""
    client = Client(address, given, seconds)
    try:
        answer = client.get(SNAPSHOT)
        page = _page(client, page_path)
    finally:
        client.close()
    try:
        document = document_in(answer.body)
        snapshot = snapshot_of(document)
    except DocumentError as error:
        raise NodeError(f"its document cannot be understood: {error}") from error
    version = _VERSION.search(page)
    return DaemonView(
        address.name,
        snapshot,
        "" if version is None else version[1],
        _counts(_ON_BUS, page),
        answer.headers.get(READS_HEADER.lower(), ""),
        document,
        page,
        _counts(_EXPECTED, page),
    )


def _counts(of_vendors: re.Pattern[str], page: str) -> Mapping[str, int]:
    return {match[1]: int(match[2]) for match in of_vendors.finditer(page)}


def _page(client: Client, path: str) -> str:
    try:
        return client.get(path).body.decode("utf-8", "replace")
    except NodeError:  # its page has another path: its version stays unknown
        return ""
