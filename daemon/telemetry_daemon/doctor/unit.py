"""What systemd says of the unit that runs the daemon."""

from __future__ import annotations

import grp
import os
import pwd
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from telemetry_daemon.processes import short_lived
from telemetry_daemon.readers.tool_path import Whereabouts

UNIT = "telemetry.service"
PROPERTIES = (
    *("LoadState", "ActiveState", "SubState", "Result", "ExecMainStatus", "NRestarts", "UnitFileState", "User"),
    "SupplementaryGroups",
    "AmbientCapabilities",
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

    @property
    def exit_status(self) -> str:
        """How its daemon ended last."""
        return self.properties.get("ExecMainStatus", "")

    @property
    def is_in_a_loop(self) -> bool:
        """Whether its daemon failed and is about to be started again."""
        is_restarted = self.properties.get("SubState", "").startswith("auto-restart")
        return is_restarted and self.properties.get("Result") != "success"

    @property
    def sees_all_processes(self) -> bool:
        """Whether no /proc hides anything from its daemon."""
        return self.user == "root" or "cap_sys_ptrace" in self.properties.get("AmbientCapabilities", "").split()

    @property
    def groups(self) -> frozenset[int]:
        """The groups of its user and those that it adds, as far as they are known here."""
        numbers: set[int] = set()
        for name in self.properties.get("SupplementaryGroups", "").split():
            with suppress(KeyError):  # one that is made when the unit starts
                numbers.add(int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid)
        with suppress(KeyError):  # a user that is made when the unit starts
            numbers |= set(os.getgrouplist(self.user, pwd.getpwnam(self.user).pw_gid))
        return frozenset(numbers)

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
