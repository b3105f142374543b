"""Reads NVLink: the state, traffic and errors of each link, and the state of the fabric."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.binding import Refused, error_in, is_value
from telemetry_daemon.readers.nvml import codes, fields
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.calls import link_errors, link_state
from telemetry_daemon.readers.nvml.fields import Field
from telemetry_daemon.readers.nvml.library import Nvml

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# More links than any GPU has.
_MAX_LINKS = 72
# The counters of nvmlDeviceGetNvLinkErrorCounter, which are read if the fields are not supported.
_COUNTERS: Mapping[str, int] = {"replay": 0, "recovery": 1, "crc": 2}
_NAMES = tuple(name for name, _ in fields.LINK)
_VERSION_2 = 0x02000024


@cache
def _link_fields(count: int) -> tuple[Field, ...]:
    """Return the fields of all links. Cached, because GPUs usually have the same number of links."""
    return tuple(Field(f"{name}.{link}", number, link) for link in range(count) for name, number in fields.LINK)


class Links:
    """Reads the links of one GPU. Their number is read once."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._count: Plain = None

    def read(self) -> Plain:
        """Return `each`, the values by link, and `together`, the sum of the traffic for drivers that do not report it by link."""
        count = self._count if self._count is not None else self._link_count()
        if isinstance(count, int) or error_in(count) in codes.FIELD_SWITCHES_OFF:
            self._count = count
        if not isinstance(count, int):
            return count
        links = self._read_by_link(count)
        traffic = [link[name] for link in links.values() for name in fields.TRAFFIC]
        has_traffic_by_link = any(map(is_value, traffic)) or not links
        return {"each": links, "together": {} if has_traffic_by_link else self._read_sums()}

    def _link_count(self) -> Plain:
        count = self._asker.fields((fields.LINK_COUNT,))[fields.LINK_COUNT.name]
        if is_value(count):
            return min(int(count), _MAX_LINKS)
        if error_in(count) not in (None, *codes.FIELD_SWITCHES_OFF):
            return count
        for link in range(_MAX_LINKS):
            _, state = self._asker.answer(link_state(link))
            if error_in(state) is not None:
                return state if link == 0 or error_in(state) not in codes.FIELD_SWITCHES_OFF else link
        return _MAX_LINKS

    def _read_by_link(self, count: int) -> dict[str, dict[str, Plain]]:
        batch = _link_fields(count)
        found = self._asker.fields(batch)
        # The answers are in the order of the batch: all names of the first link, then of the second.
        answers = (found[field.name] for field in batch)
        return {
            str(link): self._with_older_calls(link, dict(zip(_NAMES, islice(answers, len(_NAMES)), strict=True)))
            for link in range(count)
        }

    def _with_older_calls(self, link: int, answers: dict[str, Plain]) -> dict[str, Plain]:
        """Return the values. Older calls replace fields that the driver does not support."""
        if error_in(answers["state"]) is not None:
            _, answers["state"] = self._asker.answer(link_state(link))
        for name, counter in _COUNTERS.items():
            if error_in(answers[name]) is not None:
                _, answers[name] = self._asker.answer(link_errors(link, counter))
        return answers

    def _read_sums(self) -> dict[str, Plain]:
        numbers = dict(fields.LINK)
        batch = [Field(name, numbers[name], fields.ALL_LINKS) for name in fields.LINKS_TOGETHER]
        return self._asker.fields(batch)


def read(nvml: Nvml, asker: Asker) -> Plain:
    """Return the state, status, clique and cluster of the fabric, or {"error": …} without a fabric."""
    return asker.custom("GpuFabricInfo", lambda: _fabric_info(nvml, asker.handle))


def _fabric_info(nvml: Nvml, handle: Any) -> Plain | Refused:
    structure = getattr(nvml.module, "c_nvmlGpuFabricInfo_v2_t", None)
    if structure is None:  # pynvml before 12.550
        return Refused(codes.NOT_SUPPORTED)
    info = structure()
    info.version = _VERSION_2
    result = nvml.call("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
    if isinstance(result, Refused):
        return result
    return {
        "state": int(info.state),
        "status": int(info.status),
        "clique": int(info.cliqueId),
        "cluster": bytes(info.clusterUuid).hex(),
    }
