"""The parts of a daemon with owners: attribution, ledger, and a watch over the folder of job files."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.readers.pci import this_machine
from telemetry_daemon.state.attribution import Attribution, owner_key
from telemetry_daemon.state.ledger import Ledger
from telemetry_daemon.state.ledger_file import LedgerFile
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.owners.privacy import Privacy

LOOK_SECONDS = 1.0
_SCHEDULERS = ("slurm", "pbs", "flux")
# Two changes within one tick of the kernel's clock have the same timestamp.
_TICK_NANOSECONDS = 1_000_000_000


class Owners:
    """The owners of a node's cards, and the ledger of their use; simulations and recordings have no ledger file."""

    def __init__(self, settings: AttributionSettings, state_directory: str | None, clock: Clock) -> None:
        """Read the saved state. Raises ConfigError if the key for hashed names cannot be read."""
        self._file = LedgerFile(state_directory, clock.monotonic) if state_directory is not None else None
        saved = self._file.load() if self._file is not None else None
        self.ledger = Ledger(platform.node(), this_machine().boot, saved)
        self.attribution = Attribution(clock, self.ledger, _privacy(settings, state_directory))

    def keep(self, store: Store) -> None:
        """Write the records of ended allocations, and the current state of the others once a minute or after a new one."""
        with store.lock():
            ended = self.ledger.take_completed()
            is_due = self._file is not None and (ended or self.ledger.has_new_owner or self._file.is_due)
            saved = self.ledger.state_to_save() if is_due else None
        if self._file is not None:
            self._file.write(ended, saved)

    def end(self, store: Store) -> None:
        """Write all records: owners outlive the daemon, which continues them at its next start."""
        if self._file is None:
            return
        with store.lock():
            ended, saved = self.ledger.take_completed(), self.ledger.state_to_save()
        self._file.write(ended, saved)


def _privacy(settings: AttributionSettings, state_directory: str | None) -> Privacy:
    by_name = Privacy(settings.users, settings.pods, settings.jobs)
    return replace(by_name, key=owner_key(settings.hash_key_file, state_directory)) if by_name.needs_key else by_name


class JobFolder:
    """Has the schedulers' sources polled when a file in the folder was written, replaced or removed."""

    def __init__(self, path: str, read: Callable[[str], object]) -> None:
        self._path = Path(path)
        self._read = read
        self._changed = 0
        self._looked = 0

    def look(self) -> None:
        """Check once; costs one system call unless something has changed."""
        now = time.time_ns()
        try:
            changed = self._path.stat().st_mtime_ns
        except OSError:  # no hook has run yet, or permission is denied: the sources report that
            return
        is_settled = not 0 <= self._looked - changed <= _TICK_NANOSECONDS
        if changed != self._changed or not is_settled:
            self._changed, self._looked = changed, now
            for scheduler in _SCHEDULERS:
                self._read(scheduler)
