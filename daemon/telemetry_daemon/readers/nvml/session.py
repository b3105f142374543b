"""The GPUs of one NVML session, including lost GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable

from telemetry_daemon.readers.binding import DeviceLostError, FailedCall, SessionEndedError
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.device_caller import DENIED_RETRY_SECONDS
from telemetry_daemon.readers.nvml.events import EventInbox, EventReceiver
from telemetry_daemon.readers.nvml.fields import branch_version
from telemetry_daemon.readers.nvml.gpu import Gpu, SessionContext
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_daemon.readers.nvml.processes import find_host_engine
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# The pauses between searches for a lost GPU double up to five minutes.
_FIRST_PAUSE_SECONDS = 30.0
_MAX_PAUSE_SECONDS = 300.0
# The search for DCGM reads the names of all processes, which takes milliseconds.
_HOST_ENGINE_SEARCH_SECONDS = 300.0
# The fields that are reported for a GPU that no longer responds.
_IDENTITY_KEYS = ("index", "bus_id", "uuid", "name", "serial")


class GpuSlot:
    """The GPU at an index of the library. The GPU may be lost."""

    def __init__(self, context: SessionContext, events: EventReceiver, index: int) -> None:
        self._context = context
        self._events = events
        self._index = index
        self._pause_seconds = 0.0
        self._retry_at = 0.0
        self.identity: dict[str, Plain] = {}
        self.gpu: Gpu | None = None
        self.lost_code = 0
        self._find_gpu()

    def read(self, tier: str) -> dict[str, Plain] | None:
        """Return a tier's results, or the identity and error of a lost GPU. For a GPU that was never found, return None."""
        if self.gpu is None and self._context.clock() >= self._retry_at:
            self._find_gpu()
        if self.gpu is not None:
            try:
                return self._with_watch_state(tier, self.gpu.read(tier), self.gpu.bus_id)
            except DeviceLostError as error:
                self._mark_as_lost(error.code)
        return {**self.identity, "lost": {"error": self.lost_code}} if self.identity else None

    def _with_watch_state(self, tier: str, result: dict[str, Plain], bus_id: str) -> dict[str, Plain]:
        return {**result, "watched": self._events.is_watched(bus_id)} if tier == "fast" else result

    def begin_gpm(self) -> None:
        """Take the first samples of GPM, if the GPU responds."""
        if self.gpu is not None:
            try:
                self.gpu.begin_gpm()
            except DeviceLostError as error:
                self._mark_as_lost(error.code)

    def close(self) -> None:
        """Free the GPM samples."""
        if self.gpu is not None:
            self.gpu.close()

    def _find_gpu(self) -> None:
        bus_id = self.identity.get("bus_id")  # a search by UUID would fail if any GPU is lost
        if bus_id:
            handle = self._context.nvml.call("nvmlDeviceGetHandleByPciBusId", bus_id)
        else:
            handle = self._context.nvml.call("nvmlDeviceGetHandleByIndex", self._index)
        if isinstance(handle, FailedCall):
            self._mark_as_lost(handle.code)
            return
        try:
            self.gpu = Gpu(self._context, self._index, handle)
        except DeviceLostError as error:
            self._mark_as_lost(error.code)
            return
        self.identity = {key: self.gpu.identity[key] for key in _IDENTITY_KEYS}
        self.identity["instances"] = self.gpu.instance_identities()
        self._pause_seconds = 0.0
        if self.gpu.bus_id:
            self._events.watch(handle, self.gpu.bus_id)

    def _mark_as_lost(self, code: int) -> None:
        if code in codes.SESSION_ENDING_ERRORS and code != codes.GPU_NOT_FOUND:
            raise SessionEndedError(code)
        if self.gpu is not None and self.gpu.bus_id:
            self._events.add_loss(self.gpu.bus_id, code)
        self.close()
        self.gpu, self.lost_code = None, code
        self._pause_seconds = min(2 * self._pause_seconds or _FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS)
        if code == codes.NO_PERMISSION:
            self._pause_seconds = DENIED_RETRY_SECONDS
        self._retry_at = self._context.clock() + self._pause_seconds


