"""Whether a GPU has joined its NVLink fabric, in the newest form of the question that wheel and driver both know."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.binding import Refused
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.library import Nvml

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

_VERSION_2 = 0x02000024


def read(nvml: Nvml, asker: Asker) -> Plain:
    """State, status, clique and cluster; {"error": …} where there is no fabric to join."""
    return asker.own("GpuFabricInfo", lambda: _ask(nvml, asker.handle))


def _ask(nvml: Nvml, handle: Any) -> Plain | Refused:
    structure = getattr(nvml.module, "c_nvmlGpuFabricInfo_v2_t", None)
    if structure is None:  # a wheel before 12.550
        return Refused(codes.NOT_SUPPORTED)
    info = structure()
    info.version = _VERSION_2
    given = nvml.call("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
    if isinstance(given, Refused):
        return given
    return {
        "state": int(info.state),
        "status": int(info.status),
        "clique": int(info.cliqueId),
        "cluster": bytes(info.clusterUuid).hex(),
    }
