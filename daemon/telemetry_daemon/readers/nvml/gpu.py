"""The calls on one GPU for each tier, its identity, and its fans."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from telemetry_daemon.readers.binding import Refused, is_value
from telemetry_daemon.readers.nvml import calls, codes, fields, links
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.fields import Field
from telemetry_daemon.readers.nvml.gpm import Gpm
from telemetry_daemon.readers.nvml.instance import Instance, InstanceGoneError, instances_of, layout
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_daemon.readers.nvml.links import Links
from telemetry_daemon.readers.nvml.processes import ProcessLists, ProcessUse

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain


_MAX_FANS = 16
_REVOLUTIONS = "FanSpeedRPM"


class _Speed(ctypes.Structure):
    """nvmlFanSpeedInfo_v1_t. Used directly, because the function of pynvml reads the first fan only."""

    _fields_ = (("version", ctypes.c_uint), ("fan", ctypes.c_uint), ("speed", ctypes.c_uint))


_VERSION_1 = ctypes.sizeof(_Speed) | 1 << 24


class Fans:
    """Reads the fans of one GPU. Their number is read once."""

    def __init__(self, nvml: Nvml, asker: Asker) -> None:
        self._nvml = nvml
        self._asker = asker
        _, count = asker.answer(calls.NUMBER_OF_FANS)
        # Drivers of cards without fans return 0 or "not supported".
        self._count = min(count, _MAX_FANS) if isinstance(count, int) else 1

    def read(self) -> dict[str, Plain]:
        """Return the results for all fans by key. If the first fan's speed is not supported, the others are not read."""
        answers = self._asker.answers(calls.fan_speed(fan) for fan in range(self._count))
        revolutions = {
            f"{_REVOLUTIONS}.{fan}": self._asker.custom(_REVOLUTIONS, partial(self._revolutions, fan))
            for fan in range(self._count)
        }
        return {**answers, **revolutions}

    def _revolutions(self, fan: int) -> Plain | Refused:
        if not self._nvml.has_raw:
            return Refused(codes.FUNCTION_NOT_FOUND)
        speed = _Speed(version=_VERSION_1, fan=fan)
        code = self._nvml.raw("nvmlDeviceGetFanSpeedRPM", self._asker.handle, ctypes.byref(speed))
        return Refused(code) if code else int(speed.speed)


if TYPE_CHECKING:
    from telemetry_parsers.model import Plain


class Shared(NamedTuple):
    """The objects that all GPUs of a session share."""

    nvml: Nvml
    clock: Callable[[], float]
    fast_calls: tuple[calls.Call, ...]
    counter_fields: tuple[Field, ...]
    lists: ProcessLists


class Gpu:
    """One GPU, used until it is lost or the session ends. `stale` means that the library must be initialised again."""

    def __init__(self, shared: Shared, index: int, handle: Any) -> None:
        self._shared = shared
        self._asker = Asker(shared.nvml, handle, shared.clock)
        self.handle = handle
        self.bus_id = self._asker.value(calls.PCI_INFO)
        name, uuid, serial = (self._asker.value(call) for call in calls.PERSISTENT_NAMES)
        self.identity: dict[str, Plain] = {
            "index": index,
            "bus_id": self.bus_id,
            "uuid": uuid,
            "name": name,
            "serial": serial,
            "compute_capability": self._asker.value(calls.COMPUTE_CAPABILITY),
            "supported_reasons": self._asker.value(calls.SUPPORTED_REASONS),
        }
        self.stale = False
        self._mig_mode = self._asker.value(calls.MIG_MODE)
        self._instances = self._find_instances()
        self._gpm = Gpm(shared.nvml, self._asker, shared.clock)
        self._links = Links(self._asker)
        self._fans = Fans(shared.nvml, self._asker)
        self._process_use = ProcessUse(shared.nvml)

    def read(self, tier: str) -> dict[str, Plain]:
        """Return the results of a tier's calls. Raises DeviceLostError if the GPU no longer responds."""
        self._asker.begin()
        return {**self.identity, **_TIERS[tier](self)}

    def fast(self) -> dict[str, Plain]:
        """Read values that change from second to second."""
        answers = self._asker.answers(self._shared.fast_calls)
        values = self._asker.fields(fields.FAST)
        if is_value(values["power_average"]):
            self.identity["has_power_average"] = True
        if not any(is_value(values[field.name]) for field in fields.POWER):
            answers.update(self._asker.answers((calls.POWER_USAGE,)))
        return {"calls": answers, "fields": values, "instances": self._read_instances(Instance.fast)}

    def counters(self) -> dict[str, Plain]:
        """Read counters, which are expensive in the driver and need not be read often."""
        return {"fields": self._asker.fields(self._shared.counter_fields)}

    def gpm(self) -> dict[str, Plain]:
        """Read the averages of GPM since the last poll."""
        return {"gpm": self._gpm.read(), "instances": self._read_instances(Instance.gpm)}

    def slow(self) -> dict[str, Plain]:
        """Read errors, limits, engines and fans, which change from minute to minute, and verify the handles."""
        self._asker.confirm(self.identity["uuid"])
        for instance in self._instances:
            instance.confirm()
        self.stale = self.stale or self._asker.value(calls.MIG_MODE) != self._mig_mode
        values = self._asker.fields(fields.SLOW)
        answers = self._asker.answers((*calls.SLOW, *self._limit_calls(values)))
        return {"calls": {**answers, **self._fans.read()}, "fields": values}

    def links(self) -> dict[str, Plain]:
        """Read the state, traffic and errors of NVLink."""
        return {"links": self._links.read()}

    def processes(self) -> dict[str, Plain]:
        """Read the processes. In MIG mode, read those of the instances, because the list of the GPU needs privileges."""
        if self._instances:
            return {"instances": self._read_instances(lambda instance: instance.processes(self._shared.lists))}
        # Read before the lists, so a listed process without a sample was idle.
        utilization = self._process_use.read(self._asker)
        return {"processes": self._shared.lists.read(self._asker), "process_utilization": utilization}

    def inventory(self) -> dict[str, Plain]:
        """Read settings and constants. Limits are read with older functions if the card does not support their fields."""
        if self._instances and layout(self._shared.nvml, self.handle) != self._known_layout():
            self.stale = True
        values = self._asker.fields(fields.INVENTORY)
        answers = self._asker.answers((*calls.INVENTORY, *self._limit_calls(values)))
        answers["MigMode"] = self._mig_mode
        answers["GpuFabricInfo"] = links.read(self._shared.nvml, self._asker)
        return {"calls": answers, "fields": values, "instances": self._read_instances(Instance.inventory)}

    def begin_gpm(self) -> None:
        """Take the first samples of GPM, if not yet taken."""
        self._gpm.begin()
        for instance in self._instances:
            instance.begin_gpm()

    def instance_identities(self) -> list[Plain]:
        """Return the identities of the MIG instances."""
        return [instance.identity for instance in self._instances]

    def close(self) -> None:
        """Free the samples of GPM."""
        self._gpm.close()
        for instance in self._instances:
            instance.close()

    def _find_instances(self) -> list[Instance]:
        if not isinstance(self._mig_mode, list) or self._mig_mode[:1] != [1]:
            return []
        return instances_of(self._shared.nvml, self._asker, self._shared.clock)

    def _known_layout(self) -> list[Plain]:
        return [[instance.identity["index"], instance.identity["uuid"]] for instance in self._instances]

    def _read_instances(self, read: Callable[[Instance], dict[str, Plain]]) -> list[Plain]:
        answers = [self._read_instance(instance, read) for instance in self._instances]
        return [answer for answer in answers if answer is not None]

    def _read_instance(self, instance: Instance, read: Callable[[Instance], dict[str, Plain]]) -> Plain:
        try:
            return read(instance)
        except InstanceGoneError:  # a new session reads the card again
            self.stale = True
            return None

    def _limit_calls(self, values: dict[str, Plain]) -> Sequence[calls.Call]:
        """Return the calls that replace the limit fields, if the driver does not support the fields."""
        return () if all(is_value(values[field.name]) for field in fields.LIMITS) else calls.LIMITS


_TIERS: dict[str, Callable[[Gpu], dict[str, Plain]]] = {
    "fast": Gpu.fast,
    "counters": Gpu.counters,
    "gpm": Gpu.gpm,
    "slow": Gpu.slow,
    "links": Gpu.links,
    "processes": Gpu.processes,
    "inventory": Gpu.inventory,
}
TIERS = tuple(_TIERS)
