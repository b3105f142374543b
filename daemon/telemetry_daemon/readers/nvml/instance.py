"""A MIG instance, which is a part of a GPU with separate memory and processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from telemetry_daemon.readers.binding import FailedCall, error_code, error_result, is_value
from telemetry_daemon.readers.nvml import calls, codes
from telemetry_daemon.readers.nvml.calls import UUID, Call
from telemetry_daemon.readers.nvml.device_caller import DeviceCaller
from telemetry_daemon.readers.nvml.gpm import GpmSampler
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_daemon.readers.nvml.processes import ProcessLists
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

_IDENTITY_CALLS = (
    ("uuid", UUID),
    ("name", Call("Name")),
    ("gpu_instance", Call("GpuInstanceId")),
    ("compute_instance", Call("ComputeInstanceId")),
)
_GONE_ERRORS = frozenset({codes.INVALID_ARGUMENT, codes.NOT_FOUND})


class InstanceGoneError(Exception):
    """The instance no longer exists."""


class Instance:
    """A MIG compute instance of a GPU."""

    def __init__(self, nvml: Nvml, index: int, handle: Any, parent: DeviceCaller, clock: Callable[[], float]) -> None:
        self._caller = DeviceCaller(nvml, handle, clock)
        values = {key: self._caller.value(call) for key, call in _IDENTITY_CALLS}
        self.identity: dict[str, Plain] = {"index": index, **values}
        self._gpm: GpmSampler | None = None
        self._gpm_arguments = (nvml, parent, clock)
        self._has_succeeded = False

    def enable_gpm(self) -> None:
        """Enable GPM, which requires that the GPU instance has no other compute instance."""
        gpu_instance = self.identity["gpu_instance"]
        if isinstance(gpu_instance, int):
            self._gpm = GpmSampler(*self._gpm_arguments, gpu_instance)

    def begin_gpm(self) -> None:
        """Take the first GPM sample, if GPM is enabled for this instance."""
        if self._gpm is not None:
            self._gpm.take_first_sample()

    def verify_uuid(self) -> None:
        """Raise SessionEndedError if the handle now refers to another instance."""
        self._caller.verify_uuid(self.identity["uuid"])

    def read_fast(self) -> dict[str, Plain]:
        """Read the instance's memory. Raise InstanceGoneError if the instance no longer exists."""
        results = self._caller.results(calls.INSTANCE_FAST)
        if self._has_succeeded and any(error_code(result) in _GONE_ERRORS for result in results.values()):
            raise InstanceGoneError
        self._has_succeeded = self._has_succeeded or any(map(is_value, results.values()))
        return {**self.identity, "calls": results}

    def read_gpm(self) -> dict[str, Plain]:
        """Read the GPM averages. If GPM is not enabled, report them as not supported."""
        gpm = error_result(codes.NOT_SUPPORTED) if self._gpm is None else self._gpm.read()
        return {**self.identity, "gpm": gpm}

    def read_inventory(self) -> dict[str, Plain]:
        """Read the multiprocessor count and memory size of the instance's profile."""
        return {**self.identity, "calls": self._caller.results(calls.INSTANCE_INVENTORY)}

    def read_processes(self, process_lists: ProcessLists) -> dict[str, Plain]:
        """Read the processes of the instance."""
        return {**self.identity, "processes": process_lists.read(self._caller)}

    def close(self) -> None:
        """Free the GPM samples."""
        if self._gpm is not None:
            self._gpm.close()


def find_instances(nvml: Nvml, parent: DeviceCaller, clock: Callable[[], float]) -> list[Instance]:
    """Return a GPU's MIG instances."""
    handles = _instance_handles(nvml, parent.handle)
    instances = [Instance(nvml, index, handle, parent, clock) for index, handle in handles]
    gpu_instances = [instance.identity["gpu_instance"] for instance in instances]
    for instance in instances:
        if gpu_instances.count(instance.identity["gpu_instance"]) == 1:
            instance.enable_gpm()
    return instances


def current_layout(nvml: Nvml, handle: Any) -> list[Plain]:
    """Return the index and UUID of each current MIG instance."""
    handles = _instance_handles(nvml, handle)
    indexed_uuids = ((index, nvml.call("nvmlDeviceGetUUID", instance)) for index, instance in handles)
    return [[index, None if isinstance(uuid, FailedCall) else uuid] for index, uuid in indexed_uuids]


def _instance_handles(nvml: Nvml, handle: Any) -> Iterator[tuple[int, Any]]:
    max_count = nvml.call("nvmlDeviceGetMaxMigDeviceCount", handle)
    for index in range(0 if isinstance(max_count, FailedCall) else max_count):
        instance = nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if not isinstance(instance, FailedCall):  # indices may have gaps
            yield index, instance
