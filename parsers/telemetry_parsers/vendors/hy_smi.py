"""Hygon's hy-smi: its polls and its differences from AMD's rocm-smi, whose name it also has; keys and headings are in `rocm/`."""

from __future__ import annotations

from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.frame import parser_of
from telemetry_parsers.rocm.tool import GIVES as OF_BOTH
from telemetry_parsers.rocm.tool import PRIVATE_LOCKS, Brand, is_from_rocm_smi, tool_of

TOOL = "hy-smi"
# DTK installs the tool under AMD's name.
_OTHER_NAME = "rocm-smi"
_NOT_GIVEN = ("energy_joules_total", "pcie_replays_total", "power_instant_watts", "memory_activity_ratio")
GIVES = tuple(key for key in OF_BOTH if key not in _NOT_GIVEN)
_FOLDERS = (
    "/opt/hyhal/bin",
    "/usr/local/hyhal/bin",
    "/opt/dtk/.hyhal/bin",
    "/opt/dtk/bin",
    "/opt/dtk*/.hyhal/bin",
    "/opt/dtk*/bin",
)
_CORE = "--showid --showproductname --showuniqueid --showserial --showbus --showtemp --showpower --showuse"
# None of these flags measures for a time of its own, as -b and --showhcuutil do.
_USUAL = f"{_CORE} --showmaxpower --showmeminfo vram --showclocks --showperflevel"
# AMD's tool of that name rejects --showmemavailable before it wakes any card. Then it is not run again.
_LINES = (f"{_USUAL} --showmemavailable --json", f"{_USUAL} --json", f"{_CORE} --json", "")


def _ask(*lines: str) -> Command:
    """Return the command with these command lines. The next one is used if a version does not support a flag."""
    # Whether Hygon's copy of the library heeds the variable is unknown, so that no run is killed.
    alternatives = tuple(tuple(line.split()) for line in lines)
    return Command(alternatives, env=PRIVATE_LOCKS, on_deadline="abandon", folders=_FOLDERS)


_TOOL = tool_of(
    Brand(
        name=TOOL,
        vendor="hygon",
        # The vendor's manual: the temperature of the core, without HBM.
        plain_sensor="core",
        is_other=is_from_rocm_smi,
        other="AMD's rocm-smi",
        silent="no output: check that hydcu or hycu is loaded and that /dev/kfd and /dev/mkfd can be opened",
        gives=GIVES,
    )
)
_ASK_READINGS = _ask(*(f"{name} {line}" for name in (TOOL, _OTHER_NAME) for line in _LINES))
PARSER = parser_of(
    _TOOL,
    Poll("readings", _ASK_READINGS),
    # Not by the other name: AMD's tool knows these flags, and wakes the cards of a node without any of Hygon's.
    Poll("processes", _ask(f"{TOOL} --showpids"), "slow", 60.0, lists_devices=False),
    Poll("driver", _ask(f"{TOOL} --showdriverversion"), "inventory", 300.0, lists_devices=False),
    also=GIVES,
)
