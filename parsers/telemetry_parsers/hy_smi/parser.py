"""Hygon's hy-smi: what to ask it, and how to tell it from AMD's rocm-smi, whose name it also bears."""

from __future__ import annotations

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Poll, Report
from telemetry_parsers.rocm import cards, shapes
from telemetry_parsers.rocm.origin import is_amds

TOOL = "hy-smi"
# In DTK it is installed under AMD's name.
_OTHER_NAME = "rocm-smi"
GIVES = tuple(
    key for key in cards.GIVES if key not in ("energy_joules_total", "pcie_replays_total", "power_instant_watts")
)
_FOLDERS = ("/opt/hyhal/bin", "/usr/local/hyhal/bin", "/opt/dtk/bin", "/opt/dtk/.hyhal/bin", "/opt/rocm/bin")
_FIRST = (
    "--showid",
    "--showproductname",
    "--showuniqueid",
    "--showserial",
    "--showbus",
    "--showtemp",
    "--showpower",
    "--showuse",
)
_READINGS = (*_FIRST, "--showmaxpower", "--showmeminfo", "vram", "--showclocks", "--showperflevel")


def parse(capture: Capture) -> Report:
    """What hy-smi said: devices and readings, or the reason why there are none."""
    return shapes.parse(capture, _TOOL)


_TOOL = shapes.Tool(
    name=TOOL,
    vendor="hygon",
    # The vendor's manual: the temperature of the core, without HBM.
    plain_sensor="core",
    is_other=is_amds,
    other="AMD's rocm-smi",
    silent="no output: check that hydcu or hycu is loaded and that /dev/kfd and /dev/mkfd can be opened",
    gives=GIVES,
)

PARSER = SourceParser(
    name=TOOL,
    vendor="hygon",
    gives=GIVES,
    polls=(
        Poll(
            name="readings",
            request=Command(
                alternatives=tuple(
                    (name, *arguments)
                    for name in (TOOL, _OTHER_NAME)
                    for arguments in ((*_READINGS, "--json"), (*_FIRST, "--json"), ())
                ),
                folders=_FOLDERS,
            ),
        ),
        Poll(
            name="processes",
            request=Command(
                alternatives=((TOOL, "--showpids"), (_OTHER_NAME, "--showpids")),
                folders=_FOLDERS,
            ),
            tier="slow",
            interval=60.0,
            lists_devices=False,
        ),
        Poll(
            name="driver",
            request=Command(
                alternatives=((TOOL, "--showdriverversion"), (_OTHER_NAME, "--showdriverversion")),
                folders=_FOLDERS,
            ),
            tier="inventory",
            interval=300.0,
            lists_devices=False,
        ),
    ),
    parse=parse,
)
