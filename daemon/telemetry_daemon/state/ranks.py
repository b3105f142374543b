"""The ranks of this node's chips in a rank table, which is watched for changes. A child process reads a large table."""

from __future__ import annotations

import json
import logging
import platform
import resource
import signal
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

LOOK_SECONDS = 10.0
LARGEST_FILE_BYTES = 8 << 20
# The daemon itself reads a table of this size, which is that of 250 chips.
SMALL_FILE_BYTES = 64 << 10
_MOST_CHIPS = 1024
_DEADLINE_SECONDS = 10.0
# Parsed JSON takes up to 25 times the size of its text.
_CHILD_MEMORY_BYTES = 384 << 20


@dataclass(frozen=True, slots=True)
class RanksHere:
    """The ranks on this node, and a line about the table for a person: `version 1.0, 16 ranks on 2 servers, 8 here`."""

    ranks: NodeRanks
    text: str


def read(settings: RankSettings, names: Callable[[], Collection[str]]) -> RanksHere:
    """The ranks on the node that has these names. Raises RankTableError and OSError."""
    try:
        return _ranks_here(settings, names(), read_file(settings.table, SMALL_FILE_BYTES))
    except TooLargeError:  # a child process reads it
        return _read_in_child(settings, names())


def main() -> int:
    """Read a request from standard input and print the ranks: the entry point of the child process."""
    signal.alarm(int(_DEADLINE_SECONDS))  # in case the daemon is gone
    resource.setrlimit(resource.RLIMIT_AS, (_CHILD_MEMORY_BYTES, _CHILD_MEMORY_BYTES))
    question = json.load(sys.stdin)
    settings = RankSettings(**question["settings"])
    try:
        ranks_here = _ranks_here(settings, question["names"], read_file(settings.table, LARGEST_FILE_BYTES))
        answer = {
            "server": ranks_here.ranks.server,
            "ranks": list(ranks_here.ranks.by_chip.items()),
            "text": ranks_here.text,
        }
    except RankTableError as error:
        answer = {"error": str(error)}
    except OSError as error:
        answer = {"error": error.strerror or str(error)}
    except MemoryError:  # the limit that this process gave itself
        answer = {"error": f"to read it takes more than {_CHILD_MEMORY_BYTES >> 20} MiB of memory"}
    json.dump(answer, sys.stdout)
    return exits.OK


def _read_in_child(settings: RankSettings, names: Collection[str]) -> RanksHere:
    question = json.dumps({"settings": asdict(settings), "names": list(names)})
    try:
        ended = short_lived.ask(short_lived.running(__name__), question, _DEADLINE_SECONDS)
    except short_lived.NoAnswerError as error:
        raise RankTableError(f"could not be read: {error}") from error
    if ended.status != exits.OK:
        raise RankTableError(f"could not be read: the process for it ended with status {ended.status}")
    answer: dict[str, Any] = json.loads(ended.output)
    if "error" in answer:
        raise RankTableError(answer["error"])
    return RanksHere(NodeRanks(answer["server"], MappingProxyType(dict(answer["ranks"]))), answer["text"])


def _ranks_here(settings: RankSettings, names: Collection[str], content: bytes) -> RanksHere:
    table = read_rank_table(_text(content))
    if table.status != COMPLETED:
        return RanksHere(NodeRanks(), f"version {table.version}, status {table.status}: its ranks are not used yet")
    of_node = ranks_of(table, names, settings.server)
    if len(of_node) > _MOST_CHIPS:
        raise RankTableError(f"lists {len(of_node)} chips of this node; a node has at most {_MOST_CHIPS}")
    server = of_node[0].server if of_node else None
    shown = "" if server is None else str(server.ordinal) if settings.map_addresses else server.id
    ranks = NodeRanks(shown, MappingProxyType({rank.chip: rank.rank for rank in of_node}))
    return RanksHere(ranks, _in_words(table, len(of_node)))


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RankTableError(f"byte {error.start}: is not valid UTF-8") from None


def _in_words(table: RankTable, here: int) -> str:
    servers = len(table.servers)
    return f"version {table.version}, {len(table.ranks)} ranks on {servers} {'server' if servers == 1 else 'servers'}, {here} here"


def names_of_node() -> frozenset[str]:
    """Return the host name and all addresses of this node, as a rank table may contain them."""
    import psutil  # 1.2 MiB, for nodes with a rank table

    addresses = {
        address.address.partition("%")[0]
        for interface_addresses in psutil.net_if_addrs().values()
        for address in interface_addresses
    }
    return frozenset({platform.node(), *addresses} - {"", "127.0.0.1", "::1"})


def ranked(snapshot: Snapshot, settings: RankSettings) -> Snapshot:
    """Return the snapshot with the ranks on its devices, or unchanged after a warning if the table is unusable."""
    if not settings.table:
        return snapshot
    try:
        ranks_here = read(settings, names_of_node)
    except (RankTableError, OSError) as error:
        log.warning("the rank table is not used", extra={"path": settings.table, "error": error_text(error)})
        return snapshot
    return replace(snapshot, devices=with_ranks(snapshot.devices, ranks_here.ranks))


def error_text(error: Exception) -> str:
    """Return what is wrong with a rank table."""
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


class RankWatch:
    """Checks the file periodically, and reads it after a change."""

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
        """Use other settings from the next check on."""
        self._settings = settings

    def look(self) -> None:
        """Read the table if it, the settings or this node's names changed. A bad table gives no ranks, never old ones."""
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
    if not path:
        return None
    try:
        status = Path(path).stat()
    except OSError:  # opening the file reports why
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns
