"""The form to which all output of amd-smi is converted, and parsers of printed values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Absent, Value

Path = tuple[str, ...]

# The ordinal in a name such as GFX_0, Level 3 or vclk1.
_ORDINAL = re.compile(r"_[0-9]{1,4}\Z|(?<=clk)[0-9]{1,3}\Z")


@dataclass(frozen=True, slots=True)
class Entry:
    """A printed value with its path of keys. `group` numbers the list items or sections of the output."""

    path: Path
    text: str
    group: int
    where: str


@dataclass(slots=True)
class Block:
    """The entries of one device. If `open_path` is set, entries below this path may be missing."""

    kind: str
    index: int | None
    where: str
    entries: list[Entry] = field(default_factory=list)
    open_path: Path | None = None


def normalize_key(name: str) -> str:
    """Return a key in lower case with underscores for blanks."""
    return "_".join(name.lower().split())


def field_path(path: Sequence[str]) -> Path:
    """Return a path as a key of `FIELDS`: `clock/gfx_3/clk` becomes `clock/gfx_#/clk`."""
    return tuple(_ORDINAL.sub("_#", key) for key in path)


TOOL = "amd-smi"
# Other devices that amd-smi lists: processors, their cores, network cards and switches.
OTHER_KINDS = frozenset({"cpu", "core", "nic", "ainic", "brcm_nic", "switch", "brcm_switch"})

# A placeholder for a confidential value, such as `<redacted>`.
_MASK = re.compile(r"<.{0,100}>\Z|(?:0x)?[xX*?-]{4,}\Z")
ACTIVE: Mapping[str, float] = {"active": 1.0, "not active": 0.0, "true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
THROTTLED: Mapping[str, float] = {"throttled": 1.0, "unthrottled": 0.0}
ENABLED: Mapping[str, float] = {"enabled": 1.0, "disabled": 0.0}


def printed_text(text: str | None) -> str | None:
    """Return the stripped text, or None if it is blank, a placeholder or a mask such as `<redacted>`."""
    value = units.text_or_none(text)
    return None if value is None or _MASK.match(value) else value


def parse_link_generation(text: str, _unit: str = "") -> Value:
    """Convert a link speed such as `32 GT/s` to a PCIe generation."""
    if not text.endswith("GT/s"):
        return units.placeholder(text) or Absent.NOT_UNDERSTOOD
    return units.pcie_generation(text.removesuffix("GT/s"))


def parse_byte_rate(text: str, _unit: str = "") -> Value:
    """Convert a rate such as `18 Mb/s` to bytes per second."""
    number_text = text.removesuffix("Mb/s")
    value = units.number(number_text) if number_text != text else Absent.NOT_UNDERSTOOD
    return units.placeholder(number_text) or value if isinstance(value, Absent) else value * 125_000


def parse_positive_flag(text: str, _unit: str = "") -> Value:
    """Return 1 for a percentage above 0, else 0."""
    value = units.quantity(text, units.RATIO, "%")
    return value if isinstance(value, Absent) else float(value > 0.0)
