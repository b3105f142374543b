"""Hygon's hy-smi: its polls, and its differences from AMD's rocm-smi."""

from __future__ import annotations

from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.rocm.tool import GIVES as COMMON_METRICS
from telemetry_parsers.rocm.tool import PRIVATE_LOCKS_ENV, ToolVariant, is_from_rocm_smi, tool_of

TOOL = "hy-smi"
# DTK, Hygon's toolkit, may install the tool under the name of AMD's tool.
_ALTERNATIVE_NAME = "rocm-smi"
_METRICS_NOT_PRINTED = ("energy_joules_total", "pcie_replays_total", "power_instant_watts", "memory_activity_ratio")
GIVES = tuple(key for key in COMMON_METRICS if key not in _METRICS_NOT_PRINTED)
_FOLDERS = (
    "/opt/hyhal/bin",
    "/usr/local/hyhal/bin",
    "/opt/dtk/.hyhal/bin",
    "/opt/dtk/bin",
    "/opt/dtk*/.hyhal/bin",
    "/opt/dtk*/bin",
)
_CORE = "--showid --showproductname --showuniqueid --showserial --showbus --showtemp --showpower --showuse"
# `-b` and `--showhcuutil` are omitted, because they sample over an interval.
_USUAL = f"{_CORE} --showmaxpower --showmeminfo vram --showclocks --showperflevel"
# If `rocm-smi` is AMD's tool, it rejects `--showmemavailable` before it wakes a card, and is not called again.
_READING_FLAGS = (f"{_USUAL} --showmemavailable --json", f"{_USUAL} --json", f"{_CORE} --json", "")


def _command(*command_lines: str) -> Command:
    # The tool is never killed, because it would leave a lock behind if Hygon's library ignores PRIVATE_LOCKS_ENV.
    alternatives = tuple(tuple(line.split()) for line in command_lines)
    return Command(alternatives, env=PRIVATE_LOCKS_ENV, on_deadline="abandon", folders=_FOLDERS)


_TOOL = tool_of(
    ToolVariant(
        name=TOOL,
        vendor="hygon",
        # According to the vendor's manual, a temperature without a sensor's name is that of the core, not of HBM.
        default_sensor="core",
        is_from_other_tool=is_from_rocm_smi,
        other_tool="AMD's rocm-smi",
        no_output="no output: check that hydcu or hycu is loaded and that /dev/kfd and /dev/mkfd can be opened",
        gives=GIVES,
    )
)
_READINGS_COMMAND = _command(*(f"{name} {flags}" for name in (TOOL, _ALTERNATIVE_NAME) for flags in _READING_FLAGS))
PARSER = parser_of(
    _TOOL,
    Poll("readings", _READINGS_COMMAND),
    # `rocm-smi` is not tried, because it may be AMD's tool, which would wake AMD's cards.
    Poll("processes", _command(f"{TOOL} --showpids"), "slow", 60.0, lists_devices=False),
    Poll("driver", _command(f"{TOOL} --showdriverversion"), "inventory", 300.0, lists_devices=False),
    more_metrics=GIVES,
)
