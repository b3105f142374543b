"""AMD's rocm-smi since ROCm 1.6: its polls and its differences from Hygon's tool of that name; keys and headings are in `rocm/`."""

from __future__ import annotations

from telemetry_parsers.model import Command, Poll
from telemetry_parsers.reports.frame import parser_of
from telemetry_parsers.rocm.tool import GIVES as OF_BOTH
from telemetry_parsers.rocm.tool import Brand, is_hygons, tool_of

TOOL = "rocm-smi"
GIVES = (
    *(metric for metric in OF_BOTH if metric != "memory_free_bytes"),
    "ecc_enabled",
    "ecc_corrected_total",
    "ecc_uncorrected_total",
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
# Without it the library locks each card in /dev/shm against all other processes. A run that has to be killed leaves its
# lock behind, and jobs that use the library, as RCCL does, wait 5 s for it and fail (rocm_smi_lib#88). We only read
# files, for which no lock is needed; so a run may be killed at its deadline.
_ENVIRONMENT = (("RSMI_MUTEX_THREAD_ONLY", "1"),)
_CORE = ("--showbus", "--showuniqueid", "--showproductname", "--showtemp", "--showpower", "--showuse")
# None of these measures for a time of its own, as -b does; all are known since ROCm 3 …
_USUAL = (
    *_CORE,
    "--showmaxpower",
    "--showmemuse",
    "--showmeminfo",
    "vram",
    "gtt",
    "--showclocks",
    "--showfan",
    "--showperflevel",
)
# … but this one since 4.1.
_READINGS = (*_USUAL, "--showenergycounter")
_FACTS = (
    "--showbus",
    "--showuniqueid",
    "--showserial",
    "--showid",
    "--showvbios",
    "--showdriverversion",
    "--showreplaycount",
)


def _ask(*alternatives: tuple[str, ...]) -> Command:
    """The tool with these arguments, or the next ones where a version does not know them."""
    lines = tuple((TOOL, *arguments) for arguments in alternatives)
    return Command(alternatives=lines, env=_ENVIRONMENT, folders=_FOLDERS)


_TOOL = tool_of(
    Brand(
        name=TOOL,
        vendor="amd",
        plain_sensor="edge",
        is_other=is_hygons,
        other="Hygon's hy-smi",
        silent="no output: rocm-smi prints nothing when the driver amdgpu is not loaded, and tells so on stderr only",
        gives=GIVES,
    )
)

PARSER = parser_of(
    _TOOL,
    # -a has it all but takes seconds; the table is for versions before JSON.
    Poll(
        name="readings",
        request=_ask((*_READINGS, "--json"), (*_USUAL, "--json"), (*_CORE, "--json"), ("-a", "--json"), ()),
        wakes=True,
    ),
    # Only the text has which process uses which card, errors by block and retired pages.
    Poll(
        name="processes",
        request=_ask(
            ("--showbus", "--showpids", "--showpidgpus", "--showrasinfo", "--showpagesinfo"),
            ("--showbus", "--showpids", "--showpidgpus"),
            ("--showpids",),
        ),
        tier="slow",
        interval=60.0,
        lists_devices=False,
        wakes=True,
    ),
    Poll(
        name="facts",
        request=_ask((*_FACTS, "--json"), ("--showbus", "--showuniqueid", "--json"), ("--showid", "--json")),
        tier="inventory",
        interval=300.0,
        lists_devices=False,
        wakes=True,
    ),
    # Versions before 6.0 do not print theirs.
    Poll(
        name="version",
        request=_ask(("--version",), ("--showdriverversion", "--json")),
        tier="inventory",
        interval=300.0,
        lists_devices=False,
        wakes=True,
    ),
    also=GIVES,
)
