"""Hygon's hy-smi: its polls and its differences from AMD's rocm-smi, whose name it also has; keys and headings are in `rocm/`."""

from __future__ import annotations

from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.frame import parser_of
from telemetry_parsers.rocm.tool import GIVES as OF_BOTH
from telemetry_parsers.rocm.tool import Brand, is_amds, tool_of

TOOL = "hy-smi"
# In DTK it is installed under AMD's name.
_OTHER_NAME = "rocm-smi"
_NOT_GIVEN = ("energy_joules_total", "pcie_replays_total", "power_instant_watts", "memory_activity_ratio")
GIVES = (
    *(key for key in OF_BOTH if key not in _NOT_GIVEN),
    "ecc_enabled",
    "ecc_corrected_total",
    "ecc_uncorrected_total",
)
_FOLDERS = (
    "/opt/hyhal/bin",
    "/usr/local/hyhal/bin",
    "/opt/dtk/.hyhal/bin",
    "/opt/dtk/bin",
    "/opt/dtk*/.hyhal/bin",
    "/opt/dtk*/bin",
)
# As rocm-smi, of whose library Hygon's is a copy: it locks each card against all other processes, and a run that is
# killed leaves its lock behind to jobs. Whether the copy heeds the variable is not known, so no run is killed either.
_ENVIRONMENT = (("RSMI_MUTEX_THREAD_ONLY", "1"),)
_CORE = (
    "--showid",
    "--showproductname",
    "--showuniqueid",
    "--showserial",
    "--showbus",
    "--showtemp",
    "--showpower",
    "--showuse",
)
# None of these measures for a time of its own, as -b and --showhcuutil do.
_USUAL = (*_CORE, "--showmaxpower", "--showmeminfo", "vram", "--showclocks", "--showperflevel")
_READINGS = (*_USUAL, "--showmemavailable")
# AMD's tool of that name does not know the last flag and says so before it wakes any card; it is asked nothing more.
_LINES = ((*_READINGS, "--json"), (*_USUAL, "--json"), (*_CORE, "--json"), ())


def _ask(*lines: tuple[str, ...]) -> Command:
    """The tool with these command lines, the next one where a version does not know a flag."""
    return Command(alternatives=lines, env=_ENVIRONMENT, on_deadline="abandon", folders=_FOLDERS)


_TOOL = tool_of(
    Brand(
        name=TOOL,
        vendor="hygon",
        # The vendor's manual: the temperature of the core, without HBM.
        plain_sensor="core",
        is_other=is_amds,
        other="AMD's rocm-smi",
        silent="no output: check that hydcu or hycu is loaded and that /dev/kfd and /dev/mkfd can be opened",
        gives=GIVES,
    )
)

PARSER = parser_of(
    _TOOL,
    Poll(
        name="readings",
        request=_ask(
            *((name, *arguments) for name in (TOOL, _OTHER_NAME) for arguments in _LINES),
        ),
    ),
    # Not by the other name: AMD's tool knows these flags, and wakes the cards of a node without any of Hygon's.
    Poll(
        name="processes",
        request=_ask((TOOL, "--showpids")),
        tier="slow",
        interval=60.0,
        lists_devices=False,
    ),
    Poll(
        name="driver",
        request=_ask((TOOL, "--showdriverversion")),
        tier="inventory",
        interval=300.0,
        lists_devices=False,
    ),
    also=GIVES,
)
