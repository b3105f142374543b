"""A GPU that answers: who it is, asked once, what each tier asks of it, and its fans.

`stale` tells that it is not any more what it was when the library was initialised, which has to be done again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from telemetry_daemon.readers.binding import Refused, is_answered
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


_MOST_FANS = 16
_REVOLUTIONS = "FanSpeedRPM"


class _Speed(ctypes.Structure):
    """nvmlFanSpeedInfo_v1_t; pynvml's own function asks the first fan only."""

    _fields_ = (("version", ctypes.c_uint), ("fan", ctypes.c_uint), ("speed", ctypes.c_uint))


_VERSION_1 = ctypes.sizeof(_Speed) | 1 << 24


class Fans:
    """The fans of one GPU; how many there are is asked once."""

    def __init__(self, nvml: Nvml, asker: Asker) -> None:
        self._nvml = nvml
        self._asker = asker
        _, count = asker.answer(calls.NUMBER_OF_FANS)
        # The drivers of cards without any say 0, or that they do not know the question.
        self._count = min(count, _MOST_FANS) if isinstance(count, int) else 1

    def read(self) -> dict[str, Plain]:
        """Key and answer of each fan; the first speed that the driver does not know speaks for all."""
        found = self._asker.answers(calls.fan_speed(fan) for fan in range(self._count))
        revolutions = {
            f"{_REVOLUTIONS}.{fan}": self._asker.own(_REVOLUTIONS, partial(self._ask, fan))
            for fan in range(self._count)
        }
        return {**found, **revolutions}

    def _ask(self, fan: int) -> Plain | Refused:
        if not self._nvml.has_raw:
            return Refused(codes.FUNCTION_NOT_FOUND)
        speed = _Speed(version=_VERSION_1, fan=fan)
        code = self._nvml.raw("nvmlDeviceGetFanSpeedRPM", self._asker.handle, ctypes.byref(speed))
        return Refused(code) if code else int(speed.speed)


if TYPE_CHECKING:
    from telemetry_parsers.model import Plain


class Shared(NamedTuple):
    """What all GPUs of a session share."""

    nvml: Nvml
    clock: Callable[[], float]
    fast_calls: tuple[calls.Call, ...]
    counter_fields: tuple[Field, ...]
    lists: ProcessLists


class Gpu:
    """One GPU from the moment it was found until the session ends or it is lost."""

    def __init__(self, shared: Shared, index: int, handle: Any) -> None:
        self._shared = shared
        self._asker = Asker(shared.nvml, handle, shared.clock)
        self.handle = handle
        self.bus_id = self._asker.value(calls.PCI_INFO)
        name, uuid, serial = (self._asker.value(call) for call in calls.PERSISTENT_NAMES)
        self.known: dict[str, Plain] = {
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
        """What this tier gives; DeviceLostError when the GPU does not answer any more."""
        self._asker.begin()
        return {**self.known, **_TIERS[tier](self)}

    def fast(self) -> dict[str, Plain]:
        """What changes from second to second."""
        found = self._asker.answers(self._shared.fast_calls)
        values = self._asker.fields(fields.FAST)
        if is_answered(values["power_average"]):
            self.known["has_power_average"] = True
        if not any(is_answered(values[field.name]) for field in fields.POWER):
            found.update(self._asker.answers((calls.POWER_USAGE,)))
        return {"calls": found, "fields": values, "instances": self._of_instances(Instance.fast)}

    def counters(self) -> dict[str, Plain]:
        """Read counters that take the driver long, and lose nothing by being read rarely."""
        return {"fields": self._asker.fields(self._shared.counter_fields)}

    def gpm(self) -> dict[str, Plain]:
        """Read what was counted by GPM since the last time."""
        return {"gpm": self._gpm.read(), "instances": self._of_instances(Instance.gpm)}

    def slow(self) -> dict[str, Plain]:
        """Errors, limits, engines, fans: what changes from minute to minute; and whether its handles are still its own."""
        self._asker.confirm(self.known["uuid"])
        for instance in self._instances:
            instance.confirm()
        self.stale = self.stale or self._asker.value(calls.MIG_MODE) != self._mig_mode
        values = self._asker.fields(fields.SLOW)
        found = self._asker.answers((*calls.SLOW, *self._limit_calls(values)))
        return {"calls": {**found, **self._fans.read()}, "fields": values}

    def links(self) -> dict[str, Plain]:
        """NVLink."""
        return {"links": self._links.read()}

    def processes(self) -> dict[str, Plain]:
        """Its processes; in MIG mode those of its instances, since its own list is a privilege."""
        if self._instances:
            return {"instances": self._of_instances(lambda instance: instance.processes(self._shared.lists))}
        # Before the lists: a process that is on them, and has no sample, did nothing.
        utilization = self._process_use.read(self._asker)
        return {"processes": self._shared.lists.read(self._asker), "process_utilization": utilization}

    def inventory(self) -> dict[str, Plain]:
        """What changes when somebody changes it; the limits too, since what is read once has no slow tier."""
        if self._instances and layout(self._shared.nvml, self.handle) != self._known_layout():
            self.stale = True
        values = self._asker.fields(fields.INVENTORY)
        found = self._asker.answers((*calls.INVENTORY, *self._limit_calls(values)))
        found["MigMode"] = self._mig_mode
        found["GpuFabricInfo"] = links.read(self._shared.nvml, self._asker)
        return {"calls": found, "fields": values, "instances": self._of_instances(Instance.inventory)}

    def begin_gpm(self) -> None:
        """Take the first samples of GPM: nothing of it is touched where nobody reads it."""
        self._gpm.begin()
        for instance in self._instances:
            instance.begin_gpm()

    def known_instances(self) -> list[Plain]:
        """Who its MIG instances are."""
        return [instance.known for instance in self._instances]

    def close(self) -> None:
        """Give the samples back."""
        self._gpm.close()
        for instance in self._instances:
            instance.close()

    def _find_instances(self) -> list[Instance]:
        if not isinstance(self._mig_mode, list) or self._mig_mode[:1] != [1]:
            return []
        return instances_of(self._shared.nvml, self._asker, self._shared.clock)

    def _known_layout(self) -> list[Plain]:
        return [[instance.known["index"], instance.known["uuid"]] for instance in self._instances]

    def _of_instances(self, read: Callable[[Instance], dict[str, Plain]]) -> list[Plain]:
        found = [self._of_instance(instance, read) for instance in self._instances]
        return [told for told in found if told is not None]

    def _of_instance(self, instance: Instance, read: Callable[[Instance], dict[str, Plain]]) -> Plain:
        try:
            return read(instance)
        except InstanceGoneError:  # the handles are asked for anew, and the card read again
            self.stale = True
            return None

    def _limit_calls(self, values: dict[str, Plain]) -> Sequence[calls.Call]:
        """What is asked in place of the fields of the limits where the driver does not know them."""
        return () if all(is_answered(values[field.name]) for field in fields.LIMITS) else calls.LIMITS


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
