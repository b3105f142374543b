"""The reader `nvml` on a pynvml such as that of 2023: without newer calls, some with other parameters."""

from __future__ import annotations

from typing import Any

import pynvml

from telemetry_daemon.readers.nvml.reader import NvmlReader

NEWER = (
    "NVMLLibraryMismatchError",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetAddressingMode",
    "c_nvmlGpuFabricInfo_v2_t",
)
for name in NEWER:
    delattr(pynvml, name)


def _with_a_buffer(handle: Any, version: Any) -> Any:
    """As it was before the buffer became optional."""
    raise AssertionError("nobody has a buffer")


pynvml.nvmlDeviceGetGspFirmwareVersion = _with_a_buffer
READER = NvmlReader()
