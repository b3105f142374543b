"""rocminfo: from its agents to devices, or the reason why there are none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Command, Device, Output, Poll, Problem, Report
from telemetry_parsers.model import Value as Number
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.parser import parser_of
from telemetry_parsers.reports.targets import metric, special
from telemetry_parsers.reports.tool import Shape, Text, Tool, must_be_whole
from telemetry_parsers.text.answers import ErrorText, failed
from telemetry_parsers.text.complaints import not_understood
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.text.prefixes import without_prefix
from telemetry_parsers.vendors.amd import VENDOR
from telemetry_parsers.vendors.amd.rocminfo.agents import Agent, Listing, flags, read_listing
from telemetry_parsers.vendors.amd.rocminfo.keys import ACCELERATORS, HYGON_NAMES, HYGON_TYPES, NO_CARDS

TOOL = "rocminfo"
_GROUPS = "add the user to the groups render and video, or give the container /dev/kfd and /dev/dri"
_ERRORS = (
    ErrorText("/dev/kfd read-write: permission denied", "failed", "no_permission", _GROUPS),
    ErrorText("/dev/kfd read-write: operation not permitted", "failed", "no_permission", _GROUPS),
    ErrorText("is not member of", "failed", "no_permission", _GROUPS),
    ErrorText("not a member of", "failed", "no_permission", _GROUPS),
    ErrorText(
        "unable to open /dev/kfd", "failed", "driver_gone", "load the module amdgpu (Hygon: hycu), see dmesg; in a "
        "container give it /dev/kfd"
    ),
    ErrorText("module is not loaded", "failed", "driver_gone", "load the module amdgpu (Hygon: hycu)"),
    ErrorText("module is not live", "failed", "driver_gone", "the module amdgpu has not come up: see dmesg"),
    ErrorText(
        "/sys/class/kfd", "failed", "driver_gone", "load the module amdgpu (Hygon: hycu); save the output of rocminfo"
    ),
    ErrorText(
        "hsa_status_error_out_of_resources", "failed", "exit_status", "usually no right to open /dev/kfd: " + _GROUPS
    ),
    ErrorText("call returned hsa_status", "failed", "exit_status", "see dmesg for what the driver says"),
    ErrorText("hsa api call failure at line", "failed", "exit_status", "see dmesg for what the driver says"),
    ErrorText("possibly no supported gpu", "failed", "driver_gone", "check that the card is one that ROCm supports"),
    ErrorText("rocminfo: no such file or directory", "failed", "exit_status", "install the tool or give its path"),
)  # fmt: skip
_BYTES = re.compile(r"([0-9]{1,24})[ \t]{0,4}(?:\((0x[0-9A-Fa-f]{1,16})\))?[ \t]{0,4}([A-Za-z]{0,4})\Z")
_TARGET = re.compile(r"gfx[0-9a-f]{2,8}\Z")
_CHIP = re.compile(r"[0-9]{1,10}\((0x[0-9A-Fa-f]{1,8})\)\Z")
# What is left of the output where somebody searched it for a word.
_EXTRACT = re.compile(r"amdgcn-|\bgfx[0-9]|Marketing Name:|Uuid:[ \t]")


def _read(text: Text, draft: Draft) -> bool:
    """Put the accelerators among the agents into the draft, numbered in their order; False where there is no agent."""
    listing = read_listing(text.lines)
    if not listing.agents:
        return False
    draft.is_cut = not listing.done
    if draft.is_cut:
        last = quote(text.lines[-1].text)
        why = f"the text stops before '*** Done ***'; further agents may be missing: {last}"
        draft.complain(listing.agents[-1].line.where, why)
    draft.problems += listing.problems
    index = 0
    for agent in listing.agents:
        index += _take(agent, index, listing, draft)
    for line in listing.unread:
        draft.complain(line.where, not_understood(line.text))
    draft.name_unknown(*listing.unknown)
    draft.tool_version = listing.system["runtime version"].text if "runtime version" in listing.system else None
    return True


def _take(agent: Agent, index: int, listing: Listing, draft: Draft) -> int:
    """Add the agent if it is an accelerator; how many places it takes in the count of them."""
    kind = agent.text("device type").upper()
    if kind in NO_CARDS:
        return 0
    if kind in ACCELERATORS:
        _take_values(agent, draft.device(agent.line.number, _device(agent, index, listing)), draft)
        return 1
    text = f"unknown device type {quote(kind)}" if kind else "the agent has no device type, so it is left out"
    draft.complain(agent.line.where, text)
    return int(_TARGET.match(agent.text("name")) is not None or agent.text("uuid").startswith("GPU-"))


def _take_values(agent: Agent, device: int, draft: Draft) -> None:
    clock = agent.values.get("max clock freq. (mhz)") or agent.values.get("max clock frequency (mhz)")
    pool = next((pool for pool in agent.pools if "COARSE GRAINED" in flags(pool)), {})
    for target, value in (
        (_COMPUTE_UNITS, agent.values.get("compute unit")),
        (_CLOCK, clock),
        (_MEMORY, pool.get("size")),
    ):
        if value is None:
            draft.give(device, target, Absent.NOT_REPORTED)
        else:
            draft.take(device, (target,), value.text, value.line.where)
    address = agent.text("bdfid")
    if units.whole(address) != 0 and address and _bus_id(address) is None:
        draft.complain(agent.values["bdfid"].line.where, f'BDFID: "{quote(address)}" is no bus address')


def _size(text: str, _unit: str) -> Number:
    """A size such as `16760832(0xffc000) KB`; where its two spellings differ, neither is believed."""
    match = _BYTES.match(text)
    if match is None or (match[2] is not None and int(match[1]) != int(match[2], 16)):
        return units.placeholder(text) or Absent.NOT_UNDERSTOOD
    return units.quantity(f"{match[1]} {match[3]}", units.BYTES)


def _bus_id(text: str) -> str | None:
    """Bus, device and function of a BDFID; it has no domain, and 0 is an integrated device without an address."""
    location = units.whole(text)
    if location is None or not 0 < location <= 0xFFFF:
        return None
    return f"{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _device(agent: Agent, index: int, listing: Listing) -> Device:
    module = listing.module
    uuid = agent.text("uuid")
    facts = {
        "gfx_version": agent.text("name") if _TARGET.match(agent.text("name")) else "",
        "kfd_node": agent.text("node"),
        "chip_id": match[1] if (match := _CHIP.match(agent.text("chip id"))) else "",
        "asic_revision": agent.text("asic revision").partition("(")[0],
    }
    return Device(
        vendor=_vendor(agent, listing),
        index=index,
        model=units.text_or_none(agent.text("marketing name")),
        uuid=None if uuid.upper().endswith("-XX") else units.text_or_none(uuid),
        bus_id=_bus_id(agent.text("bdfid")),
        driver=module.version if module is not None and module.loaded else None,
        facts=tuple((name, text) for name, text in facts.items() if units.text_or_none(text) is not None),
    )


def _vendor(agent: Agent, listing: Listing) -> str:
    """Whose card it is: rocminfo is AMD's, Hygon's runtime brings a copy of it."""
    name = agent.text("vendor name").lower()
    if agent.text("device type").upper() in HYGON_TYPES or any(word in name for word in HYGON_NAMES):
        return "hygon"
    told_amd = "amd" in name.split() or "advanced micro" in name
    return "hygon" if not told_amd and listing.module is not None and listing.module.hygon else VENDOR.word


def _before_agents(_output: Output, found: Sequence[Line]) -> Report | None:
    """An output that was cut off before its first agent."""
    listings = [read_listing(lines) for lines in (found, without_prefix(found))]
    if not any(listing.headed or listing.module is not None for listing in listings):
        return None
    return failed("not_understood", found[-1].where, "the output is cut off before its agents")


def _extract(_output: Output, lines: Sequence[Line]) -> Report | None:
    """What is left of an output that somebody searched for a word."""
    extract = next((line for line in lines if _EXTRACT.search(line.text)), None)
    if extract is None:
        return None
    text = f"this is an extract ({quote(extract.text)}); save the whole output of {TOOL}"
    return Report("wrong_request", problems=(Problem(extract.where, text),))


_COMPUTE_UNITS = metric("compute_units")
_CLOCK = metric("clock_max_hertz", "graphics", unit="MHz")
_MEMORY = special("memory_total_bytes", _size)
_TOOL = Tool(
    name=TOOL,
    vendor=VENDOR.word,
    shapes=(Shape(_read, empty=must_be_whole, tables=((_COMPUTE_UNITS, _CLOCK, _MEMORY),)),),
    silent="no output",
    errors=_ERRORS,
    marks_first=False,
    remnants=(_before_agents, _extract),
)
PARSER = parser_of(
    _TOOL,
    Poll(
        name="agents",
        request=Command(((TOOL,),), folders=("/opt/rocm/bin", "/opt/dtk/bin", "/opt/hyhal/bin", "/usr/bin")),
        tier="inventory",
        interval=300.0,
        # It opens /dev/kfd, which wakes every card.
        wakes=True,
    ),
)
