"""The fans of a GPU: each one's speed in per cent, and in revolutions a minute where the driver knows that call."""

from __future__ import annotations

import ctypes

from telemetry_daemon.readers.nvml import calls, codes
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.library import Nvml
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
        return {**found, **{f"{_REVOLUTIONS}.{fan}": self._revolutions(fan) for fan in range(self._count)}}

    def _revolutions(self, fan: int) -> Plain:
        off = self._asker.off(_REVOLUTIONS)
        if off is not None:
            return {"error": off}
        speed = _Speed(version=_VERSION_1, fan=fan)
        code = self._ask(speed)
        if code:
            self._asker.judge(_REVOLUTIONS, code)
            return {"error": code}
        return int(speed.speed)

    def _ask(self, speed: _Speed) -> int:
        if not self._nvml.has_raw:
            return codes.FUNCTION_NOT_FOUND
        return self._nvml.raw("nvmlDeviceGetFanSpeedRPM", self._asker.handle, ctypes.byref(speed))
