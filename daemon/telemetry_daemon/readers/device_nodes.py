"""Device nodes that systemd denies until the service restarts: it resolves `DeviceAllow=char-nvidia*` when it starts the unit."""

from __future__ import annotations

import errno
import glob
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_parsers.vendors import VENDORS

log = logging.getLogger(__name__)

NODES = tuple(dict.fromkeys(path for vendor in VENDORS for nodes in vendor.nodes for path in nodes.paths))
LOOK_SECONDS = 60.0
# A restart does not help if the unit does not allow the node. Restart at most this often, and once per node.
SHORTEST_LIFE_SECONDS = 600.0
_MEMORY = "denied-nodes"
_LARGEST_MEMORY_BYTES = 1 << 20


def why_denied(path: str) -> int:
    """Return the errno with which the kernel denies the node, or 0. A node is opened only if it is denied: the driver would wake the card."""
    if os.access(path, os.R_OK):
        return 0
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or 0
    return 0


def under_systemd(environment: Mapping[str, str]) -> bool:
    """Return whether a service manager started this process and will restart it."""
    return "INVOCATION_ID" in environment and "NOTIFY_SOCKET" in environment


class NodeWatch:
    """Finds existing nodes that systemd denies to this process. Each node is reported once."""

    def __init__(
        self,
        memory_folder: Path,
        monotonic: Callable[[], float],
        patterns: Sequence[str] = NODES,
        refusal: Callable[[str], int] = why_denied,
    ) -> None:
        self._folder = memory_folder
        self._monotonic = monotonic
        self._patterns = patterns
        self._refusal = refusal
        self._born = monotonic()

    def newly_denied(self) -> tuple[str, ...]:
        """Return the nodes for which a restart is worth trying. They are recorded: each is returned once per boot."""
        if self._monotonic() - self._born < SHORTEST_LIFE_SECONDS:
            return ()
        paths = [path for pattern in self._patterns for path in sorted(glob.glob(pattern))]  # noqa: PTH207  # the patterns are absolute
        # A restart does not change groups, which cause EACCES. The allow-list causes EPERM.
        denied = {_key(path): path for path in paths if self._refusal(path) == errno.EPERM}
        recorded = self._remembered()
        new = tuple(path for key, path in denied.items() if key not in recorded)
        if new and not self._remember(recorded | denied.keys()):
            return ()
        return new

    def _remembered(self) -> set[str]:
        try:
            with OwnFolder.at(self._folder) as folder:
                return set(folder.read(_MEMORY, _LARGEST_MEMORY_BYTES).decode().splitlines())
        except (OSError, UnicodeDecodeError):  # no record exists: each node is tried once more
            return set()

    def _remember(self, keys: set[str]) -> bool:
        """Return whether the nodes were recorded. Without a record, the service would restart again and again."""
        try:
            with OwnFolder.at(self._folder) as folder:
                folder.replace(_MEMORY, "".join(f"{key}\n" for key in sorted(keys)).encode())
        except OSError as error:
            log.warning("no memory of denied device nodes", extra={"path": self._folder / _MEMORY, "error": error})
            return False
        return True


def _key(path: str) -> str:
    """Return the path and device number: a reloaded driver may have another number."""
    try:
        return f"{path} {os.stat(path).st_rdev}"  # noqa: PTH116  # as the rest of this module, on texts
    except OSError:  # removed since the nodes were listed
        return path
