"""AMD's rocm-smi since ROCm 1.6: its polls, and its differences from Hygon's tool."""

from __future__ import annotations

from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.rocm.tool import GIVES as COMMON_METRICS
from telemetry_parsers.rocm.tool import PRIVATE_LOCKS_ENV, ToolVariant, is_from_hy_smi, tool_of

TOOL = "rocm-smi"
GIVES = (
    *(metric for metric in COMMON_METRICS if metric != "memory_free_bytes"),
    "retired_pages",
    "retired_pages_pending",
    "throttled",
    "pcie_errors_total",
    "pcie_bandwidth_bytes_per_second",
    "memory_gtt_used_bytes",
    "memory_gtt_total_bytes",
    "voltage_volts",
    "fan_rpm",
)
_FOLDERS = ("/opt/rocm/bin", "/usr/bin", "/usr/local/bin")
_CORE = "--showbus --showuniqueid --showproductname --showtemp --showpower --showuse"
# `-b` is omitted, because it samples over an interval.
_USUAL = f"{_CORE} --showmaxpower --showmemuse --showmeminfo vram gtt --showclocks --showfan --showperflevel"
_ALL_READINGS = f"{_USUAL} --showenergycounter"
_PROCESSES = "--showbus --showpids --showpidgpus"
_FACTS = "--showbus --showuniqueid --showserial --showid --showvbios --showdriverversion --showreplaycount"


def _command(*flag_alternatives: str) -> Command:
    lines = tuple((TOOL, *flags.split()) for flags in flag_alternatives)
    return Command(lines, env=PRIVATE_LOCKS_ENV, folders=_FOLDERS)


_TOOL = tool_of(
    ToolVariant(
        name=TOOL,
        vendor="amd",
        default_sensor="edge",
        is_from_other_tool=is_from_hy_smi,
        other_tool="Hygon's hy-smi",
        no_output="no output: rocm-smi prints only on stderr if the amdgpu driver is not loaded",
        gives=GIVES,
    )
)
# `-a` prints everything, but takes seconds.
_READINGS_COMMAND = _command(f"{_ALL_READINGS} --json", f"{_USUAL} --json", f"{_CORE} --json", "-a --json", "")
# Only the text output contains processes per card, errors per RAS block, and retired pages.
_PROCESSES_COMMAND = _command(f"{_PROCESSES} --showrasinfo --showpagesinfo", _PROCESSES, "--showpids")
_FACTS_COMMAND = _command(f"{_FACTS} --json", "--showbus --showuniqueid --json", "--showid --json")
# Versions before 6.0 do not print the version of the tool.
_VERSION_COMMAND = _command("--version", "--showdriverversion --json")
PARSER = parser_of(
    _TOOL,
    Poll("readings", _READINGS_COMMAND, wakes=True),
    Poll("processes", _PROCESSES_COMMAND, "slow", 60.0, lists_devices=False, wakes=True),
    Poll("facts", _FACTS_COMMAND, "inventory", 300.0, lists_devices=False, wakes=True),
    Poll("version", _VERSION_COMMAND, "inventory", 300.0, lists_devices=False, wakes=True),
    more_metrics=GIVES,
)
