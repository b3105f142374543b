"""Attributes cards to owners, saves the ledger, and watches for new job files."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from telemetry_daemon.config.optional_sections import AttributionSettings
from telemetry_daemon.readers.pci import read_machine_state
from telemetry_daemon.state.attribution import Attribution, load_hash_key
from telemetry_daemon.state.ledger import Ledger
from telemetry_daemon.state.ledger_file import LedgerFile
from telemetry_daemon.state.store import Store
from telemetry_daemon.times import Clock
from telemetry_parsers.owners.privacy import Privacy

CHECK_SECONDS = 1.0
_SCHEDULERS = ("slurm", "pbs", "flux")
# The kernel's clock is coarse, so two changes within this time may have equal timestamps.
_CLOCK_TICK_NS = 1_000_000_000


class OwnerAccounting:
    """Attributes cards to owners, and records their use in the ledger."""

    def __init__(self, settings: AttributionSettings, state_directory: str | None, clock: Clock) -> None:
        """Load the saved ledger. Raises ConfigError if the key for hashed names cannot be read."""
        self._file = LedgerFile(state_directory, clock.monotonic) if state_directory is not None else None
        saved = self._file.load() if self._file is not None else None
        self.ledger = Ledger(socket.gethostname(), read_machine_state().boot, saved)
        self.attribution = Attribution(clock, self.ledger, _privacy(settings, state_directory))

    def write(self, store: Store) -> None:
        """Write completed records and, if needed, the ledger."""
        with store.lock():
            completed = self.ledger.take_completed()
            is_due = self._file is not None and (completed or self.ledger.has_new_owner or self._file.is_due)
            saved = self.ledger.state_to_save() if is_due else None
        if self._file is not None:
            self._file.write(completed, saved)

    def end(self, store: Store) -> None:
        """Write all records, so that the next daemon can continue them."""
        if self._file is None:
            return
        with store.lock():
            completed, saved = self.ledger.take_completed(), self.ledger.state_to_save()
        self._file.write(completed, saved)


def _privacy(settings: AttributionSettings, state_directory: str | None) -> Privacy:
    by_name = Privacy(settings.users, settings.pods, settings.jobs)
    return (
        replace(by_name, key=load_hash_key(settings.hash_key_file, state_directory)) if by_name.hides_names else by_name
    )


class JobFolderWatcher:
    """Polls the schedulers immediately after a job file has changed."""

    def __init__(self, path: str, poll_source: Callable[[str], object]) -> None:
        self._path = Path(path)
        self._poll_source = poll_source
        self._changed_ns = 0
        self._checked_ns = 0

    def check(self) -> None:
        """Poll the schedulers if the folder has changed."""
        now_ns = time.time_ns()
        try:
            changed_ns = self._path.stat().st_mtime_ns
        except OSError:  # no hook has run yet; the sources report other errors
            return
        is_settled = not 0 <= self._checked_ns - changed_ns <= _CLOCK_TICK_NS
        if changed_ns != self._changed_ns or not is_settled:
            self._changed_ns, self._checked_ns = changed_ns, now_ns
            for scheduler in _SCHEDULERS:
                self._poll_source(scheduler)
