"""The reader `nvml`, which also tells what its process has imported."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from telemetry_daemon.readers.nvml.reader import NvmlReader

if TYPE_CHECKING:
    from telemetry_parsers.library import CallError
    from telemetry_parsers.model import Plain


class TellingReader(NvmlReader):
    def read(self, calls: Sequence[str]) -> Mapping[str, Plain | CallError]:
        return {"modules": list(sys.modules)} if calls == ("modules",) else super().read(calls)


READER = TellingReader()
