"""Reads the ranks of this node's chips from a rank table, and watches the file."""

from __future__ import annotations

import json
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from telemetry_daemon.config.settings import RankSettings
from telemetry_daemon.guarded.reading import TooLargeError, read_file
from telemetry_daemon.processes import short_lived
from telemetry_daemon.terminal import exits
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.merge.ranks import NodeRanks, with_ranks
from telemetry_parsers.model import Snapshot
from telemetry_parsers.vendors.ascend.rank_table import COMPLETED, RankTable, RankTableError, ranks_of, read_rank_table

log = logging.getLogger(__name__)

CHECK_SECONDS = 10.0
MAX_FILE_BYTES = 8 << 20
# A table with more than about 250 chips is read in a child process.
SMALL_FILE_BYTES = 64 << 10
_MAX_CHIPS = 1024
_DEADLINE_SECONDS = 10.0
# Parsed JSON takes up to 25 times the size of its text.
_CHILD_MEMORY_BYTES = 384 << 20


@dataclass(frozen=True, slots=True)
class LocalRanks:
    """The ranks on this node, and a one-line summary of the rank table."""

    ranks: NodeRanks
    summary: str


def read_ranks(settings: RankSettings, get_node_names: Callable[[], Collection[str]]) -> LocalRanks:
    """Read the ranks of this node. Raise RankTableError if the table is invalid, OSError if it is unreadable."""
    try:
        return _parse_local_ranks(settings, get_node_names(), read_file(settings.table, SMALL_FILE_BYTES))
    except TooLargeError:  # a large table is read in a child process
        return _read_in_child(settings, get_node_names())


def main() -> int:
    """Read a large table. Runs in a child process."""
    signal.alarm(int(_DEADLINE_SECONDS))  # ends this process if the daemon has exited
    resource.setrlimit(resource.RLIMIT_AS, (_CHILD_MEMORY_BYTES, _CHILD_MEMORY_BYTES))
    request = json.load(sys.stdin)
    settings = RankSettings(**request["settings"])
    try:
        local_ranks = _parse_local_ranks(settings, request["names"], read_file(settings.table, MAX_FILE_BYTES))
        response = {
            "server": local_ranks.ranks.server,
            "ranks": list(local_ranks.ranks.ranks_by_physical_id.items()),
            "summary": local_ranks.summary,
        }
    except RankTableError as error:
        response = {"error": str(error)}
    except OSError as error:
        response = {"error": error.strerror or str(error)}
    except MemoryError:  # RLIMIT_AS was reached
        response = {"error": f"reading it needs more than {_CHILD_MEMORY_BYTES >> 20} MiB of memory"}
    json.dump(response, sys.stdout)
    return exits.OK


def _read_in_child(settings: RankSettings, node_names: Collection[str]) -> LocalRanks:
    request = json.dumps({"settings": asdict(settings), "names": list(node_names)})
    try:
        result = short_lived.run_command(short_lived.command_for(__name__), request, _DEADLINE_SECONDS)
    except short_lived.NoAnswerError as error:
        raise RankTableError(f"could not be read: {error}") from error
    if result.status != exits.OK:
        raise RankTableError(f"could not be read: the child process exited with status {result.status}")
    response: dict[str, Any] = json.loads(result.output)
    if "error" in response:
        raise RankTableError(response["error"])
    return LocalRanks(NodeRanks(response["server"], MappingProxyType(dict(response["ranks"]))), response["summary"])


def _parse_local_ranks(settings: RankSettings, node_names: Collection[str], content: bytes) -> LocalRanks:
    table = read_rank_table(_decode_text(content))
    if table.status != COMPLETED:
        return LocalRanks(NodeRanks(), f"version {table.version}, status {table.status}: the ranks are not used yet")
    rows = ranks_of(table, node_names, settings.server)
    if len(rows) > _MAX_CHIPS:
        raise RankTableError(f"lists {len(rows)} chips of this node; a node has at most {_MAX_CHIPS}")
    server = rows[0].server if rows else None
    server_name = "" if server is None else str(server.ordinal) if settings.map_addresses else server.id
    ranks = NodeRanks(server_name, MappingProxyType({row.chip: row.rank for row in rows}))
    return LocalRanks(ranks, _summary(table, len(rows)))


def _decode_text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RankTableError(f"invalid UTF-8 at byte {error.start}") from None


def _summary(table: RankTable, local_count: int) -> str:
    servers = len(table.servers)
    return f"version {table.version}, {len(table.ranks)} ranks on {servers} {'server' if servers == 1 else 'servers'}, {local_count} here"


def find_node_names() -> frozenset[str]:
    """Return the host name and all addresses of this node."""
    import psutil  # takes 1.2 MiB, so it is imported only if there is a rank table

    addresses = {
        address.address.partition("%")[0]
        for interface_addresses in psutil.net_if_addrs().values()
        for address in interface_addresses
    }
    return frozenset({socket.gethostname(), *addresses} - {"", "127.0.0.1", "::1"})


def add_ranks(snapshot: Snapshot, settings: RankSettings) -> Snapshot:
    """Return the snapshot with ranks, or unchanged if the table is unusable."""
    if not settings.table:
        return snapshot
    try:
        local_ranks = read_ranks(settings, find_node_names)
    except (RankTableError, OSError) as error:
        log.warning("the rank table is not used", extra={"path": settings.table, "error": error_text(error)})
        return snapshot
    return replace(snapshot, devices=with_ranks(snapshot.devices, local_ranks.ranks))


def error_text(error: Exception) -> str:
    """Return the error's message without the file name."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


class RankTableWatcher:
    """Reads the rank table when the file, the settings or the node's names change."""

    def __init__(
        self,
        settings: RankSettings,
        set_ranks: Callable[[NodeRanks], None],
        get_node_names: Callable[[], frozenset[str]] = find_node_names,
    ) -> None:
        self._settings = settings
        self._set_ranks = set_ranks
        self._get_node_names = get_node_names
        self._changes = ChangeLog()
        self._last_state: tuple[RankSettings, tuple[int, int, int, int] | None, frozenset[str]] | None = None

    def configure(self, settings: RankSettings) -> None:
        """Use these settings from the next check on."""
        self._settings = settings

    def check(self) -> None:
        """Read the table if it changed. Call this periodically."""
        settings = self._settings
        node_names = self._get_node_names() if settings.table else frozenset[str]()
        state = (settings, _file_state(settings.table), node_names)
        if state == self._last_state:
            return
        self._last_state = state
        self._set_ranks(self._read_table(settings, node_names) if settings.table else NodeRanks())

    def _read_table(self, settings: RankSettings, node_names: frozenset[str]) -> NodeRanks:
        facts = {"path": settings.table}
        try:
            local_ranks = read_ranks(settings, lambda: node_names)
        except FileNotFoundError:
            if self._changes.changed("rank table", "missing"):
                log.info("there is no rank table yet", extra=facts)
            return NodeRanks()
        except (RankTableError, OSError) as error:
            if self._changes.changed("rank table", error_text(error)):
                log.warning("the rank table is not used", extra={**facts, "error": error_text(error)})
            return NodeRanks()
        if self._changes.changed("rank table", local_ranks.summary):
            log.info("rank table read", extra={**facts, "ranks": local_ranks.summary})
        return local_ranks.ranks


def _file_state(path: str) -> tuple[int, int, int, int] | None:
    if not path:
        return None
    try:
        status = Path(path).stat()
    except OSError:  # opening the file will report the reason
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns
