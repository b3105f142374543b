"""Which rank of a job runs on which chip of this node: the configured rank table is read again when it changes."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.config.settings import RankSettings
from telemetry_daemon.ranks.table import read
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_parsers.merge.ranks import NodeRanks, with_ranks
from telemetry_parsers.model import Snapshot
from telemetry_parsers.vendors.ascend.rank_table import RankTableError

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0


def names_of_node() -> frozenset[str]:
    """The host name and all addresses of this node, as a rank table may call it."""
    import psutil  # 1.2 MiB, for nodes with a rank table

    addresses = {
        address.address.partition("%")[0]
        for interface_addresses in psutil.net_if_addrs().values()
        for address in interface_addresses
    }
    return frozenset({platform.node(), *addresses} - {"", "127.0.0.1", "::1"})


def ranked(snapshot: Snapshot, settings: RankSettings) -> Snapshot:
    """The snapshot with the ranks on its devices. If the table is unusable, it is the same, and a warning is logged."""
    if not settings.table:
        return snapshot
    try:
        ranks_here = read(settings, names_of_node)
    except (RankTableError, OSError) as error:
        log.warning("the rank table is not used", extra={"path": settings.table, "error": error_text(error)})
        return snapshot
    return replace(snapshot, devices=with_ranks(snapshot.devices, ranks_here.ranks))


def error_text(error: Exception) -> str:
    """What is wrong with a rank table."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


class RankWatch:
    """Looks at the file at intervals, and reads it when it has changed."""

    def __init__(
        self,
        settings: RankSettings,
        put: Callable[[NodeRanks], None],
        names: Callable[[], frozenset[str]] = names_of_node,
    ) -> None:
        self._settings = settings
        self._put = put
        self._names = names
        self._changes = ChangeLog()
        self._last_state: tuple[RankSettings, tuple[int, int, int, int] | None, frozenset[str]] | None = None

    def configure(self, settings: RankSettings) -> None:
        """Go on with other settings, from the next look on."""
        self._settings = settings

    def look(self) -> None:
        """Read the table if it, the settings or this node's names changed; a bad table gives no ranks, never old ones."""
        settings = self._settings
        names = self._names() if settings.table else frozenset[str]()
        state = (settings, _mark(settings.table), names)
        if state == self._last_state:
            return
        self._last_state = state
        self._put(self._read(settings, names) if settings.table else NodeRanks())

    def _read(self, settings: RankSettings, names: frozenset[str]) -> NodeRanks:
        facts = {"path": settings.table}
        try:
            ranks_here = read(settings, lambda: names)
        except FileNotFoundError:
            if self._changes.changed("rank table", "missing"):
                log.info("there is no rank table yet", extra=facts)
            return NodeRanks()
        except (RankTableError, OSError) as error:
            if self._changes.changed("rank table", error_text(error)):
                log.warning("the rank table is not used", extra={**facts, "error": error_text(error)})
            return NodeRanks()
        if self._changes.changed("rank table", ranks_here.text):
            log.info("rank table read", extra={**facts, "ranks": ranks_here.text})
        return ranks_here.ranks


def _mark(path: str) -> tuple[int, int, int, int] | None:
    """A mark that changes with the file and with who may read it; None if there is no file."""
    if not path:
        return None
    try:
        status = Path(path).stat()
    except OSError:  # whoever opens the file tells why it cannot be read
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns
