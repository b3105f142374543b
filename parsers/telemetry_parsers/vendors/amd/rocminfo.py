"""Parses rocminfo of ROCm and DTK: the accelerators of the HSA runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Absent, Command, Device, Output, Poll, Problem, Report, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric, parsed
from telemetry_parsers.reports.tool import Shape, Tool, ToolText, report_no_devices
from telemetry_parsers.reports.tool_parser import parser_of
from telemetry_parsers.text.answers import CUT_LINE, ErrorText, failed, not_understood
from telemetry_parsers.text.echoes import without_prefix
from telemetry_parsers.text.lines import Line, quote

_SYSTEM_KEYS = frozenset(
    {
        "runtime version", "runtime ext version", "system timestamp freq.", "sig. max wait duration", "machine model",
        "system endianness", "mwaitx", "xnack enabled", "dmabuf support", "vmm support",
    }
)  # fmt: skip
_AGENT_KEYS = frozenset(
    {
        "name", "uuid", "marketing name", "vendor name", "feature", "profile", "float round mode", "max queue number",
        "queue min size", "queue max size", "queue type", "node", "device type", "chip id", "asic revision",
        "cacheline size", "max clock freq. (mhz)", "bdfid", "internal node id", "compute unit", "simds per cu",
        "shader engines", "shader arrs. per eng.", "watchpts on addr. ranges", "coherent host access",
        "memory properties", "features", "fast f16 operation", "wavefront size", "workgroup max size",
        "workgroup max size per dimension", "max waves per cu", "max work-item per cu", "grid max size",
        "grid max size per dimension", "max fbarriers/workgrp", "packet processor ucode", "sdma engine ucode",
        "iommu support", "l1", "l2", "l3", "l4",
        # Keys of ROCm 1 to 3.
        "max clock frequency (mhz)", "waves per cu", "max number of fbarriers per workgroup",
    }
)  # fmt: skip
_POOL_KEYS = frozenset(
    {
        "segment", "size", "allocatable", "alloc granule", "alloc recommended granule", "alloc alignment",
        "accessible by all", "acessible by all",
    }
)  # fmt: skip
_ISA_KEYS = frozenset(
    {
        "name", "machine models", "profiles", "default rounding mode", "fast f16", "workgroup max size",
        "workgroup max size per dimension", "grid max size", "grid max size per dimension", "fbarrier max size",
        "workgroup max dimension", "grid max dimension",
    }
)  # fmt: skip
# Maps headings to the blocks below them. The block "" is the agent itself, which continues below `Cache Info`.
_BLOCKS_BY_HEADING: Mapping[str, str] = {"cache info": "", "pool info": "pool", "isa info": "isa"}
_KEYS_BY_BLOCK = {"system": _SYSTEM_KEYS, "": _AGENT_KEYS, "pool": _POOL_KEYS, "isa": _ISA_KEYS}
_ALL_KEYS: frozenset[str] = frozenset().union(*_KEYS_BY_BLOCK.values())
# Hygon's runtime calls the cards DCU. Hygon's tools call the cards HCU since DTK 25.04.
_ACCELERATOR_TYPES = frozenset({"GPU", "DCU", "HCU"})
_HYGON_TYPES = frozenset({"DCU", "HCU"})
# Agents that are not cards: processors, signal processors and the AI engines of Ryzen.
_OTHER_TYPES = frozenset({"CPU", "DSP", "AIE"})
_HYGON_NAMES = ("hygon", "haiguang", "c-3000")

_AGENT = re.compile(r"Agent ([0-9]{1,5})\Z")
_NUMBERED_HEADING = re.compile(r"(?:Pool|ISA) [0-9]{1,4}\Z")
_KEY = re.compile(r"([A-Za-z][^:]{0,60}):{1,2}[ \t]{0,80}(.{0,400})\Z")
_DIMENSION = re.compile(r"(?:[xyz]|Dim\[[0-9]\]:)[ \t]{1,60}[0-9]")
# Lines that may precede the agents: the command, and messages about the machine and the user.
_NOTICE = re.compile(
    r"WSL environment detected\.?|\S{1,60} is (?:a )?member of \S{1,40} group"
    r"|Failed to get user name to check for \S{1,40} group membership|(?:.{0,100}[#$%>] ?)?(?:\S{0,80}/)?rocminfo(?: --support)?"
)
_MODULE = re.compile(
    r"(?:(?P<name>ROCk|hygon)[ \t]{1,4}module)(?:[ \t]version[ \t](?P<version>\S{1,40}))?[ \t]is[ \t](?P<no>NOT[ \t])?loaded",
    re.IGNORECASE,
)
_HEADINGS = frozenset({"HSA System Attributes", "HSA Agents"})
_END_LINE = "*** Done ***"
_RULE_CHARACTERS = frozenset("*=")


@dataclass(frozen=True, slots=True)
class PrintedValue:
    """A printed value and its line."""

    text: str
    line: Line


@dataclass(slots=True)
class Agent:
    """An agent, such as a CPU or GPU, with its own values and its memory pools."""

    line: Line
    values: dict[str, PrintedValue] = field(default_factory=dict)
    pools: list[dict[str, PrintedValue]] = field(default_factory=list)

    def text(self, key: str) -> str:
        """Return the value of a key, or an empty string if it is not printed."""
        return self.values[key].text if key in self.values else ""


@dataclass(frozen=True, slots=True)
class KernelModule:
    """The state of the driver's kernel module, and the line that prints the state."""

    line: Line
    is_loaded: bool
    is_hygon: bool
    version: str | None


@dataclass(slots=True)
class _Listing:
    """The content of one output, which is complete if its closing line was found."""

    system: dict[str, PrintedValue] = field(default_factory=dict)
    agents: list[Agent] = field(default_factory=list)
    module: KernelModule | None = None
    has_heading: bool = False
    is_complete: bool = False
    unknown: dict[str, None] = field(default_factory=dict)
    unread_lines: list[Line] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def _read_listing(lines: Sequence[Line]) -> _Listing:
    parser = _ListingParser()
    for line in lines:
        parser.read_line(line)
    return parser.listing


class _ListingParser:
    def __init__(self) -> None:
        self.listing = _Listing()
        self._block = "system"

    def read_line(self, line: Line) -> None:
        # Lines copied from a document may end with a backslash.
        text = line.text.strip().rstrip("\\").rstrip()
        if not line.ended:
            self.listing.problems.append(Problem(line.where, CUT_LINE))
        elif text == _END_LINE:
            self.listing.is_complete = True
        elif (
            not text
            or _RULE_CHARACTERS.issuperset(text)
            or _DIMENSION.match(text)
            or text == "N/A"
            or _NOTICE.fullmatch(text)
        ):
            return
        elif text in _HEADINGS:
            self.listing.has_heading = True
        elif not (self._read_heading(line, text) or self._read_module(line, text)):
            self._read_key(line, text)

    def _read_heading(self, line: Line, text: str) -> bool:
        if _AGENT.match(text):
            self.listing.agents.append(Agent(line))
            self._block = ""
            return True
        if _NUMBERED_HEADING.match(text) is None:
            return False
        if text.startswith("Pool") and self.listing.agents:
            self._block = "pool"
            self.listing.agents[-1].pools.append({})
        elif self.listing.agents:
            self._block = "isa"
        return True

    def _read_module(self, line: Line, text: str) -> bool:
        match = _MODULE.search(text)
        if match is None:
            return False
        is_hygon = match["name"].lower() == "hygon"
        self.listing.module = KernelModule(line, match["no"] is None, is_hygon, match["version"])
        return True

    def _read_key(self, line: Line, text: str) -> None:
        match = _KEY.match(text)
        key = " ".join(match[1].lower().split()) if match else ""
        if match is None or (not self.listing.has_heading and not self.listing.agents and key not in _ALL_KEYS):
            self.listing.unread_lines.append(line)
        elif key in _BLOCKS_BY_HEADING and not match[2]:
            self._block = _BLOCKS_BY_HEADING[key]
        else:
            self._store_value(key, PrintedValue(match[2].strip(), line))

    def _store_value(self, key: str, value: PrintedValue) -> None:
        if key not in _KEYS_BY_BLOCK[self._block]:
            if _starts_error_message(key):
                self.listing.unread_lines.append(value.line)
            else:
                self.listing.unknown[f"{self._block}/{key}".removeprefix("/")] = None
            return
        destination = self._current_values()
        if destination is not None:
            destination.setdefault(key, value)

    def _current_values(self) -> dict[str, PrintedValue] | None:
        """Return the current block's values, or None if the block is not read."""
        agents = self.listing.agents
        if self._block == "system":
            return self.listing.system
        if self._block == "pool" and agents and agents[-1].pools:
            return agents[-1].pools[-1]
        return agents[-1].values if agents and self._block == "" else None


def _starts_error_message(key: str) -> bool:
    """Return whether a key is the start of an error message, such as `Error: …`."""
    return key.startswith(("error", "warning", "failed", "hsa api", "call returned", "libkmod", "unable", "traceback"))


def pool_flags(pool: Mapping[str, PrintedValue]) -> frozenset[str]:
    """Return the flags of a global memory pool, such as `KERNARG`. Return no flags for other pools."""
    segment, _, flags_text = pool["segment"].text.partition(";") if "segment" in pool else ("", "", "")
    if segment.strip().upper() != "GLOBAL":
        return frozenset()
    return frozenset(" ".join(flag.split()) for flag in flags_text.upper().partition("FLAGS:")[2].split(","))


TOOL = "rocminfo"
_JOIN_GROUPS = "add the user to the groups render and video, or give the container /dev/kfd and /dev/dri"
_ERRORS = (
    ErrorText("/dev/kfd read-write: permission denied", "failed", "no_permission", _JOIN_GROUPS),
    ErrorText("/dev/kfd read-write: operation not permitted", "failed", "no_permission", _JOIN_GROUPS),
    ErrorText("is not member of", "failed", "no_permission", _JOIN_GROUPS),
    ErrorText("not a member of", "failed", "no_permission", _JOIN_GROUPS),
    ErrorText(
        "unable to open /dev/kfd", "failed", "driver_gone", "load the amdgpu module (Hygon: hycu) and see dmesg; "
        "a container needs /dev/kfd"
    ),
    ErrorText("module is not loaded", "failed", "driver_gone", "load the amdgpu module (Hygon: hycu)"),
    ErrorText("module is not live", "failed", "driver_gone", "the amdgpu module has not come up: see dmesg"),
    ErrorText(
        "/sys/class/kfd", "failed", "driver_gone", "load the amdgpu module (Hygon: hycu); save the output of rocminfo"
    ),
    ErrorText(
        "hsa_status_error_out_of_resources", "failed", "exit_status", "the user usually may not open /dev/kfd: " + _JOIN_GROUPS
    ),
    ErrorText("call returned hsa_status", "failed", "exit_status", "see the driver's messages in dmesg"),
    ErrorText("hsa api call failure at line", "failed", "exit_status", "see the driver's messages in dmesg"),
    ErrorText("possibly no supported gpu", "failed", "driver_gone", "check that the card is one that ROCm supports"),
    ErrorText("rocminfo: no such file or directory", "failed", "exit_status", "install the tool or give its path"),
)  # fmt: skip
_BYTES = re.compile(r"([0-9]{1,24})[ \t]{0,4}(?:\((0x[0-9A-Fa-f]{1,16})\))?[ \t]{0,4}([A-Za-z]{0,4})\Z")
_GFX_VERSION = re.compile(r"gfx[0-9a-f]{2,8}\Z")
_CHIP_ID = re.compile(r"[0-9]{1,10}\((0x[0-9A-Fa-f]{1,8})\)\Z")
# Parts of lines below the first agent. Without an agent, the text is only an extract, such as the result of grep.
_EXTRACT = re.compile(r"amdgcn-|\bgfx[0-9]|Marketing Name:|Uuid:[ \t]")


def _read_agents(text: ToolText, draft: Draft) -> bool:
    """Add the accelerators among the agents. Return False if there are no agents."""
    listing = _read_listing(text.lines)
    if not listing.agents:
        return False
    draft.is_cut = not listing.is_complete
    if draft.is_cut:
        last_line = quote(text.lines[-1].text)
        problem = f"the text ends before '*** Done ***'; more agents may be missing: {last_line}"
        draft.add_problem(listing.agents[-1].line.where, problem)
    draft.problems += listing.problems
    index = 0
    for agent in listing.agents:
        index += _add_agent(agent, index, listing, draft)
    for line in listing.unread_lines:
        draft.add_problem(line.where, not_understood(line.text))
    draft.add_unknown(*listing.unknown)
    draft.tool_version = listing.system["runtime version"].text if "runtime version" in listing.system else None
    return True


def _add_agent(agent: Agent, index: int, listing: _Listing, draft: Draft) -> int:
    """Add an accelerator. Return how many indices the agent takes: 1 for an accelerator, else 0."""
    device_type = agent.text("device type").upper()
    if device_type in _OTHER_TYPES:
        return 0
    if device_type in _ACCELERATOR_TYPES:
        _store_values(agent, draft.device(agent.line.number, _create_device(agent, index, listing)), draft)
        return 1
    text = f"unknown device type {quote(device_type)}" if device_type else "the agent has no device type and is ignored"
    draft.add_problem(agent.line.where, text)
    return int(_GFX_VERSION.match(agent.text("name")) is not None or agent.text("uuid").startswith("GPU-"))


