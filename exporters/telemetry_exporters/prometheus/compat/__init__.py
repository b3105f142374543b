"""This node's readings under the names of other exporters: where the table of each is, which is loaded when its page is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever needs the names alone does without
    from telemetry_exporters.prometheus.compat.table import Peer

# Where the table of each is: the module in this folder, and its name there.
PLACES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "dcgm-exporter": ("nvidia", "DCGM"),
        "nvidia_gpu_exporter": ("nvidia", "NVIDIA_GPU"),
        "nvitop-exporter": ("nvidia", "NVITOP"),
        "device-metrics-exporter": ("rocm", "DEVICE_METRICS"),
        "omnistat": ("rocm", "OMNISTAT"),
        "dcu-exporter": ("rocm", "DCU"),
        "hcu-exporter": ("rocm", "HCU"),
        "npu-exporter": ("others", "NPU"),
        "mlu-exporter": ("others", "MLU"),
        "mx-exporter": ("others", "MX"),
        "ix-exporter": ("others", "IX"),
        "xpumd": ("others", "XPUMD"),
    }
)


def peer(name: str) -> Peer:
    """The table of that other exporter. Raises KeyError where there is none."""
    module, place = PLACES[name]
    found: Peer = getattr(import_module(f"{__name__}.{module}"), place)
    return found
