"""What `telemetry maintenance` asks of the daemon: to announce, end or tell the node's maintenance."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from telemetry_daemon.remote import control_requests
from telemetry_daemon.remote.control_socket import Verb
from telemetry_daemon.state.maintenance import LONGEST_SECONDS, MaintenanceBook, is_announceable
from telemetry_daemon.state.store import Store
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.model import Plain

log = logging.getLogger(__name__)


class MaintenanceDesk:
    """Takes announcements, shows them in the store, and keeps them."""

    def __init__(self, book: MaintenanceBook, store: Store) -> None:
        self._book = book
        self._store = store
        self._changes = ChangeLog()
        self._shown: Maintenance | None = None
        self.verbs: Mapping[str, Verb] = {
            "maintenance": Verb(control_requests.MaintenanceStatus, self._tell),
            "maintenance_on": Verb(control_requests.MaintenanceOn, self._begin),
            "maintenance_off": Verb(control_requests.MaintenanceOff, self._end),
        }

    def keep(self) -> str:
        """Show what holds now and keep it; returns why it could not be kept, or nothing."""
        now = self._book.now()
        if self._shown != now:  # what is shown makes a new snapshot, and a new page
            self._shown = now
            self._store.set_maintenance(self._book.now)
        try:
            self._book.keep()
        except OSError as error:
            if self._changes.changed("file", error.errno):
                facts = {"path": str(self._book.path), "error": error}
                log.warning("the maintenance will be forgotten at a restart", extra=facts)
            return f"cannot write '{self._book.path}': {error.strerror or error}"
        self._changes.changed("file", None)
        return ""

    def _begin(self, request: control_requests.MaintenanceOn) -> Mapping[str, Plain]:
        if not is_announceable(request.seconds):
            raise CodecError("seconds", f"must be more than 0 and at most {LONGEST_SECONDS:.0f}")
        self._book.announce(request.seconds, request.reason)
        log.info("maintenance is on", extra={"seconds": request.seconds, "reason": self._book.now().reason})
        return {**self._tell(control_requests.MaintenanceStatus()), "not_kept": self.keep()}

    def _end(self, _request: control_requests.MaintenanceOff) -> Mapping[str, Plain]:
        was_on = self._book.now().is_on
        self._book.end()
        log.info("maintenance is off", extra={"was_on": was_on})
        return {"not_kept": self.keep(), "was_on": was_on}

    def _tell(self, _request: control_requests.MaintenanceStatus) -> Mapping[str, Plain]:
        now = self._book.now()
        return {"ends_in": now.seconds_left, "reason": now.reason, "not_kept": ""}
