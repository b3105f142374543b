"""Metrics pages that use the names of other exporters."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # at run time, most importers need only the names of the exporters
    from telemetry_exporters.prometheus.compat.table import ExporterTable

# Maps each exporter to its table: (module in this package, constant).
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
# The versions of exporters that renamed metrics, by exporter; the default version is first.
VERSIONS: Mapping[str, tuple[str, ...]] = MappingProxyType({"dcgm-exporter": ("4.8", "4.9")})


def load_table(name: str, version: str = "") -> ExporterTable:
    """Return the table of an exporter. Raise KeyError if the name or version is unknown."""
    module, table_name = EXPORTERS[name]
    versions = VERSIONS.get(name, ())
    if version and version not in versions:
        raise KeyError(version)
    if version and version != versions[0]:
        table_name = f"{table_name}_{version.replace('.', '_')}"
    table: ExporterTable = getattr(import_module(f"{__name__}.{module}"), table_name)
    return table


def version_problem(name: str, version: str) -> str:
    """Return the reason why there is no page for this version of an exporter, or an empty string."""
    versions = VERSIONS.get(name, ())
    if not version or version in versions:
        return ""
    return f"the versions of {name} are {', '.join(versions)}" if versions else f"{name} has only one version"
