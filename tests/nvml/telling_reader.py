"""The reader `nvml`, which also tells what its process has imported, and how many functions of Python a fast poll calls."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from telemetry_daemon.readers.nvml.reader import NvmlReader

if TYPE_CHECKING:
    from telemetry_parsers.library import CallError
    from telemetry_parsers.model import Plain


class TellingReader(NvmlReader):
    def read(self, calls: Sequence[str]) -> Mapping[str, Plain | CallError]:
        if calls == ("modules",):
            return {"modules": list(sys.modules)}
        return {"functions": self._functions()} if calls == ("functions",) else super().read(calls)

    def _functions(self) -> int:
        called = 0

        def count(_frame: Any, event: str, _argument: Any) -> None:
            nonlocal called
            called += event == "call"

        sys.setprofile(count)
        try:
            super().read(("fast",))
        finally:
            sys.setprofile(None)
        return called


READER = TellingReader()
