"""This node's readings under the names of other exporters: where the table of each is, which is loaded when its page is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # not needed for the names alone
    from telemetry_exporters.prometheus.compat.table import Peer

# Where the table of each is: the module in this folder, and its name there.
PLACES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "dcgm-exporter": ("dcgm", "DCGM"),
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


# Exporters whose releases differ in their names: the versions that have a table, the usual one first.
VERSIONS: Mapping[str, tuple[str, ...]] = MappingProxyType({"dcgm-exporter": ("4.8", "4.9")})


def peer(name: str, version: str = "") -> Peer:
    """Return the table of that exporter, by default the usual version. Raises KeyError if the name or version is unknown."""
    module, place = PLACES[name]
    known = VERSIONS.get(name, ())
    if version and version not in known:
        raise KeyError(version)
    if version and version != known[0]:
        place = f"{place}_{version.replace('.', '_')}"
    found: Peer = getattr(import_module(f"{__name__}.{module}"), place)
    return found


def version_problem(name: str, version: str) -> str:
    """Return why this version of an exporter's names cannot be served; empty if it can."""
    known = VERSIONS.get(name, ())
    if not version or version in known:
        return ""
    return f"the versions of {name} are {', '.join(known)}" if known else f"{name} has one version: leave it out"
