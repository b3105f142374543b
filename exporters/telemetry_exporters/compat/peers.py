"""The other exporters by name; a table is loaded when somebody asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # whoever needs the names alone does without
    from telemetry_exporters.compat.peer import Peer

# The module of each, beside this one.
MODULES: Mapping[str, str] = MappingProxyType(
    {
        "dcgm-exporter": "dcgm_exporter",
        "nvidia_gpu_exporter": "nvidia_gpu_exporter",
        "nvitop-exporter": "nvitop_exporter",
        "device-metrics-exporter": "device_metrics_exporter",
        "omnistat": "omnistat",
        "dcu-exporter": "dcu_exporter",
        "hcu-exporter": "hcu_exporter",
        "npu-exporter": "npu_exporter",
        "mlu-exporter": "mlu_exporter",
        "mx-exporter": "mx_exporter",
        "ix-exporter": "ix_exporter",
        "xpumd": "xpumd",
    }
)


def peer(name: str) -> Peer:
    """The table of that other exporter. Raises KeyError where there is none."""
    module = import_module(f"{__package__}.{MODULES[name]}")
    found: Peer = module.PEER
    return found
