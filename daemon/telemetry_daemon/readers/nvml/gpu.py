"""Reads one GPU: its identity, its fans, and the values of each tier."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial

from telemetry_daemon.readers.binding import FailedCall, is_value
from telemetry_daemon.readers.nvml import calls, codes, fields, links
from telemetry_daemon.readers.nvml.device_caller import DeviceCaller
from telemetry_daemon.readers.nvml.gpm import GpmSampler
from telemetry_daemon.readers.nvml.instance import Instance, InstanceGoneError, current_layout, find_instances
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_daemon.readers.nvml.links import Links
from telemetry_daemon.readers.nvml.processes import ProcessLists, ProcessUtilization
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain


_MAX_FANS = 16
_RPM_KEY = "FanSpeedRPM"


class _FanSpeedInfo(ctypes.Structure):
    """The structure nvmlFanSpeedInfo_v1_t. Without it, pynvml reads only the first fan."""

    _fields_ = (("version", ctypes.c_uint), ("fan", ctypes.c_uint), ("speed", ctypes.c_uint))


_FAN_SPEED_INFO_V1 = ctypes.sizeof(_FanSpeedInfo) | 1 << 24


class Fans:
    """Reads the fans of one GPU."""

    def __init__(self, nvml: Nvml, caller: DeviceCaller) -> None:
        self._nvml = nvml
        self._caller = caller
        _, count = caller.keyed_result(calls.FAN_COUNT)
        # For cards without fans, drivers return 0 or "not supported".
        self._count = min(count, _MAX_FANS) if isinstance(count, int) else 1

    def read(self) -> dict[str, Plain]:
        """Return the results for all fans by key."""
        results = self._caller.results(calls.fan_speed(fan) for fan in range(self._count))
        rpm_results = {
            f"{_RPM_KEY}.{fan}": self._caller.guarded_call(_RPM_KEY, partial(self._fan_rpm, fan))
            for fan in range(self._count)
        }
        return {**results, **rpm_results}

    def _fan_rpm(self, fan: int) -> Plain | FailedCall:
        if not self._nvml.allows_direct_calls:
            return FailedCall(codes.FUNCTION_NOT_FOUND)
        speed = _FanSpeedInfo(version=_FAN_SPEED_INFO_V1, fan=fan)
        code = self._nvml.call_directly("nvmlDeviceGetFanSpeedRPM", self._caller.handle, ctypes.byref(speed))
        return FailedCall(code) if code else int(speed.speed)


class SessionContext:
    """The objects that all GPUs of a session share."""

    def __init__(self, nvml: Nvml, clock: Callable[[], float], version: str) -> None:
        self.nvml = nvml
        self.clock = clock
        self.fast_calls = calls.fast_calls(version)
        self.counter_fields = fields.counter_fields(version)
        self.process_lists = ProcessLists(nvml, version)


class Gpu:
    """One GPU of a session. If `is_outdated` is set, the session must be replaced."""

    def __init__(self, context: SessionContext, index: int, handle: Any) -> None:
        self._context = context
        self._caller = DeviceCaller(context.nvml, handle, context.clock)
        self.handle = handle
        self.bus_id = self._caller.value(calls.PCI_INFO)
        name, uuid, serial = (self._caller.value(call) for call in calls.PERSISTENT_NAMES)
        self.identity: dict[str, Plain] = {
            "index": index,
            "bus_id": self.bus_id,
            "uuid": uuid,
            "name": name,
            "serial": serial,
            "compute_capability": self._caller.value(calls.COMPUTE_CAPABILITY),
            "supported_reasons": self._caller.value(calls.SUPPORTED_REASONS),
        }
        self.is_outdated = False
        self._mig_mode = self._caller.value(calls.MIG_MODE)
        self._instances = self._find_instances()
        self._gpm = GpmSampler(context.nvml, self._caller, context.clock)
        self._links = Links(self._caller)
        self._fans = Fans(context.nvml, self._caller)
        self._process_utilization = ProcessUtilization(context.nvml)

    def read(self, tier: str) -> dict[str, Plain]:
        """Return the results of a tier's calls. Raises DeviceLostError if the GPU no longer responds."""
        self._caller.begin_poll()
        return {**self.identity, **_TIERS[tier](self)}

    def read_fast(self) -> dict[str, Plain]:
        """Read values that change within a second."""
        results = self._caller.results(self._context.fast_calls)
        field_results = self._caller.field_results(fields.FAST)
        if is_value(field_results["power_average"]):
            self.identity["has_power_average"] = True
        if not any(is_value(field_results[field.name]) for field in fields.POWER):
            results.update(self._caller.results((calls.POWER_USAGE,)))
        return {"calls": results, "fields": field_results, "instances": self._read_instances(Instance.read_fast)}

    def read_counters(self) -> dict[str, Plain]:
        """Read counters, which are expensive in the driver."""
        return {"fields": self._caller.field_results(self._context.counter_fields)}

    def read_gpm(self) -> dict[str, Plain]:
        """Read the averages of GPM since the last poll."""
        return {"gpm": self._gpm.read(), "instances": self._read_instances(Instance.read_gpm)}

    def read_slow(self) -> dict[str, Plain]:
        """Verify the handles, and read values that change within a minute."""
        self._caller.verify_uuid(self.identity["uuid"])
        for instance in self._instances:
            instance.verify_uuid()
        self.is_outdated = self.is_outdated or self._caller.value(calls.MIG_MODE) != self._mig_mode
        field_results = self._caller.field_results(fields.SLOW)
        results = self._caller.results((*calls.SLOW, *self._calls_for_missing_limits(field_results)))
        return {"calls": {**results, **self._fans.read()}, "fields": field_results}

    def read_links(self) -> dict[str, Plain]:
        """Read the state, traffic and errors of NVLink."""
        return {"links": self._links.read()}

    def read_processes(self) -> dict[str, Plain]:
        """Read the processes. In MIG mode, read them by instance."""
        process_lists = self._context.process_lists
        if self._instances:  # in MIG mode, the GPU's own list needs privileges
            return {"instances": self._read_instances(lambda instance: instance.read_processes(process_lists))}
        # Utilization is read before the lists, so a listed process without samples was idle.
        utilization = self._process_utilization.read(self._caller)
        return {"processes": process_lists.read(self._caller), "process_utilization": utilization}

    def read_inventory(self) -> dict[str, Plain]:
        """Read the GPU's settings and constants."""
        if self._instances and current_layout(self._context.nvml, self.handle) != self._instance_layout():
            self.is_outdated = True
        field_results = self._caller.field_results(fields.INVENTORY)
        results = self._caller.results((*calls.INVENTORY, *self._calls_for_missing_limits(field_results)))
        results["MigMode"] = self._mig_mode
        results["GpuFabricInfo"] = links.read_fabric(self._context.nvml, self._caller)
        return {"calls": results, "fields": field_results, "instances": self._read_instances(Instance.read_inventory)}

    def begin_gpm(self) -> None:
        """Take the first GPM samples of the GPU and the MIG instances."""
        self._gpm.take_first_sample()
        for instance in self._instances:
            instance.begin_gpm()

    def instance_identities(self) -> list[Plain]:
        """Return the identities of the MIG instances."""
        return [instance.identity for instance in self._instances]

    def close(self) -> None:
        """Free the GPM samples."""
        self._gpm.close()
        for instance in self._instances:
            instance.close()

    def _find_instances(self) -> list[Instance]:
        if not isinstance(self._mig_mode, list) or self._mig_mode[:1] != [1]:
            return []
        return find_instances(self._context.nvml, self._caller, self._context.clock)

    def _instance_layout(self) -> list[Plain]:
        return [[instance.identity["index"], instance.identity["uuid"]] for instance in self._instances]

    def _read_instances(self, read: Callable[[Instance], dict[str, Plain]]) -> list[Plain]:
        results = [self._read_instance(instance, read) for instance in self._instances]
        return [result for result in results if result is not None]

    def _read_instance(self, instance: Instance, read: Callable[[Instance], dict[str, Plain]]) -> Plain:
        try:
            return read(instance)
        except InstanceGoneError:  # a new session finds the current instances
            self.is_outdated = True
            return None

    def _calls_for_missing_limits(self, field_results: dict[str, Plain]) -> Sequence[calls.Call]:
        return () if all(is_value(field_results[field.name]) for field in fields.LIMITS) else calls.LIMITS


_TIERS: dict[str, Callable[[Gpu], dict[str, Plain]]] = {
    "fast": Gpu.read_fast,
    "counters": Gpu.read_counters,
    "gpm": Gpu.read_gpm,
    "slow": Gpu.read_slow,
    "links": Gpu.read_links,
    "processes": Gpu.read_processes,
    "inventory": Gpu.read_inventory,
}
TIERS = tuple(_TIERS)