class Session:
    """The GPUs of an initialised library. `find_gpus` must be called first."""

    def __init__(self, nvml: Nvml, clock: Callable[[], float], inbox: EventInbox) -> None:
        self._nvml = nvml
        self._clock = clock
        self._inbox = inbox
        self._events = EventReceiver(nvml, inbox)
        self._has_node_changed = False
        self._host_engine_pid: int | None = None
        self._next_host_engine_search = -math.inf
        self._device_count = 0
        self._driver: Plain = None
        self._library: Plain = None
        self._slots: list[GpuSlot] = []

    def find_gpus(self) -> None:
        """Find all GPUs. Raises SessionEndedError if the library is unusable."""
        self._device_count = self._count_gpus()
        self._driver = self._node_value("nvmlSystemGetDriverVersion")
        self._library = self._node_value("nvmlSystemGetNVMLVersion")
        version = branch_version(str(self._library or ""), str(self._driver or ""))
        context = SessionContext(self._nvml, self._clock, version)
        for index in range(self._device_count):
            self._slots.append(GpuSlot(context, self._events, index))

    @property
    def has_no_gpus(self) -> bool:
        """Return whether the node has no GPU."""
        return not self._slots

    @property
    def is_outdated(self) -> bool:
        """Return whether the library must be initialised again."""
        return (
            self._has_node_changed
            or self._events.has_mig_changed
            or any(slot.gpu is not None and slot.gpu.is_outdated for slot in self._slots)
        )

    def read(self, tier: str) -> dict[str, Plain]:
        """Return a tier's results for all GPUs, and the new events."""
        if tier == "slow":
            self._has_node_changed = self._has_node_changed or self._is_node_different()
        if tier == "gpm":  # take the first samples of all GPUs before waiting for the second ones
            for slot in self._slots:
                slot.begin_gpm()
        slot_results = [(slot, slot.read(tier)) for slot in self._slots]
        if self._is_library_lost():
            raise SessionEndedError(codes.UNKNOWN)
        unseen = [[index, slot.lost_code] for index, (slot, result) in enumerate(slot_results) if result is None]
        node: dict[str, Plain] = {
            "driver": self._driver,
            "library": self._library,
            "count": self._device_count,
            "unseen": unseen,
        }
        if tier == "inventory":
            node["cuda"] = self._node_value("nvmlSystemGetCudaDriverVersion")
        elif tier == "gpm":
            node["host_engine"] = self._find_host_engine_pid()
        results = [result for _, result in slot_results if result is not None]
        return {"node": node, "gpus": results, "events": self._inbox.remove_all()}

    def close(self) -> bool:
        """Free all resources. Return False if a thread is blocked in the library."""
        is_stopped = self._events.stop()
        for slot in self._slots:
            slot.close()
        return is_stopped

    def _find_host_engine_pid(self) -> int | None:
        """Return the PID of a DCGM host engine. The search is repeated every few minutes."""
        now = self._clock()
        if now >= self._next_host_engine_search:
            self._next_host_engine_search = now + _HOST_ENGINE_SEARCH_SECONDS
            self._host_engine_pid = find_host_engine()
        return self._host_engine_pid

    def _count_gpus(self) -> int:
        result = self._nvml.call("nvmlDeviceGetCount")
        if not isinstance(result, FailedCall):
            return int(result)
        if result.code == codes.GPU_NOT_FOUND:
            return 0
        raise SessionEndedError(result.code)

    def _node_value(self, function: str) -> Any:
        """Return a function's result, or None if it fails. Raises SessionEndedError if the library is unusable."""
        result = self._nvml.call(function)
        if isinstance(result, FailedCall):
            if result.code in codes.SESSION_ENDING_ERRORS and result.code != codes.GPU_NOT_FOUND:
                raise SessionEndedError(result.code)
            return None
        return result

    def _is_node_different(self) -> bool:
        count, driver = self._node_value("nvmlDeviceGetCount"), self._node_value("nvmlSystemGetDriverVersion")
        return (count is not None and count != self._device_count) or (driver is not None and driver != self._driver)

    def _is_library_lost(self) -> bool:
        """Return whether all GPUs are lost, each with a generic error."""
        return bool(self._slots) and all(
            slot.gpu is None and slot.lost_code in codes.GENERIC_ERRORS for slot in self._slots
        )
