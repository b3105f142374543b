"""GPM: counters of Hopper and newer between two samples. The older sample is kept from poll to poll."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.binding import Refused, error_answer
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.fields import finite
from telemetry_daemon.readers.nvml.library import Nvml

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# The library requires a tenth of a second between samples; an average over minutes is not a current reading.
SHORTEST_SECONDS = 0.1
LONGEST_SECONDS = 120.0
# 1 graphics, 2 SM, 3 occupancy, 5 any tensor unit, 10 memory bandwidth; the pipes: 4 integers, 6, 7 and 9 of the tensor
# units, 11 to 13 the others; all in per cent. 8 needs a newer driver, and the behaviour of other drivers on an unknown
# number is not documented.
_METRICS = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13)
# As many nvmlGpmMetric_t: number, return code, value, three texts. In pynvml's structures each member costs a Python
# function call.
_MEMBERS = 6
_ASKED = struct.Struct("IId3P" * len(_METRICS))
_ASKED_NUMBERS = tuple(member for number in _METRICS for member in (number, 0, 0.0, 0, 0, 0))


class Gpm:
    """The samples of one GPU, or of one GPU instance."""

    def __init__(self, nvml: Nvml, asker: Asker, clock: Callable[[], float], gpu_instance: int | None = None) -> None:
        self._nvml = nvml
        self._asker = asker
        self._clock = clock
        self._gpu_instance = gpu_instance
        self._key = f"Gpm.{gpu_instance}"
        self._samples: list[Any] = []
        self._taken: float | None = None
        self._is_first = True

    def begin(self) -> None:
        """Take the first sample for the first poll to compare with, if not yet taken."""
        if not self._samples and self._asker.off(self._key) is None:
            self._take()

    def read(self) -> Plain:
        """Return per cent since the last poll by metric number, None without an earlier sample, or {"error": …}."""
        off = self._asker.off(self._key)
        if off is not None:
            return error_answer(off)
        if self._is_too_early():
            return None
        since, now = self._taken, self._clock()
        code = self._take()
        if code:
            return error_answer(code)
        return None if since is None or now - since > LONGEST_SECONDS else self._metrics()

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples:
            self._nvml.call("nvmlGpmSampleFree", sample)
        self._samples = []

    def _begin(self) -> int:
        support = self._nvml.call("nvmlGpmQueryDeviceSupport", self._asker.handle)
        if isinstance(support, Refused):
            return support.code
        if not support.isSupportedDevice:
            return codes.NOT_SUPPORTED
        for _ in range(2):
            sample = self._nvml.call("nvmlGpmSampleAlloc")
            if isinstance(sample, Refused):
                self.close()
                return sample.code
            self._samples.append(sample)
        return 0

    def _is_too_early(self) -> bool:
        """Return whether the last sample is too recent. The first poll waits once for all GPUs of a node, because all of them took the first sample before."""
        left = 0.0 if self._taken is None else SHORTEST_SECONDS - (self._clock() - self._taken)
        if left > 0 and self._is_first:
            time.sleep(left)
            left = 0.0
        self._is_first = False
        return left > 0

    def _take(self) -> int:
        code = 0 if self._samples else self._begin()
        now = self._clock()
        code = code or self._sample()
        self._taken = None if code else now
        if code:
            self._asker.judge(self._key, code)
        return code

    def _sample(self) -> int:
        self._samples.reverse()
        handle, newer = self._asker.handle, self._samples[1]
        if self._gpu_instance is None:
            given = self._nvml.call("nvmlGpmSampleGet", handle, newer)
        else:
            given = self._nvml.call("nvmlGpmMigSampleGet", handle, self._gpu_instance, newer)
        return given.code if isinstance(given, Refused) else 0

    def _metrics(self) -> Plain:
        wanted = self._nvml.module.c_nvmlGpmMetricsGet_t()
        wanted.version = 1
        wanted.numMetrics = len(_METRICS)
        wanted.sample1, wanted.sample2 = self._samples
        offset = type(wanted).metrics.offset
        _ASKED.pack_into(wanted, offset, *_ASKED_NUMBERS)
        given = self._nvml.call("nvmlGpmMetricsGet", wanted)
        if isinstance(given, Refused):
            self._asker.judge(self._key, given.code)
            return error_answer(given.code)
        members = _ASKED.unpack_from(wanted, offset)
        metrics = zip(_METRICS, members[1::_MEMBERS], members[2::_MEMBERS], strict=True)
        return {str(number): error_answer(code) if code else finite(value) for number, code, value in metrics}
