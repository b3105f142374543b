"""Device nodes that systemd does not let us open, since their driver was loaded after our start.

systemd resolves `DeviceAllow=char-nvidia*` when it starts the unit: a node that comes later needs a new start.
"""

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
# A new start does not help where the unit lacks the node. So: not more often than this, and once for each node.
SHORTEST_LIFE_SECONDS = 600.0
_MEMORY = "denied-nodes"
_LARGEST_MEMORY_BYTES = 1 << 20


def why_denied(path: str) -> int:
    """The errno with which the kernel refuses the node, 0 where it does not.

    The node is opened only once the kernel has said no: that answer comes before the driver, which would wake the card.
    """
    if os.access(path, os.R_OK):
        return 0
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or 0
    return 0


def under_systemd(environment: Mapping[str, str]) -> bool:
    """Whether a service manager started us, and will do so again."""
    return "INVOCATION_ID" in environment and "NOTIFY_SOCKET" in environment


class NodeWatch:
    """Finds nodes that are there and that systemd does not let us open; each is reported once."""

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
        """The nodes for which a new start is worth trying. They are remembered: each is returned once a boot."""
        if self._monotonic() - self._born < SHORTEST_LIFE_SECONDS:
            return ()
        paths = [path for pattern in self._patterns for path in sorted(glob.glob(pattern))]  # noqa: PTH207  # the patterns are absolute
        # EACCES is a matter of groups, which a new start does not change; the allow-list says EPERM.
        denied = {_key(path): path for path in paths if self._refusal(path) == errno.EPERM}
        known = self._remembered()
        new = tuple(path for key, path in denied.items() if key not in known)
        if new and not self._remember(known | denied.keys()):
            return ()
        return new

    def _remembered(self) -> set[str]:
        try:
            with OwnFolder.at(self._folder) as folder:
                return set(folder.read(_MEMORY, _LARGEST_MEMORY_BYTES).decode().splitlines())
        except (OSError, UnicodeDecodeError):  # nothing is known: each is tried once more
            return set()

    def _remember(self, keys: set[str]) -> bool:
        """Whether the nodes could be written down: without that, the service would start again and again."""
        try:
            with OwnFolder.at(self._folder) as folder:
                folder.replace(_MEMORY, "".join(f"{key}\n" for key in sorted(keys)).encode())
        except OSError as error:
            log.warning("no memory of denied device nodes", extra={"path": self._folder / _MEMORY, "error": error})
            return False
        return True


def _key(path: str) -> str:
    """The node and its number: a driver that is loaded anew may have got another one."""
    try:
        return f"{path} {os.stat(path).st_rdev}"  # noqa: PTH116  # as the rest of this module, on texts
    except OSError:  # gone since it was listed
        return path
