"""What systemd says of the unit that runs the daemon."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from telemetry_daemon.processes import short_lived
from telemetry_daemon.readers.tool_path import Whereabouts

UNIT = "telemetry.service"
PROPERTIES = (
    *("LoadState", "ActiveState", "SubState", "Result", "ExecMainStatus", "NRestarts", "UnitFileState", "User"),
    *("MemoryMax", "TasksMax", "LimitNOFILE", "CPUQuotaPerSecUSec"),
)
_SECONDS = 5.0
_UNITS: Mapping[str, float] = {"min": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)(min|s|ms|us)\b")


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit's properties by name, as `systemctl show` prints them."""

    properties: Mapping[str, str]

    @property
    def active(self) -> str:
        """`active`, `failed` and so on."""
        return self.properties.get("ActiveState", "")

    @property
    def is_enabled(self) -> bool:
        """Whether it is started at boot."""
        return self.properties.get("UnitFileState") in ("enabled", "enabled-runtime")

    @property
    def user(self) -> str:
        """Who runs the daemon."""
        return self.properties.get("User") or "root"

    def number(self, name: str) -> int | None:
        """A limit of the unit; None where there is none."""
        text = self.properties.get(name, "")
        return int(text) if text.isdecimal() and int(text) < 1 << 60 else None

    @property
    def cpus(self) -> float | None:
        """How many processors its quota (CPUQuota=) gives it; None where there is none. systemd prints `1min 2s 50ms`."""
        parts = _SPAN.findall(self.properties.get("CPUQuotaPerSecUSec", ""))
        return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else None


def unit() -> Unit | None:
    """The unit as systemd has it; None without systemd, or without the unit."""
    printed = ask_system("systemctl", "show", UNIT, f"--property={','.join(PROPERTIES)}")
    properties = dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)
    return Unit(properties) if properties.get("LoadState") == "loaded" else None


def ask_system(program: str, *arguments: str) -> str:
    """What a program of the system prints; empty where it is not there, fails or does not end in time."""
    found = Whereabouts(program, "", os.environ.get("PATH", ""), ()).find(program)
    if found is None or found.distrusted:
        return ""
    try:
        ended = short_lived.ask((found.path, *arguments), "", _SECONDS)
    except short_lived.NoAnswerError:  # what it would have told is not known, then
        return ""
    return ended.output if ended.status == 0 else ""
