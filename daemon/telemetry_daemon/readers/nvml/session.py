"""From one initialisation of the library to the next: all GPUs, those that are lost among them, and their events."""

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

# How long a lost GPU is left alone: 30 s, 60 s … 5 min.
_FIRST_PAUSE_SECONDS = 30.0
_LONGEST_PAUSE_SECONDS = 300.0
# To look at all processes takes milliseconds.
_LOOK_FOR_DCGM_SECONDS = 300.0
# So much is told of a GPU that does not answer any more.
_IDENTITY = ("index", "bus_id", "uuid", "name", "serial")


class Slot:
    """The place of one GPU: the GPU while it answers, what is known of it while it does not."""

    def __init__(self, shared: Shared, events: Events, index: int) -> None:
        self._shared = shared
        self._events = events
        self._index = index
        self._pause = 0.0
        self._not_before = 0.0
        self.known: dict[str, Plain] = {}
        self.gpu: Gpu | None = None
        self.code = 0
        self._find()

    def read(self, tier: str) -> dict[str, Plain] | None:
        """What this tier gives; the error that lost it; None for one that was never seen."""
        if self.gpu is None and self._shared.clock() >= self._not_before:
            self._find()
        if self.gpu is not None:
            try:
                return self._told_of_events(tier, self.gpu.read(tier), self.gpu.bus_id)
            except DeviceLostError as error:
                self._lose(error.code)
        return {**self.known, "lost": {"error": self.code}} if self.known else None

    def _told_of_events(self, tier: str, answer: dict[str, Plain], bus_id: str) -> dict[str, Plain]:
        """With whether the driver would tell us of events now: without that, none says nothing."""
        return {**answer, "watched": self._events.is_watched(bus_id)} if tier == "fast" else answer

    def begin_gpm(self) -> None:
        """Take the first samples of GPM, if the GPU answers."""
        if self.gpu is not None:
            try:
                self.gpu.begin_gpm()
            except DeviceLostError as error:
                self._lose(error.code)

    def close(self) -> None:
        """Give the samples back."""
        if self.gpu is not None:
            self.gpu.close()

    def _find(self) -> None:
        """By its bus address once that is known: a search by uuid touches, and fails on, every other GPU."""
        bus_id = self.known.get("bus_id")
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
        self.known = {key: self.gpu.known[key] for key in _IDENTITY}
        self.known["instances"] = self.gpu.known_instances()
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

    def __init__(self, nvml: Nvml, clock: Callable[[], float], came: Inbox) -> None:
        self._nvml = nvml
        self._clock = clock
        self._came = came
        self._events = Events(nvml, came)
        self._stale = False
        self._engine: int | None = None
        self._look_again = -math.inf
        self._count = 0
        self._driver: Plain = None
        self._library: Plain = None
        self._slots: list[Slot] = []

    def begin(self) -> None:
        """Find all GPUs; SessionOverError when the library is not to be used."""
        self._count = self._counted()
        self._driver = self._told("nvmlSystemGetDriverVersion")
        self._library = self._told("nvmlSystemGetNVMLVersion")
        branch = branch_of(str(self._library or ""), str(self._driver or ""))
        lists = ProcessLists(self._nvml, branch)
        shared = Shared(self._nvml, self._clock, fast_calls(branch), counter_fields(branch), lists)
        for index in range(self._count):
            self._slots.append(Slot(shared, self._events, index))

    @property
    def empty(self) -> bool:
        """Whether there is nothing to ask."""
        return not self._slots

    @property
    def stale(self) -> bool:
        """Whether the node is not any more as it was when the library was initialised."""
        return (
            self._stale
            or self._events.mig_changed
            or any(slot.gpu is not None and slot.gpu.stale for slot in self._slots)
        )

    def read(self, tier: str) -> dict[str, Plain]:
        """What this tier gives of all GPUs, and the events that came meanwhile."""
        if tier == "slow":
            self._stale = self._stale or self._has_changed()
        if tier == "gpm":  # of all, before the first of them waits for its second sample
            for slot in self._slots:
                slot.begin_gpm()
        gpus = [(slot, slot.read(tier)) for slot in self._slots]
        if self._all_vague():
            raise SessionOverError(codes.UNKNOWN)
        unseen = [[index, slot.code] for index, (slot, found) in enumerate(gpus) if found is None]
        node: dict[str, Plain] = {
            "driver": self._driver,
            "library": self._library,
            "count": self._count,
            "unseen": unseen,
        }
        if tier == "inventory":
            node["cuda"] = self._told("nvmlSystemGetCudaDriverVersion")
        elif tier == "gpm":
            node["host_engine"] = self._host_engine()
        found = [gpu for _, gpu in gpus if gpu is not None]
        return {"node": node, "gpus": found, "events": self._came.take()}

    def close(self) -> bool:
        """Free all that is held; False when a thread does not come back from the library."""
        over = self._events.stop()
        for slot in self._slots:
            slot.close()
        return over

    def _host_engine(self) -> int | None:
        """Return the pid of a DCGM host engine, which is looked for every few minutes."""
        now = self._clock()
        if now >= self._look_again:
            self._look_again = now + _LOOK_FOR_DCGM_SECONDS
            self._engine = find_host_engine()
        return self._engine

    def _counted(self) -> int:
        """How many GPUs there are; a library that cannot tell is not to be used."""
        given = self._nvml.call("nvmlDeviceGetCount")
        if not isinstance(given, Refused):
            return int(given)
        if given.code == codes.GPU_NOT_FOUND:
            return 0
        raise SessionOverError(given.code)

    def _told(self, function: str) -> Any:
        """What the node says, None where it says nothing; SessionOverError when the library is not to be used."""
        given = self._nvml.call(function)
        if isinstance(given, Refused):
            if given.code in codes.ENDS_SESSION and given.code != codes.GPU_NOT_FOUND:
                raise SessionOverError(given.code)
            return None
        return given

    def _has_changed(self) -> bool:
        """Whether there are more GPUs or fewer, or another driver, than when it was initialised."""
        count, driver = self._told("nvmlDeviceGetCount"), self._told("nvmlSystemGetDriverVersion")
        return (count is not None and count != self._count) or (driver is not None and driver != self._driver)

    def _all_vague(self) -> bool:
        """Whether every GPU was lost to an error that says nothing: then it is the library that is ill."""
        return bool(self._slots) and all(slot.gpu is None and slot.code in codes.VAGUE for slot in self._slots)
