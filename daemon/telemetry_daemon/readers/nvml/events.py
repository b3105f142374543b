"""Xid events: a thread waits for them, and the next poll collects them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.binding import Refused
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.library import Nvml, address

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

XID = 0x8
MIG_CONFIGURATION = 0x100
_WANTED = XID | MIG_CONFIGURATION
# A waiting thread cannot be interrupted. The end of a session waits for the thread, and a worker has half a second to
# exit.
WAIT_MILLISECONDS = 400
_LONGEST_BACK_OFF_SECONDS = 30.0
_JOIN_SECONDS = 2.0
_MOST_KEPT = 256
_NO_INSTANCE = (1 << 32) - 1


class Inbox:
    """Events that were not reported yet. The inbox outlives the session, which an Xid may end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Plain] = deque(maxlen=_MOST_KEPT)
        self._dropped = 0

    def put(self, event: Plain) -> None:
        """Keep an event. If there are too many, the oldest is dropped and counted."""
        with self._lock:
            self._dropped += len(self._kept) == _MOST_KEPT
            self._kept.append(event)

    def take(self) -> list[Plain]:
        """Return the events since the last call, each once, with {"dropped": number} if some could not be kept."""
        with self._lock:
            dropped: list[Plain] = [{"dropped": self._dropped}] if self._dropped else []
            found = [*dropped, *self._kept]
            self._kept.clear()
            self._dropped = 0
        return found


class Events:
    """The events of all GPUs of a session, from `start` to `stop`."""

    def __init__(self, nvml: Nvml, inbox: Inbox, wall: Callable[[], float] = time.time) -> None:
        self._nvml = nvml
        self._wall = wall
        self._set: Any = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._bus_ids: dict[int, str] = {}
        self._inbox = inbox
        self._is_waiting = False
        self.mig_changed = False

    def watch(self, handle: Any, bus_id: str) -> None:
        """Watch the events of another GPU, as far as the GPU supports any."""
        supported = self._nvml.call("nvmlDeviceGetSupportedEventTypes", handle)
        wanted = 0 if isinstance(supported, Refused) else supported & _WANTED
        if not wanted:
            return
        if self._set is None:
            made = self._nvml.call("nvmlEventSetCreate")
            if isinstance(made, Refused):
                return
            self._set = made
        if not isinstance(self._nvml.call("nvmlDeviceRegisterEvents", handle, wanted, self._set), Refused):
            self._bus_ids[address(handle)] = bus_id
            self._start()

    def is_watched(self, bus_id: str) -> bool:
        """Return whether the GPU's events would arrive: they were requested, and waiting works."""
        return self._is_waiting and bus_id in self._bus_ids.values()

    def note_loss(self, bus_id: str, code: int) -> None:
        """Record that a GPU was lost, like an event of the driver."""
        self._inbox.put({"bus_id": bus_id, "lost": code, "wall_time": self._wall()})

    def stop(self) -> bool:
        """End the thread and free the event set. Return False if the thread does not return from the library."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
            if self._thread.is_alive():
                return False
        if self._set is not None:
            self._nvml.call("nvmlEventSetFree", self._set)
        self._set = self._thread = None
        return True

    def _start(self) -> None:
        if self._thread is None:
            self._is_waiting = True
            self._thread = threading.Thread(target=self._wait, name="nvml-events", daemon=True)
            self._thread.start()

    def _wait(self) -> None:
        back_off = 0.0
        while not self._stopped.is_set():
            event = self._nvml.call("nvmlEventSetWait_v2", self._set, WAIT_MILLISECONDS)
            self._is_waiting = not isinstance(event, Refused) or event.code == codes.TIMEOUT
            if not isinstance(event, Refused):
                back_off = 0.0
                self._keep(event)
            elif not self._is_waiting:
                # A lost GPU returns at once: without a pause this would keep a core busy.
                back_off = min(2 * back_off or 1.0, _LONGEST_BACK_OFF_SECONDS)
                self._stopped.wait(back_off)

    def _keep(self, event: Any) -> None:
        if event.eventType == MIG_CONFIGURATION:
            self.mig_changed = True
        bus_id = self._bus_ids.get(address(event.device))
        if event.eventType != XID or bus_id is None:
            return
        gpu_instance, compute_instance = (
            None if number == _NO_INSTANCE else int(number) for number in (event.gpuInstanceId, event.computeInstanceId)
        )
        self._inbox.put(
            {
                "bus_id": bus_id,
                "xid": int(event.eventData),
                "gpu_instance": gpu_instance,
                "compute_instance": compute_instance,
                "wall_time": self._wall(),
            }
        )
