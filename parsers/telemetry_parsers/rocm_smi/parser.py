"""AMD's rocm-smi: what to ask it, and how to tell it from Hygon's tool of the same name."""

from __future__ import annotations

from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Command, Poll, Report
from telemetry_parsers.rocm import cards, shapes
from telemetry_parsers.rocm.listing import Listing
from telemetry_parsers.rocm.origin import is_hygons

TOOL = "rocm-smi"
_FOLDERS = ("/opt/rocm/bin", "/usr/bin", "/usr/local/bin")
# Without it the library takes locks in /dev/shm that a killed run leaves behind, to the harm of jobs that use the
# library, too (rocm_smi_lib#88).
_ENVIRONMENT = (("RSMI_MUTEX_THREAD_ONLY", "1"),)
# What ROCm 4 to 7 know; -a of older versions has it all, if slowly.
_FIRST = ("--showbus", "--showuniqueid", "--showproductname", "--showtemp", "--showpower", "--showuse")
_READINGS = (
    *_FIRST,
    "--showmaxpower",
    "--showmemuse",
    "--showmeminfo",
    "vram",
    "--showclocks",
    "--showfan",
    "--showperflevel",
)
_FACTS = (
    "--showbus",
    "--showuniqueid",
    "--showserial",
    "--showid",
    "--showvbios",
    "--showdriverversion",
    "--showreplaycount",
)


def parse(capture: Capture) -> Report:
    """What rocm-smi said: devices and readings, or the reason why there are none."""
    return shapes.parse(capture, _TOOL)


def _is_other(text: str, listing: Listing | None) -> bool:
    return is_hygons(text, listing)


_TOOL = shapes.Tool(
    name=TOOL,
    vendor="amd",
    plain_sensor="edge",
    is_other=_is_other,
    other="Hygon's hy-smi",
    silent="no output: rocm-smi prints nothing when the driver amdgpu is not loaded, and tells so on stderr only",
)

PARSER = SourceParser(
    name=TOOL,
    vendor="amd",
    gives=tuple(
        key for key in cards.GIVES if key not in ("engine_utilization_ratio", "memory_free_bytes", "processes")
    ),
    polls=(
        Poll(
            name="readings",
            request=Command(
                alternatives=((TOOL, *_READINGS, "--json"), (TOOL, *_FIRST, "--json"), (TOOL, "-a", "--json"), (TOOL,)),
                env=_ENVIRONMENT,
                folders=_FOLDERS,
            ),
            wakes=True,
        ),
        Poll(
            name="facts",
            request=Command(
                alternatives=((TOOL, *_FACTS, "--json"), (TOOL, "--showbus", "--showuniqueid", "--json")),
                env=_ENVIRONMENT,
                folders=_FOLDERS,
            ),
            tier="inventory",
            interval=300.0,
            lists_devices=False,
            wakes=True,
        ),
    ),
    parse=parse,
)
