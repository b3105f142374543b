"""Reads the NVLink links and the state of the fabric."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache

from telemetry_daemon.readers.binding import FailedCall, error_code, is_value
from telemetry_daemon.readers.nvml import codes, fields
from telemetry_daemon.readers.nvml.calls import link_errors, link_state
from telemetry_daemon.readers.nvml.device_caller import DeviceCaller
from telemetry_daemon.readers.nvml.fields import Field
from telemetry_daemon.readers.nvml.library import Nvml
from telemetry_parsers.typing_names import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

_MAX_LINKS = 72
# nvmlDeviceGetNvLinkErrorCounter is called if the fields are not supported.
_ERROR_COUNTERS: Mapping[str, int] = {"replay": 0, "recovery": 1, "crc": 2}
_LINK_FIELD_NAMES = tuple(name for name, _ in fields.LINK_FIELDS)
_FABRIC_INFO_V2 = 0x02000024


@cache
def _link_fields(count: int) -> tuple[Field, ...]:
    return tuple(Field(f"{name}.{link}", number, link) for link in range(count) for name, number in fields.LINK_FIELDS)


class Links:
    """Reads the links of one GPU."""

    def __init__(self, caller: DeviceCaller) -> None:
        self._caller = caller
        self._count: Plain = None

    def read(self) -> Plain:
        """Return the values by link. If no link reports its traffic, add the sums over all links."""
        count = self._count if self._count is not None else self._read_link_count()
        if isinstance(count, int) or error_code(count) in codes.FIELD_DISABLING_ERRORS:
            self._count = count
        if not isinstance(count, int):
            return count
        links = self._read_by_link(count)
        traffic = [link[name] for link in links.values() for name in fields.TRAFFIC_NAMES]
        has_traffic_by_link = any(map(is_value, traffic)) or not links
        return {"each": links, "together": {} if has_traffic_by_link else self._read_sums()}

    def _read_link_count(self) -> Plain:
        count = self._caller.field_results((fields.LINK_COUNT,))[fields.LINK_COUNT.name]
        if is_value(count):
            return min(int(count), _MAX_LINKS)
        if error_code(count) not in (None, *codes.FIELD_DISABLING_ERRORS):
            return count
        for link in range(_MAX_LINKS):
            _, state = self._caller.keyed_result(link_state(link))
            if error_code(state) is not None:
                return state if link == 0 or error_code(state) not in codes.FIELD_DISABLING_ERRORS else link
        return _MAX_LINKS

    def _read_by_link(self, count: int) -> dict[str, dict[str, Plain]]:
        results = self._caller.field_results(_link_fields(count))
        return {
            str(link): self._with_fallbacks(link, {name: results[f"{name}.{link}"] for name in _LINK_FIELD_NAMES})
            for link in range(count)
        }

    def _with_fallbacks(self, link: int, results: dict[str, Plain]) -> dict[str, Plain]:
        """Replace unsupported fields with the results of deprecated calls."""
        if error_code(results["state"]) is not None:
            _, results["state"] = self._caller.keyed_result(link_state(link))
        for name, counter in _ERROR_COUNTERS.items():
            if error_code(results[name]) is not None:
                _, results[name] = self._caller.keyed_result(link_errors(link, counter))
        return results

    def _read_sums(self) -> dict[str, Plain]:
        numbers = dict(fields.LINK_FIELDS)
        batch = [Field(name, numbers[name], fields.ALL_LINKS) for name in fields.SUM_NAMES]
        return self._caller.field_results(batch)


def read_fabric(nvml: Nvml, caller: DeviceCaller) -> Plain:
    """Return the fabric's state, status, clique and cluster, or an error."""
    return caller.guarded_call("GpuFabricInfo", lambda: _fabric_info(nvml, caller.handle))


def _fabric_info(nvml: Nvml, handle: Any) -> Plain | FailedCall:
    structure = getattr(nvml.module, "c_nvmlGpuFabricInfo_v2_t", None)
    if structure is None:  # pynvml before 12.550 lacks this structure
        return FailedCall(codes.NOT_SUPPORTED)
    info = structure()
    info.version = _FABRIC_INFO_V2
    result = nvml.call("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
    if isinstance(result, FailedCall):
        return result
    return {
        "state": int(info.state),
        "status": int(info.status),
        "clique": int(info.cliqueId),
        "cluster": bytes(info.clusterUuid).hex(),
    }
