"""The fans of a GPU: each one's speed in per cent, and in revolutions a minute where the driver knows that call."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import TYPE_CHECKING

from telemetry_daemon.readers.binding import Refused
from telemetry_daemon.readers.nvml import calls, codes
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.library import Nvml

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
