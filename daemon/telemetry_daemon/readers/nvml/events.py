"""Receives Xid events in a thread, and stores them for the next poll."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from telemetry_daemon.readers.binding import FailedCall
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.library import Nvml, handle_address
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

XID = 0x8
MIG_CONFIGURATION = 0x100
_EVENT_TYPES = XID | MIG_CONFIGURATION
# The wait cannot be interrupted, and a worker must exit within half a second.
WAIT_MILLISECONDS = 400
_MAX_BACK_OFF_SECONDS = 30.0
_JOIN_SECONDS = 2.0
_MAX_EVENTS = 256
_NO_INSTANCE = (1 << 32) - 1


class EventInbox:
    """Keeps events until a poll reports them, even across sessions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[Plain] = deque(maxlen=_MAX_EVENTS)
        self._dropped = 0

    def add(self, event: Plain) -> None:
        """Add an event, in place of the oldest event if the inbox is full."""
        with self._lock:
            self._dropped += len(self._events) == _MAX_EVENTS
            self._events.append(event)

    def remove_all(self) -> list[Plain]:
        """Remove and return all events, preceded by the number of dropped events if it is not 0."""
        with self._lock:
            dropped: list[Plain] = [{"dropped": self._dropped}] if self._dropped else []
            events = [*dropped, *self._events]
            self._events.clear()
            self._dropped = 0
        return events


class EventReceiver:
    """Receives the events of a session's GPUs in a thread."""

    def __init__(self, nvml: Nvml, inbox: EventInbox, wall: Callable[[], float] = time.time) -> None:
        self._nvml = nvml
        self._wall = wall
        self._event_set: Any = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._bus_ids: dict[int, str] = {}
        self._inbox = inbox
        self._is_waiting = False
        self.has_mig_changed = False

    def watch(self, handle: Any, bus_id: str) -> None:
        """Start to receive a GPU's events, if the GPU supports any."""
        supported = self._nvml.call("nvmlDeviceGetSupportedEventTypes", handle)
        types = 0 if isinstance(supported, FailedCall) else supported & _EVENT_TYPES
        if not types:
            return
        if self._event_set is None:
            event_set = self._nvml.call("nvmlEventSetCreate")
            if isinstance(event_set, FailedCall):
                return
            self._event_set = event_set
        if not isinstance(self._nvml.call("nvmlDeviceRegisterEvents", handle, types, self._event_set), FailedCall):
            self._bus_ids[handle_address(handle)] = bus_id
            self._start_thread()

    def is_watched(self, bus_id: str) -> bool:
        """Return whether events of the GPU can be received now."""
        return self._is_waiting and bus_id in self._bus_ids.values()

    def add_loss(self, bus_id: str, code: int) -> None:
        """Add an event that reports a GPU as lost."""
        self._inbox.add({"bus_id": bus_id, "lost": code, "wall_time": self._wall()})

    def stop(self) -> bool:
        """Stop the thread. Return False if the thread is blocked in the library."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            if self._thread.is_alive():
                return False
        if self._event_set is not None:
            self._nvml.call("nvmlEventSetFree", self._event_set)
        self._event_set = self._thread = None
        return True

    def _start_thread(self) -> None:
        if self._thread is None:
            self._is_waiting = True
            self._thread = threading.Thread(target=self._receive_events, name="nvml-events", daemon=True)
            self._thread.start()

    def _receive_events(self) -> None:
        back_off = 0.0
        while not self._stopped.is_set():
            event = self._nvml.call("nvmlEventSetWait_v2", self._event_set, WAIT_MILLISECONDS)
            self._is_waiting = not isinstance(event, FailedCall) or event.code == codes.TIMEOUT
            if not isinstance(event, FailedCall):
                back_off = 0.0
                self._store_event(event)
            elif not self._is_waiting:
                # If a GPU is lost, the wait returns at once, so the thread pauses.
                back_off = min(2 * back_off or 1.0, _MAX_BACK_OFF_SECONDS)
                self._stopped.wait(back_off)

    def _store_event(self, event: Any) -> None:
        if event.eventType == MIG_CONFIGURATION:
            self.has_mig_changed = True
        bus_id = self._bus_ids.get(handle_address(event.device))
        if event.eventType != XID or bus_id is None:
            return
        gpu_instance, compute_instance = (
            None if number == _NO_INSTANCE else int(number) for number in (event.gpuInstanceId, event.computeInstanceId)
        )
        self._inbox.add(
            {
                "bus_id": bus_id,
                "xid": int(event.eventData),
                "gpu_instance": gpu_instance,
                "compute_instance": compute_instance,
                "wall_time": self._wall(),
            }
        )
