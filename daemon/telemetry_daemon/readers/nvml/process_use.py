"""How busy each process keeps a GPU: what the driver has sampled since the poll before."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.binding import Refused
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.asker import Asker
from telemetry_daemon.readers.nvml.library import Nvml

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

CALL = "nvmlDeviceGetProcessUtilization"
# That there is no sample; pynvml says success for a driver that has no room for one.
_NO_SAMPLES = frozenset({0, codes.NOT_FOUND})
_MOST = 1 << 16


class ProcessUse:
    """Asks for the samples that are newer than the last one, whose time stamp it keeps."""

    def __init__(self, nvml: Nvml, clock: Callable[[], float] = time.time) -> None:
        self._nvml = nvml
        self._clock = clock
        self._newest = 0

    def read(self, asker: Asker) -> Plain:
        """The pid and the percent of each process that did something since the poll before; None if nothing was sampled yet."""
        return asker.own(CALL, partial(self._samples, asker.handle))

    def _samples(self, handle: Any) -> list[Plain] | Refused | None:
        if self._newest > self._clock() * 1e6:  # somebody set the clock back: everything would be older
            self._newest = 0
        since = self._newest
        found: Any = self._nvml.call(CALL, handle, since)
        if isinstance(found, Refused) and found.code not in _NO_SAMPLES:
            return found
        samples = [] if isinstance(found, Refused) else sorted(found[:_MOST], key=lambda sample: int(sample.timeStamp))
        self._newest = max([since, *(int(sample.timeStamp) for sample in samples[-1:])])
        # The first answer has whatever the driver still holds, of processes that ended long ago, too.
        percents: dict[int, int] = {int(one.pid): int(one.smUtil) for one in samples if int(one.timeStamp) > since}
        return [[pid, percent] for pid, percent in percents.items()] if since else None
