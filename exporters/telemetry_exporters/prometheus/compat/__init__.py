"""Pages with this node's readings under the names of other exporters. A table is loaded when its page is requested."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # not needed for the names alone
    from telemetry_exporters.prometheus.compat.table import Peer

# The table of each exporter: the module in this folder, and its name there.
EXPORTERS: Mapping[str, tuple[str, str]] = MappingProxyType(
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


# The versions with a table of exporters whose releases differ in their names, the default first.
VERSIONS: Mapping[str, tuple[str, ...]] = MappingProxyType({"dcgm-exporter": ("4.8", "4.9")})


def peer(name: str, version: str = "") -> Peer:
    """Return the table of that exporter, by default of its first version. Raises KeyError if the name or version is unknown."""
    module, table_name = EXPORTERS[name]
    versions = VERSIONS.get(name, ())
    if version and version not in versions:
        raise KeyError(version)
    if version and version != versions[0]:
        table_name = f"{table_name}_{version.replace('.', '_')}"
    table: Peer = getattr(import_module(f"{__name__}.{module}"), table_name)
    return table


def version_problem(name: str, version: str) -> str:
    """Return why this version of an exporter's names cannot be served; empty if it can."""
    versions = VERSIONS.get(name, ())
    if not version or version in versions:
        return ""
    return f"the versions of {name} are {', '.join(versions)}" if versions else f"{name} has one version: leave it out"