def _store_values(agent: Agent, device: int, draft: Draft) -> None:
    clock = agent.values.get("max clock freq. (mhz)") or agent.values.get("max clock frequency (mhz)")
    pool = next((pool for pool in agent.pools if "COARSE GRAINED" in pool_flags(pool)), {})
    for target, value in (
        (_COMPUTE_UNITS, agent.values.get("compute unit")),
        (_CLOCK, clock),
        (_MEMORY, pool.get("size")),
    ):
        if value is None:
            draft.set_value(device, target, Absent.NOT_REPORTED)
        else:
            draft.store(device, (target,), value.text, value.line.where)
    address = agent.text("bdfid")
    if units.integer(address) != 0 and address and _bus_id(address) is None:
        draft.add_problem(agent.values["bdfid"].line.where, f'BDFID: "{quote(address)}" is not a bus address')


def _parse_size(text: str, _unit: str) -> Value:
    """Return a size such as `16760832(0xffc000) KB` in bytes, or an `Absent` value."""
    match = _BYTES.match(text)
    if match is None or (match[2] is not None and int(match[1]) != int(match[2], 16)):
        return units.placeholder(text) or Absent.NOT_UNDERSTOOD
    return units.quantity(f"{match[1]} {match[3]}", units.BYTES)


def _bus_id(text: str) -> str | None:
    """Return the bus, device and function in a BDFID, or None if it is 0 or invalid."""
    location = units.integer(text)
    if location is None or not 0 < location <= 0xFFFF:
        return None
    return f"{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _create_device(agent: Agent, index: int, listing: _Listing) -> Device:
    module = listing.module
    uuid = agent.text("uuid")
    facts = {
        "gfx_version": agent.text("name") if _GFX_VERSION.match(agent.text("name")) else "",
        "kfd_node": agent.text("node"),
        "chip_id": match[1] if (match := _CHIP_ID.match(agent.text("chip id"))) else "",
        "asic_revision": agent.text("asic revision").partition("(")[0],
    }
    return Device(
        vendor=_find_vendor(agent, listing),
        index=index,
        model=units.text_or_none(agent.text("marketing name")),
        uuid=None if uuid.upper().endswith("-XX") else units.text_or_none(uuid),
        bus_id=_bus_id(agent.text("bdfid")),
        driver=module.version if module is not None and module.is_loaded else None,
        facts=tuple((name, text) for name, text in facts.items() if units.text_or_none(text) is not None),
    )


def _find_vendor(agent: Agent, listing: _Listing) -> str:
    name = agent.text("vendor name").lower()
    if agent.text("device type").upper() in _HYGON_TYPES or any(word in name for word in _HYGON_NAMES):
        return "hygon"
    is_amd = "amd" in name.split() or "advanced micro" in name
    return "hygon" if not is_amd and listing.module is not None and listing.module.is_hygon else "amd"


def _report_missing_agents(_output: Output, lines: Sequence[Line]) -> Report | None:
    """Return a failure if the output ends before its first agent, or None for any other text."""
    listings = [_read_listing(variant) for variant in (lines, without_prefix(lines))]
    if not any(listing.has_heading or listing.module is not None for listing in listings):
        return None
    return failed("not_understood", lines[-1].where, "the output ends before the list of agents")


def _report_on_extract(_output: Output, lines: Sequence[Line]) -> Report | None:
    """Return a report on an extract of the output, for example the result of grep."""
    extract_line = next((line for line in lines if _EXTRACT.search(line.text)), None)
    if extract_line is None:
        return None
    text = f"this is an extract ({quote(extract_line.text)}); save the whole output of {TOOL}"
    return Report("wrong_request", problems=(Problem(extract_line.where, text),))


_COMPUTE_UNITS = metric("compute_units")
_CLOCK = metric("clock_max_hertz", "graphics", unit="MHz")
_MEMORY = parsed("memory_total_bytes", _parse_size)
_TOOL = Tool(
    name=TOOL,
    vendor="amd",
    shapes=(Shape(_read_agents, if_empty=report_no_devices, tables=((_COMPUTE_UNITS, _CLOCK, _MEMORY),)),),
    no_output="no output",
    errors=_ERRORS,
    checks_marks_first=False,
    late_fallbacks=(_report_missing_agents, _report_on_extract),
)
PARSER = parser_of(
    _TOOL,
    Poll(
        name="agents",
        request=Command(((TOOL,),), folders=("/opt/rocm/bin", "/opt/dtk/bin", "/opt/hyhal/bin", "/usr/bin")),
        tier="inventory",
        interval=300.0,
        # The tool opens /dev/kfd, which wakes every card.
        wakes=True,
    ),
)
