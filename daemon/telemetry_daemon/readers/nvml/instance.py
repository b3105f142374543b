"""A MIG instance: a device within a GPU, with separate memory, processes and GPM counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.binding import Refused, error_answer, error_in, is_value
from telemetry_daemon.readers.nvml import calls, codes
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.calls import UUID, Call
from telemetry_daemon.readers.nvml.gpm import Gpm
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_daemon.readers.nvml.processes import ProcessLists

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

_IDS = (
    ("uuid", UUID),
    ("name", Call("Name", "nvmlDeviceGetName")),
    ("gpu_instance", Call("GpuInstanceId", "nvmlDeviceGetGpuInstanceId")),
    ("compute_instance", Call("ComputeInstanceId", "nvmlDeviceGetComputeInstanceId")),
)
# The errors of the driver for an instance that was destroyed in the meantime.
_GONE = frozenset({codes.INVALID_ARGUMENT, codes.NOT_FOUND})


class InstanceGoneError(Exception):
    """The instance no longer exists."""


class Instance:
    """A compute instance of a GPU."""

    def __init__(self, nvml: Nvml, index: int, handle: Any, parent: Asker, clock: Callable[[], float]) -> None:
        self._asker = Asker(nvml, handle, clock)
        self.identity: dict[str, Plain] = {"index": index, **{key: self._asker.value(call) for key, call in _IDS}}
        self._gpm: Gpm | None = None
        self._arguments = (nvml, parent, clock)
        self._has_answered = False

    def mark_as_only(self) -> None:
        """Mark this as the only compute instance of its GPU instance, so that it owns the GPM counters."""
        number = self.identity["gpu_instance"]
        if isinstance(number, int):
            self._gpm = Gpm(*self._arguments, number)

    def begin_gpm(self) -> None:
        """Take the first sample of GPM."""
        if self._gpm is not None:
            self._gpm.begin()

    def confirm(self) -> None:
        """Raise SessionOverError if the handle now refers to another instance."""
        self._asker.confirm(self.identity["uuid"])

    def fast(self) -> dict[str, Plain]:
        """Read the instance's memory. Raise InstanceGoneError if the instance no longer exists."""
        found = self._asker.answers(calls.FAST_OF_INSTANCE)
        if self._has_answered and any(error_in(answer) in _GONE for answer in found.values()):
            raise InstanceGoneError
        self._has_answered = self._has_answered or any(map(is_value, found.values()))
        return {**self.identity, "calls": found}

    def gpm(self) -> dict[str, Plain]:
        """Read GPM, if this is the only compute instance of its GPU instance."""
        gpm = error_answer(codes.NOT_SUPPORTED) if self._gpm is None else self._gpm.read()
        return {**self.identity, "gpm": gpm}

    def inventory(self) -> dict[str, Plain]:
        """Read the attributes of its profile."""
        return {**self.identity, "calls": self._asker.answers(calls.INVENTORY_OF_INSTANCE)}

    def processes(self, lists: ProcessLists) -> dict[str, Plain]:
        """Read the processes of the instance."""
        return {**self.identity, "processes": lists.read(self._asker)}

    def close(self) -> None:
        """Free the samples."""
        if self._gpm is not None:
            self._gpm.close()


def instances_of(nvml: Nvml, parent: Asker, clock: Callable[[], float]) -> list[Instance]:
    """Return the MIG instances of a GPU."""
    found = [Instance(nvml, index, handle, parent, clock) for index, handle in _handles(nvml, parent.handle)]
    numbers = [instance.identity["gpu_instance"] for instance in found]
    for instance in found:
        if numbers.count(instance.identity["gpu_instance"]) == 1:
            instance.mark_as_only()
    return found


def layout(nvml: Nvml, handle: Any) -> list[Plain]:
    """Return the indices and UUIDs of the MIG instances that the library reports now."""
    uuids = ((index, nvml.call("nvmlDeviceGetUUID", found)) for index, found in _handles(nvml, handle))
    return [[index, None if isinstance(uuid, Refused) else uuid] for index, uuid in uuids]


def _handles(nvml: Nvml, handle: Any) -> Iterator[tuple[int, Any]]:
    most = nvml.call("nvmlDeviceGetMaxMigDeviceCount", handle)
    for index in range(0 if isinstance(most, Refused) else most):
        found = nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if not isinstance(found, Refused):  # indices may have gaps
            yield index, found
