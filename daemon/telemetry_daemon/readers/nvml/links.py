"""NVLink: state, traffic and errors of each link, in batches of their own, and whether the GPU has joined its fabric."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.binding import Refused, error_in, is_answered
from telemetry_daemon.readers.nvml import codes, fields
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.calls import link_errors, link_state
from telemetry_daemon.readers.nvml.fields import Field
from telemetry_daemon.readers.nvml.library import Nvml

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# More than any GPU has.
_MOST_LINKS = 72
# The counters of nvmlDeviceGetNvLinkErrorCounter that are asked where the fields are not known.
_COUNTERS: Mapping[str, int] = {"replay": 0, "recovery": 1, "crc": 2}
_NAMES = tuple(name for name, _ in fields.LINK)
_VERSION_2 = 0x02000024


@cache
def _fields_of_each(count: int) -> tuple[Field, ...]:
    """The fields of all links, one link after another; those of all GPUs with so many links."""
    return tuple(Field(f"{name}.{link}", number, link) for link in range(count) for name, number in fields.LINK)


class Links:
    """The links of one GPU; how many there are is asked once."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._count: Plain = None

    def read(self) -> Plain:
        """`each`: link number and what it told; `together`: traffic of all, where no link tells its own."""
        count = self._count if self._count is not None else self._counted()
        if isinstance(count, int) or error_in(count) in codes.FIELD_SWITCHES_OFF:
            self._count = count
        if not isinstance(count, int):
            return count
        each = self._each(count)
        traffic = [link[name] for link in each.values() for name in fields.TRAFFIC]
        apart = any(map(is_answered, traffic)) or not each
        return {"each": each, "together": {} if apart else self._together()}

    def _counted(self) -> Plain:
        """How many there are, up to the first that does not exist; an error that says nothing of that is the answer."""
        count = self._asker.fields((fields.LINK_COUNT,))[fields.LINK_COUNT.name]
        if is_answered(count):
            return min(int(count), _MOST_LINKS)
        if error_in(count) not in (None, *codes.FIELD_SWITCHES_OFF):
            return count
        for link in range(_MOST_LINKS):
            _, state = self._asker.answer(link_state(link))
            if error_in(state) is not None:
                return state if link == 0 or error_in(state) not in codes.FIELD_SWITCHES_OFF else link
        return _MOST_LINKS

    def _each(self, count: int) -> dict[str, dict[str, Plain]]:
        batch = _fields_of_each(count)
        found = self._asker.fields(batch)
        # Answers in the order of the batch: as many for each link as there are names.
        answers = (found[field.name] for field in batch)
        return {
            str(link): self._completed(link, dict(zip(_NAMES, islice(answers, len(_NAMES)), strict=True)))
            for link in range(count)
        }

    def _completed(self, link: int, told: dict[str, Plain]) -> dict[str, Plain]:
        """With the older calls in place of fields that this driver does not know."""
        if error_in(told["state"]) is not None:
            _, told["state"] = self._asker.answer(link_state(link))
        for name, counter in _COUNTERS.items():
            if error_in(told[name]) is not None:
                _, told[name] = self._asker.answer(link_errors(link, counter))
        return told

    def _together(self) -> dict[str, Plain]:
        numbers = dict(fields.LINK)
        batch = [Field(name, numbers[name], fields.ALL_LINKS) for name in fields.LINKS_TOGETHER]
        return self._asker.fields(batch)


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
