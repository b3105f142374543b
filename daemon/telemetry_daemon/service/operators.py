"""Handles operators' requests, such as to forget a device or announce maintenance."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

from telemetry_daemon.polling.poller import Poller
from telemetry_daemon.polling.source import Source
from telemetry_daemon.remote import control_requests
from telemetry_daemon.remote.control_socket import Handler
from telemetry_daemon.state.devices_file import vendor_filter
from telemetry_daemon.state.maintenance import MAX_SECONDS, MaintenanceState, is_announceable
from telemetry_daemon.state.store import Store
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_parsers.codec.plain import CodecError
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.model import Metric, Plain

log = logging.getLogger(__name__)


class OperatorRequestHandler:
    """Handles requests about devices and sources."""

    def __init__(
        self,
        store: Store,
        poller: Poller,
        create_source: Callable[[str], Source],
        metrics: Mapping[str, Metric],
        save_devices: Callable[[], None],
    ) -> None:
        self._store = store
        self._poller = poller
        self._create_source = create_source
        self._metrics = metrics
        self._save_devices = save_devices
        self.handlers: Mapping[str, Handler] = {
            "forget": Handler(control_requests.ForgetRequest, self._forget),
            "forget_lost": Handler(control_requests.ForgetLostRequest, self._forget_lost),
            "release": Handler(control_requests.ReleaseRequest, self._release),
            "resume": Handler(control_requests.SourceRequest, self._resume),
            "snapshot": Handler(control_requests.EmptyRequest, self._snapshot),
            "jobs_changed": Handler(control_requests.SourceRequest, self._jobs_changed),
        }

    def _forget(self, request: control_requests.ForgetRequest) -> Mapping[str, Plain]:
        device_id = request.id
        forgotten = self._store.forget(lambda lost: lost.id == device_id)
        codes = () if forgotten else self._store.close_events(device_id)
        if forgotten or codes:
            self._save_devices()
        elif any(device.id == device_id for device in self._store.snapshot().devices):
            return {"error": f"'{device_id}' is present and has no open event, so there is nothing to forget"}
        return {"forgotten": len(forgotten), "events": list(codes), "lost": list(self._store.lost_ids())}

    def _forget_lost(self, request: control_requests.ForgetLostRequest) -> Mapping[str, Plain]:
        forgotten = self._store.forget(vendor_filter(request.vendor))
        self._save_devices()
        return {"forgotten": len(forgotten), "events": [], "lost": list(self._store.lost_ids())}

    def _release(self, request: control_requests.ReleaseRequest) -> Mapping[str, Plain]:
        name, seconds = request.source, request.seconds
        if name not in self._poller.sources():
            return {"error": self._unknown_source(name)}
        if seconds is not None and seconds <= 0:
            raise CodecError("seconds", "must be more than 0")
        release_seconds = math.inf if seconds is None else seconds
        pids = self._poller.release(name, lambda: self._create_source(name), release_seconds)
        log.info("source released by the operator", extra={"source": name, "seconds": seconds, "left_behind": pids})
        return {"left_behind": list(pids)}

    def _resume(self, request: control_requests.SourceRequest) -> Mapping[str, Plain]:
        name = request.source
        if name not in self._poller.sources():
            return {"error": self._unknown_source(name)}
        was_released = self._poller.resume(name)
        log.info("source resumed by the operator", extra={"source": name})
        return {"resumed": was_released}

    def _unknown_source(self, name: str) -> str:
        return f"unknown source '{name}'; the sources are {', '.join(sorted(self._poller.sources()))}"

    def _snapshot(self, _request: control_requests.EmptyRequest) -> Mapping[str, Plain]:
        from telemetry_exporters.documents import snapshot_json  # not needed on most nodes, which are only scraped

        return snapshot_json.document(self._store.snapshot(), self._metrics)

    def _jobs_changed(self, request: control_requests.SourceRequest) -> Mapping[str, Plain]:
        return {"asked": self._poller.poll_now(request.source)}


class MaintenanceRequestHandler:
    """Handles maintenance requests, and saves the current maintenance."""

    def __init__(self, maintenance_state: MaintenanceState, store: Store) -> None:
        self._state = maintenance_state
        self._store = store
        self._changes = ChangeLog()
        self._exposed: Maintenance | None = None
        self.handlers: Mapping[str, Handler] = {
            "maintenance": Handler(control_requests.EmptyRequest, self._maintenance_state),
            "maintenance_on": Handler(control_requests.MaintenanceRequest, self._begin_maintenance),
            "maintenance_off": Handler(control_requests.EmptyRequest, self._end_maintenance),
        }

    def save(self) -> str:
        """Save the current maintenance. Return an error, or "" on success."""
        current = self._state.current()
        if self._exposed != current:  # an equal state would cause a needless snapshot
            self._exposed = current
            self._store.facts.set_maintenance(self._state.current)
        try:
            self._state.save()
        except OSError as error:
            if self._changes.changed("file", error.errno):
                extra = {"path": str(self._state.path), "error": error}
                log.warning("the maintenance cannot be saved and will be forgotten on restart", extra=extra)
            return f"cannot write '{self._state.path}': {error.strerror or error}"
        self._changes.changed("file", None)
        return ""

    def _begin_maintenance(self, request: control_requests.MaintenanceRequest) -> Mapping[str, Plain]:
        if not is_announceable(request.seconds):
            raise CodecError("seconds", f"must be more than 0 and at most {MAX_SECONDS:.0f}")
        self._state.announce(request.seconds, request.reason)
        log.info("maintenance announced", extra={"seconds": request.seconds, "reason": self._state.current().reason})
        return {**self._maintenance_state(control_requests.EmptyRequest()), "not_kept": self.save()}

    def _end_maintenance(self, _request: control_requests.EmptyRequest) -> Mapping[str, Plain]:
        was_on = self._state.current().is_on
        self._state.end()
        log.info("maintenance ended by the operator", extra={"was_on": was_on})
        return {"not_kept": self.save(), "was_on": was_on}

    def _maintenance_state(self, _request: control_requests.EmptyRequest) -> Mapping[str, Plain]:
        current = self._state.current()
        return {"ends_in": current.seconds_left, "reason": current.reason, "not_kept": ""}
