"""A session from one initialisation of the library to the next: all GPUs, lost ones included, and their events."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.binding import DeviceLostError, Refused, SessionOverError
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.asker import ASK_AGAIN_SECONDS
from telemetry_daemon.readers.nvml.calls import fast_calls
from telemetry_daemon.readers.nvml.events import Events, Inbox
from telemetry_daemon.readers.nvml.fields import branch_of, counter_fields
from telemetry_daemon.readers.nvml.gpu import Gpu, Shared
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_daemon.readers.nvml.processes import ProcessLists, find_host_engine

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# How long a lost GPU is not called: 30 s, 60 s … 5 min.
_FIRST_PAUSE_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 300.0
# Scanning all processes takes milliseconds.
_LOOK_FOR_DCGM_SECONDS = 300.0
# The fields that are reported of a GPU that no longer answers.
_IDENTITY = ("index", "bus_id", "uuid", "name", "serial")


class Slot:
    """One GPU slot: the GPU while it answers, or its identity while it does not."""

    def __init__(self, shared: Shared, events: Events, index: int) -> None:
        self._shared = shared
        self._events = events
        self._index = index
        self._pause = 0.0
        self._not_before = 0.0
        self.identity: dict[str, Plain] = {}
        self.gpu: Gpu | None = None
        self.code = 0
        self._find()

    def read(self, tier: str) -> dict[str, Plain] | None:
        """Return this tier's answers, the error that lost the GPU, or None for a GPU that was never seen."""
        if self.gpu is None and self._shared.clock() >= self._not_before:
            self._find()
        if self.gpu is not None:
            try:
                return self._with_watched(tier, self.gpu.read(tier), self.gpu.bus_id)
            except DeviceLostError as error:
                self._lose(error.code)
        return {**self.identity, "lost": {"error": self.code}} if self.identity else None

    def _with_watched(self, tier: str, answer: dict[str, Plain], bus_id: str) -> dict[str, Plain]:
        """Return the answer of the fast tier with `watched`: whether events would arrive now. Without it, no events mean nothing."""
        return {**answer, "watched": self._events.is_watched(bus_id)} if tier == "fast" else answer

    def begin_gpm(self) -> None:
        """Take the first samples of GPM, if the GPU answers."""
        if self.gpu is not None:
            try:
                self.gpu.begin_gpm()
            except DeviceLostError as error:
                self._lose(error.code)

    def close(self) -> None:
        """Free the samples."""
        if self.gpu is not None:
            self.gpu.close()

    def _find(self) -> None:
        """Find the GPU by its bus address, if known: a search by UUID touches every other GPU and fails with it."""
        bus_id = self.identity.get("bus_id")
        if bus_id:
            handle = self._shared.nvml.call("nvmlDeviceGetHandleByPciBusId", bus_id)
        else:
            handle = self._shared.nvml.call("nvmlDeviceGetHandleByIndex", self._index)
        if isinstance(handle, Refused):
            self._lose(handle.code)
            return
        try:
            self.gpu = Gpu(self._shared, self._index, handle)
        except DeviceLostError as error:
            self._lose(error.code)
            return
        self.identity = {key: self.gpu.identity[key] for key in _IDENTITY}
        self.identity["instances"] = self.gpu.known_instances()
        self._pause = 0.0
        if self.gpu.bus_id:
            self._events.watch(handle, self.gpu.bus_id)

    def _lose(self, code: int) -> None:
        if code in codes.ENDS_SESSION and code != codes.GPU_NOT_FOUND:
            raise SessionOverError(code)
        if self.gpu is not None and self.gpu.bus_id:
            self._events.note_loss(self.gpu.bus_id, code)
        self.close()
        self.gpu, self.code = None, code
        self._pause = min(2 * self._pause or _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        if code == codes.NO_PERMISSION:
            self._pause = ASK_AGAIN_SECONDS
        self._not_before = self._shared.clock() + self._pause


class Session:
    """An initialised library, usable after `begin`."""

    def __init__(self, nvml: Nvml, clock: Callable[[], float], inbox: Inbox) -> None:
        self._nvml = nvml
        self._clock = clock
        self._inbox = inbox
        self._events = Events(nvml, inbox)
        self._stale = False
        self._engine_pid: int | None = None
        self._next_engine_check = -math.inf
        self._device_count = 0
        self._driver: Plain = None
        self._library: Plain = None
        self._slots: list[Slot] = []

    def begin(self) -> None:
        """Find all GPUs. Raise SessionOverError if the library is unusable."""
        self._device_count = self._counted()
        self._driver = self._node_value("nvmlSystemGetDriverVersion")
        self._library = self._node_value("nvmlSystemGetNVMLVersion")
        branch = branch_of(str(self._library or ""), str(self._driver or ""))
        lists = ProcessLists(self._nvml, branch)
        shared = Shared(self._nvml, self._clock, fast_calls(branch), counter_fields(branch), lists)
        for index in range(self._device_count):
            self._slots.append(Slot(shared, self._events, index))

    @property
    def empty(self) -> bool:
        """Return whether the node has no GPU."""
        return not self._slots

    @property
    def stale(self) -> bool:
        """Return whether the node has changed since the library was initialised."""
        return (
            self._stale
            or self._events.mig_changed
            or any(slot.gpu is not None and slot.gpu.stale for slot in self._slots)
        )

    def read(self, tier: str) -> dict[str, Plain]:
        """Return this tier's answers of all GPUs, and the events since the last poll."""
        if tier == "slow":
            self._stale = self._stale or self._has_changed()
        if tier == "gpm":  # all GPUs, before the first waits for its second sample
            for slot in self._slots:
                slot.begin_gpm()
        gpus = [(slot, slot.read(tier)) for slot in self._slots]
        if self._all_vague():
            raise SessionOverError(codes.UNKNOWN)
        unseen = [[index, slot.code] for index, (slot, found) in enumerate(gpus) if found is None]
        node: dict[str, Plain] = {
            "driver": self._driver,
            "library": self._library,
            "count": self._device_count,
            "unseen": unseen,
        }
        if tier == "inventory":
            node["cuda"] = self._node_value("nvmlSystemGetCudaDriverVersion")
        elif tier == "gpm":
            node["host_engine"] = self._host_engine()
        found = [gpu for _, gpu in gpus if gpu is not None]
        return {"node": node, "gpus": found, "events": self._inbox.take()}

    def close(self) -> bool:
        """Free all resources. Return False if a thread does not return from the library."""
        over = self._events.stop()
        for slot in self._slots:
            slot.close()
        return over

    def _host_engine(self) -> int | None:
        """Return the PID of a DCGM host engine, None without one; it is searched for every few minutes."""
        now = self._clock()
        if now >= self._next_engine_check:
            self._next_engine_check = now + _LOOK_FOR_DCGM_SECONDS
            self._engine_pid = find_host_engine()
        return self._engine_pid

    def _counted(self) -> int:
        """Return the number of GPUs. A library that cannot count them is unusable."""
        given = self._nvml.call("nvmlDeviceGetCount")
        if not isinstance(given, Refused):
            return int(given)
        if given.code == codes.GPU_NOT_FOUND:
            return 0
        raise SessionOverError(given.code)

    def _node_value(self, function: str) -> Any:
        """Return the function's result, or None for an error. Raise SessionOverError if the library is unusable."""
        given = self._nvml.call(function)
        if isinstance(given, Refused):
            if given.code in codes.ENDS_SESSION and given.code != codes.GPU_NOT_FOUND:
                raise SessionOverError(given.code)
            return None
        return given

    def _has_changed(self) -> bool:
        count, driver = self._node_value("nvmlDeviceGetCount"), self._node_value("nvmlSystemGetDriverVersion")
        return (count is not None and count != self._device_count) or (driver is not None and driver != self._driver)

    def _all_vague(self) -> bool:
        """Return whether every GPU was lost to an unspecific error, which means that the library itself has failed."""
        return bool(self._slots) and all(slot.gpu is None and slot.code in codes.VAGUE for slot in self._slots)
