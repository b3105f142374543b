"""rocminfo's text as agents with keys and memory pools; headings separate the blocks, not indentation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_parsers.model import Problem
from telemetry_parsers.text.complaints import CUT_LINE
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.amd.rocminfo.keys import BLOCKS, KNOWN

_AGENT = re.compile(r"Agent ([0-9]{1,5})\Z")
_NUMBERED = re.compile(r"(?:Pool|ISA) [0-9]{1,4}\Z")
_KEY = re.compile(r"([A-Za-z][^:]{0,60}):{1,2}[ \t]{0,80}(.{0,400})\Z")
_DIMENSION = re.compile(r"(?:[xyz]|Dim\[[0-9]\]:)[ \t]{1,60}[0-9]")
# Said before the agents, of the machine and of who asks; and the command, as a terminal shows it.
_NOTICE = re.compile(
    r"WSL environment detected\.?|\S{1,60} is (?:a )?member of \S{1,40} group"
    r"|Failed to get user name to check for \S{1,40} group membership|(?:.{0,100}[#$%>] ?)?(?:\S{0,80}/)?rocminfo(?: --support)?",
)
_MODULE = re.compile(
    r"(?:(?P<name>ROCk|hygon)[ \t]{1,4}module)(?:[ \t]version[ \t](?P<version>\S{1,40}))?[ \t]is[ \t](?P<no>NOT[ \t])?loaded",
    re.IGNORECASE,
)
_HEADINGS = frozenset({"HSA System Attributes", "HSA Agents"})
_DONE = "*** Done ***"
_RULE_SIGNS = frozenset("*=")


@dataclass(frozen=True, slots=True)
class Value:
    """What stands behind a key, and where."""

    text: str
    line: Line


@dataclass(slots=True)
class Agent:
    """One agent as printed: its own keys and its memory pools; `line` is its heading."""

    line: Line
    values: dict[str, Value] = field(default_factory=dict)
    pools: list[dict[str, Value]] = field(default_factory=list)

    def text(self, key: str) -> str:
        """The value of a key, empty where it is not printed."""
        return self.values[key].text if key in self.values else ""


@dataclass(frozen=True, slots=True)
class Module:
    """The line that says whether the kernel module is loaded; `version` only where it prints one."""

    line: Line
    loaded: bool
    hygon: bool
    version: str | None


@dataclass(slots=True)
class Listing:
    """All that one output holds; `done` is True when it has its closing line."""

    system: dict[str, Value] = field(default_factory=dict)
    agents: list[Agent] = field(default_factory=list)
    module: Module | None = None
    headed: bool = False
    done: bool = False
    unknown: dict[str, None] = field(default_factory=dict)
    unread: list[Line] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_listing(lines: Sequence[Line]) -> Listing:
    """The listing in these lines; a line that the text ends inside is not read."""
    scan = _Scan()
    for line in lines:
        scan.take(line)
    return scan.listing


class _Scan:
    """The state between two lines: which agent, and which of its blocks."""

    def __init__(self) -> None:
        self.listing = Listing()
        self._block = "system"

    def take(self, line: Line) -> None:
        # A backslash at the end of a line is the trace of a copy out of a document.
        text = line.text.strip().rstrip("\\").rstrip()
        if not line.ended:
            problem = Problem(line.where, CUT_LINE)
            self.listing.problems.append(problem)
        elif text == _DONE:
            self.listing.done = True
        elif (
            not text
            or _RULE_SIGNS.issuperset(text)
            or _DIMENSION.match(text)
            or text == "N/A"
            or _NOTICE.fullmatch(text)
        ):
            return
        elif text in _HEADINGS:
            self.listing.headed = True
        elif not (self._heading(line, text) or self._module(line, text)):
            self._key(line, text)

    def _heading(self, line: Line, text: str) -> bool:
        if _AGENT.match(text):
            self.listing.agents.append(Agent(line))
            self._block = ""
            return True
        if _NUMBERED.match(text) is None:
            return False
        if text.startswith("Pool") and self.listing.agents:
            self._block = "pool"
            self.listing.agents[-1].pools.append({})
        elif self.listing.agents:
            self._block = "isa"
        return True

    def _module(self, line: Line, text: str) -> bool:
        match = _MODULE.search(text)
        if match is None:
            return False
        hygon = match["name"].lower() == "hygon"
        self.listing.module = Module(line, match["no"] is None, hygon, match["version"])
        return True

    def _key(self, line: Line, text: str) -> None:
        match = _KEY.match(text)
        key = " ".join(match[1].lower().split()) if match else ""
        if match is None or (not self.listing.headed and not self.listing.agents and not _is_known(key)):
            self.listing.unread.append(line)
        elif key in BLOCKS and not match[2]:
            self._block = BLOCKS[key]
        else:
            self._assign(key, Value(match[2].strip(), line))

    def _assign(self, key: str, value: Value) -> None:
        if key not in KNOWN[self._block]:
            if _is_complaint(key):
                self.listing.unread.append(value.line)
            else:
                self.listing.unknown[f"{self._block}/{key}".removeprefix("/")] = None
            return
        place = self._place()
        if place is not None:
            place.setdefault(key, value)

    def _place(self) -> dict[str, Value] | None:
        """Where a key of the present block belongs; several ISA blocks have names of their own, which are no agent's."""
        agents = self.listing.agents
        if self._block == "system":
            return self.listing.system
        if self._block == "pool" and agents and agents[-1].pools:
            return agents[-1].pools[-1]
        return agents[-1].values if agents and self._block == "" else None


def _is_known(key: str) -> bool:
    return any(key in keys for keys in KNOWN.values())


def _is_complaint(key: str) -> bool:
    """Whether what looks like a key is the beginning of a complaint: `Error: …`, `hsa api call failure at: …`."""
    return key.startswith(("error", "warning", "failed", "hsa api", "call returned", "libkmod", "unable", "traceback"))


def flags(pool: Mapping[str, Value]) -> frozenset[str]:
    """The flags of a pool in global memory: of `GLOBAL; FLAGS: KERNARG, FINE GRAINED` the last two; else none."""
    segment, _, rest = pool["segment"].text.partition(";") if "segment" in pool else ("", "", "")
    if segment.strip().upper() != "GLOBAL":
        return frozenset()
    return frozenset(" ".join(flag.split()) for flag in rest.upper().partition("FLAGS:")[2].split(","))
