"""Finds device nodes that systemd denies to the service until the service restarts."""

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

NODE_PATTERNS = tuple(dict.fromkeys(path for vendor in VENDORS for nodes in vendor.nodes for path in nodes.paths))
CHECK_SECONDS = 60.0
# The daemon runs for at least this long before denied nodes restart it.
MIN_UPTIME_SECONDS = 600.0
_RECORD_NAME = "denied-nodes"
_MAX_RECORD_BYTES = 1 << 20


def denial_errno(path: str) -> int:
    """Return the errno of opening the device node, or 0 if the node can be opened."""
    if os.access(path, os.R_OK):  # a permitted node is not opened, because that could wake the card
        return 0
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        return error.errno or 0
    return 0


def is_under_systemd(environment: Mapping[str, str]) -> bool:
    """Return whether systemd runs this process and will restart it."""
    return "INVOCATION_ID" in environment and "NOTIFY_SOCKET" in environment


class DeviceNodeWatch:
    """Finds device nodes that systemd does not let this process open."""

    def __init__(
        self,
        record_folder: Path,
        monotonic: Callable[[], float],
        patterns: Sequence[str] = NODE_PATTERNS,
        get_errno: Callable[[str], int] = denial_errno,
    ) -> None:
        self._folder = record_folder
        self._monotonic = monotonic
        self._patterns = patterns
        self._get_errno = get_errno
        self._started_at = monotonic()

    def record_newly_denied(self) -> tuple[str, ...]:
        """Record the denied nodes, and return the paths of new ones. Return () before the minimum uptime."""
        if self._monotonic() - self._started_at < MIN_UPTIME_SECONDS:
            return ()
        paths = [path for pattern in self._patterns for path in sorted(glob.glob(pattern))]  # noqa: PTH207  # the patterns are absolute
        # A restart may help against systemd's device rules (EPERM), but not against file modes (EACCES).
        denied_paths = {_node_key(path): path for path in paths if self._get_errno(path) == errno.EPERM}
        recorded_keys = self._recorded_keys()
        new_paths = tuple(path for key, path in denied_paths.items() if key not in recorded_keys)
        if new_paths and not self._write_record(recorded_keys | denied_paths.keys()):
            return ()
        return new_paths

    def _recorded_keys(self) -> set[str]:
        try:
            with OwnFolder.at(self._folder) as folder:
                return set(folder.read(_RECORD_NAME, _MAX_RECORD_BYTES).decode().splitlines())
        except (OSError, UnicodeDecodeError):  # without a record, each denied node counts as new
            return set()

    def _write_record(self, keys: set[str]) -> bool:
        try:
            with OwnFolder.at(self._folder) as folder:
                folder.replace(_RECORD_NAME, "".join(f"{key}\n" for key in sorted(keys)).encode())
        except OSError as error:
            log.warning(
                "cannot record denied device nodes", extra={"path": self._folder / _RECORD_NAME, "error": error}
            )
            return False
        return True


def _node_key(path: str) -> str:
    """Return the path and device number. The number changes when the driver is reloaded."""
    try:
        return f"{path} {os.stat(path).st_rdev}"  # noqa: PTH116  # paths are strings here
    except OSError:  # removed in the meantime
        return path
