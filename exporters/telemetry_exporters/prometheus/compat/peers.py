"""The other exporters by name; a table is loaded when somebody asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever needs the names alone does without
    from telemetry_exporters.prometheus.compat.table import Peer

# Where the table of each is: the module beside this one, and its name there.
PLACES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "dcgm-exporter": ("nvidia", "DCGM"),
        "nvidia_gpu_exporter": ("nvidia", "NVIDIA_GPU"),
        "nvitop-exporter": ("nvidia", "NVITOP"),
        "device-metrics-exporter": ("amd", "DEVICE_METRICS"),
        "omnistat": ("amd", "OMNISTAT"),
        "dcu-exporter": ("hygon", "DCU"),
        "hcu-exporter": ("hygon", "HCU"),
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
    found: Peer = getattr(import_module(f"{__package__}.{module}"), place)
    return found
