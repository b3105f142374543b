"""Reads averages since the last poll from GPM (GPU performance monitoring)."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from telemetry_daemon.readers.binding import FailedCall, error_result
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.device_caller import DeviceCaller
from telemetry_daemon.readers.nvml.fields import finite_or_none
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# The library needs 0.1 s between samples. An average over minutes is not a current reading.
MIN_SECONDS = 0.1
MAX_SECONDS = 120.0
# These metrics are percentages. Older drivers may fail on metric 8.
_METRICS = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13)
# nvmlGpmMetric_t: number, return code, value, three strings. pynvml's structures are slow to access.
_MEMBER_COUNT = 6
_METRIC_LAYOUT = struct.Struct("IId3P" * len(_METRICS))
_METRIC_REQUEST = tuple(member for number in _METRICS for member in (number, 0, 0.0, 0, 0, 0))


class GpmSampler:
    """Takes and compares the samples of one GPU, or of one GPU instance."""

    def __init__(
        self, nvml: Nvml, caller: DeviceCaller, clock: Callable[[], float], gpu_instance: int | None = None
    ) -> None:
        self._nvml = nvml
        self._caller = caller
        self._clock = clock
        self._gpu_instance = gpu_instance
        self._key = f"Gpm.{gpu_instance}"
        self._samples: list[Any] = []
        self._sampled_at: float | None = None
        self._is_first_read = True

    def take_first_sample(self) -> None:
        """Take a sample, so that the first poll can compute averages."""
        if not self._samples and self._caller.error_if_disabled(self._key) is None:
            self._take_sample()

    def read(self) -> Plain:
        """Return the averages since the last poll by metric number, or None if there are none yet."""
        code = self._caller.error_if_disabled(self._key)
        if code is not None:
            return error_result(code)
        if self._is_first_read:
            self._is_first_read = False
            time.sleep(self._remaining_seconds())  # the library requires this time between two samples
        elif self._remaining_seconds() > 0:
            return None
        previous_at, sampled_at = self._sampled_at, self._clock()
        code = self._take_sample()
        if code:
            return error_result(code)
        return None if previous_at is None or sampled_at - previous_at > MAX_SECONDS else self._averages()

    def close(self) -> None:
        """Free the samples."""
        for sample in self._samples:
            self._nvml.call("nvmlGpmSampleFree", sample)
        self._samples = []

    def _allocate_samples(self) -> int:
        support = self._nvml.call("nvmlGpmQueryDeviceSupport", self._caller.handle)
        if isinstance(support, FailedCall):
            return support.code
        if not support.isSupportedDevice:
            return codes.NOT_SUPPORTED
        for _ in range(2):
            sample = self._nvml.call("nvmlGpmSampleAlloc")
            if isinstance(sample, FailedCall):
                self.close()
                return sample.code
            self._samples.append(sample)
        return 0

    def _remaining_seconds(self) -> float:
        return 0.0 if self._sampled_at is None else max(0.0, MIN_SECONDS - (self._clock() - self._sampled_at))

    def _take_sample(self) -> int:
        code = 0 if self._samples else self._allocate_samples()
        sampled_at = self._clock()
        code = code or self._overwrite_older_sample()
        self._sampled_at = None if code else sampled_at
        if code:
            self._caller.handle_error(self._key, code)
        return code

    def _overwrite_older_sample(self) -> int:
        self._samples.reverse()
        handle, sample = self._caller.handle, self._samples[1]
        if self._gpu_instance is None:
            result = self._nvml.call("nvmlGpmSampleGet", handle, sample)
        else:
            result = self._nvml.call("nvmlGpmMigSampleGet", handle, self._gpu_instance, sample)
        return result.code if isinstance(result, FailedCall) else 0

    def _averages(self) -> Plain:
        request = self._nvml.module.c_nvmlGpmMetricsGet_t()
        request.version = 1
        request.numMetrics = len(_METRICS)
        request.sample1, request.sample2 = self._samples
        offset = type(request).metrics.offset
        _METRIC_LAYOUT.pack_into(request, offset, *_METRIC_REQUEST)
        result = self._nvml.call("nvmlGpmMetricsGet", request)
        if isinstance(result, FailedCall):
            self._caller.handle_error(self._key, result.code)
            return error_result(result.code)
        members = _METRIC_LAYOUT.unpack_from(request, offset)
        metrics = zip(_METRICS, members[1::_MEMBER_COUNT], members[2::_MEMBER_COUNT], strict=True)
        return {str(number): error_result(code) if code else finite_or_none(value) for number, code, value in metrics}
