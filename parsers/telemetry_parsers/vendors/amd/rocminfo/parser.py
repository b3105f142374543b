"""rocminfo: from its agents to devices, or the reason why there are none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from telemetry_parsers import units
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import (
    Absent,
    Capture,
    Command,
    Device,
    Output,
    Poll,
    Problem,
    Reading,
    Report,
)
from telemetry_parsers.model import Value as Number
from telemetry_parsers.text.answers import ErrorText, capped, failed, failed_midway
from telemetry_parsers.text.lines import Line, lines, quote
from telemetry_parsers.text.outputs import (
    report_on,
    report_on_error,
    report_on_silence,
    report_on_unknown,
    too_long,
    with_complaints,
)
from telemetry_parsers.text.prefixes import without_prefix
from telemetry_parsers.vendors.amd.rocminfo.agents import Agent, Listing, flags, read_listing
from telemetry_parsers.vendors.amd.rocminfo.keys import ACCELERATORS, HYGON_NAMES, HYGON_TYPES, NO_CARDS

TOOL = "rocminfo"
VENDOR = "amd"
INDEX_SPACE = "rocminfo"
_MOST_DEVICES = 1024
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
_SIZE = re.compile(r"([0-9]{1,24})[ \t]{0,4}(?:\((0x[0-9A-Fa-f]{1,16})\))?[ \t]{0,4}([A-Za-z]{0,4})\Z")
_TARGET = re.compile(r"gfx[0-9a-f]{2,8}\Z")
_CHIP = re.compile(r"[0-9]{1,10}\((0x[0-9A-Fa-f]{1,8})\)\Z")
# What is left of the output where somebody searched it for a word.
_EXTRACT = re.compile(r"amdgcn-|\bgfx[0-9]|Marketing Name:|Uuid:[ \t]")


def parse(capture: Capture) -> Report:
    """What rocminfo said: devices with memory and compute units, or the reason why there are none."""
    return report_on(capture, _one, "no output")


def _one(output: Output) -> Report:
    refusal = too_long(output, TOOL)
    if refusal is not None:
        return refusal
    stderr = lines(output.stderr, "stderr")
    found, listing = _listing(output.text)
    if not listing.agents:
        return _without_agents(output, listing, [*found, *stderr])
    if len(listing.agents) > _MOST_DEVICES:
        return failed("not_understood", "text", f"{len(listing.agents)} agents, as {TOOL} never prints")
    report = _Cards(listing, found[-1]).report()
    if output.status and not listing.done:
        return failed_midway(report, output.status)
    return with_complaints(report, output)


def _listing(text: str) -> tuple[list[Line], Listing]:
    """The lines and what they list; where a launcher put a word before each line, without it."""
    found = lines(text)
    listing = read_listing(found)
    if listing.agents:
        return found, listing
    bare = without_prefix(found)
    unwrapped = read_listing(bare)
    return (bare, unwrapped) if unwrapped.agents or unwrapped.module else (found, listing)


@dataclass(slots=True)
class _Cards:
    """The report in the making."""

    listing: Listing
    last: Line
    devices: list[Device] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def report(self) -> Report:
        """The accelerators among the agents, numbered in their order."""
        listing = self.listing
        self.problems += listing.problems
        index = 0
        for agent in listing.agents:
            index += self._take(agent, index)
        self.problems += [Problem(line.where, f"not understood: {quote(line.text)}") for line in listing.unread]
        if not listing.done:
            text = f"the text stops before '*** Done ***'; further agents may be missing: {quote(self.last.text)}"
            self.problems.insert(0, Problem(listing.agents[-1].line.where, text))
        version = listing.system["runtime version"].text if "runtime version" in listing.system else None
        return Report(
            outcome="ok" if self.devices else "no_devices",
            devices=tuple(self.devices),
            readings=tuple(self.readings),
            problems=capped(self.problems),
            unknown_fields=tuple(listing.unknown)[:_MOST_DEVICES],
            facts=(("tool_version", version),) if version else (),
            index_space=INDEX_SPACE,
            is_cut=not listing.done,
        )

    def _take(self, agent: Agent, index: int) -> int:
        """Add the agent if it is an accelerator; how many places it takes in the count of them."""
        kind = agent.text("device type").upper()
        if kind in NO_CARDS:
            return 0
        if kind in ACCELERATORS:
            self._read(agent)
            self.devices.append(_device(agent, index, self.listing))
            return 1
        where = agent.line.where
        text = f"unknown device type {quote(kind)}" if kind else "the agent has no device type, so it is left out"
        self.problems.append(Problem(where, text))
        return int(_TARGET.match(agent.text("name")) is not None or agent.text("uuid").startswith("GPU-"))

    def _read(self, agent: Agent) -> None:
        clock = agent.values.get("max clock freq. (mhz)") or agent.values.get("max clock frequency (mhz)")
        pool = next((pool for pool in agent.pools if "COARSE GRAINED" in flags(pool)), {})
        for key, label, value, number in (
            ("compute_units", "", agent.values.get("compute unit"), _count),
            ("clock_max_hertz", "graphics", clock, _megahertz),
            ("memory_total_bytes", "", pool.get("size"), _bytes),
        ):
            found = Absent.NOT_REPORTED if value is None else number(value.text)
            item = reading(len(self.devices), key, found, label)
            if value is not None and item.value in (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE):
                self.problems.append(Problem(value.line.where, f'{key}: "{quote(value.text)}" is {item.value.value}'))
            self.readings.append(item)
        address = agent.text("bdfid")
        if units.whole(address) != 0 and address and _bus_id(address) is None:
            where = agent.values["bdfid"].line.where
            self.problems.append(Problem(where, f'BDFID: "{quote(address)}" is no bus address'))


def _count(text: str) -> Number:
    return units.number(text)


def _megahertz(text: str) -> Number:
    return units.quantity(text, units.HERTZ, "MHz")


def _bytes(text: str) -> Number:
    """A size such as `16760832(0xffc000) KB`; where its two spellings differ, neither is believed."""
    match = _SIZE.match(text)
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
        model=_known(agent.text("marketing name")),
        uuid=None if uuid.upper().endswith("-XX") else _known(uuid),
        bus_id=_bus_id(agent.text("bdfid")),
        driver=module.version if module is not None and module.loaded else None,
        facts=tuple((name, text) for name, text in facts.items() if _known(text) is not None),
    )


def _vendor(agent: Agent, listing: Listing) -> str:
    """Whose card it is: rocminfo is AMD's, Hygon's runtime brings a copy of it."""
    name = agent.text("vendor name").lower()
    if agent.text("device type").upper() in HYGON_TYPES or any(word in name for word in HYGON_NAMES):
        return "hygon"
    told_amd = "amd" in name.split() or "advanced micro" in name
    return "hygon" if not told_amd and listing.module is not None and listing.module.hygon else VENDOR


def _known(text: str) -> str | None:
    return None if units.placeholder(text) is not None else text


def _without_agents(output: Output, listing: Listing, found: Sequence[Line]) -> Report:
    """The report on a text that lists no agent at all."""
    why = report_on_silence(output, found, "no output") or report_on_error(output, found, TOOL, _ERRORS)
    if why is not None:
        return why
    if listing.headed or listing.module is not None:
        return failed("not_understood", found[-1].where, "the output is cut off before its agents")
    extract = next((line for line in found if _EXTRACT.search(line.text)), None)
    if extract is not None:
        text = f"this is an extract ({quote(extract.text)}); save the whole output of {TOOL}"
        return Report("wrong_request", problems=(Problem(extract.where, text),))
    return report_on_unknown(output, found, TOOL)


PARSER = SourceParser(
    name=TOOL,
    vendor=VENDOR,
    gives=("compute_units", "clock_max_hertz", "memory_total_bytes"),
    polls=(
        Poll(
            name="agents",
            request=Command(
                alternatives=((TOOL,),),
                folders=("/opt/rocm/bin", "/opt/dtk/bin", "/opt/hyhal/bin", "/usr/bin"),
            ),
            tier="inventory",
            interval=300.0,
            # It opens /dev/kfd, which wakes every card.
            wakes=True,
        ),
    ),
    parse=parse,
)
