"""The binary file gpu_metrics: one table of offsets for each version that is known; others are counted, not guessed.

Offsets of 1.1 to 1.8 are those of AMD's own header, compiled; 1.9 is a list of attributes that say what they are.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Value

# A place in the blob: its offset, how it is packed (as struct names it) and how many there are.
Place = tuple[int, str, int]
# The accumulator counts in 2^-16 J, which AMD gives as 15.259 µJ.
_ENERGY_STEPS_PER_JOULE = 65_536.0
_MEGAHERTZ = 1e6
_BLANK: Mapping[str, int] = MappingProxyType({"H": 0xFFFF, "I": 0xFFFF_FFFF, "Q": 0xFFFF_FFFF_FFFF_FFFF})


@dataclass(frozen=True, slots=True)
class Layout:
    """One version: its size and the places of what is read from it."""

    size: int
    places: Mapping[str, Place]


_OLD: Mapping[str, Place] = MappingProxyType(
    {
        "edge": (4, "H", 1), "junction": (6, "H", 1), "memory": (8, "H", 1), "gfx": (16, "H", 1), "umc": (18, "H", 1),
        "average_power": (22, "H", 1), "energy": (24, "Q", 1), "graphics": (54, "H", 1), "soc": (56, "H", 1),
        "uclk": (58, "H", 1), "video": (60, "H", 1), "lanes": (74, "H", 1), "speed": (76, "H", 1), "hbm": (88, "H", 4),
    }
)  # fmt: skip
_NEW: Mapping[str, Place] = MappingProxyType(
    {
        "junction": (4, "H", 1),
        "memory": (6, "H", 1),
        "instant_power": (10, "H", 1),
        "gfx": (12, "H", 1),
        "umc": (14, "H", 1),
    }
)


def _new(size: int, energy: int, lanes: int, clocks: int, soc: int, video: int, uclk: int) -> Layout:
    places = {
        "energy": (energy, "Q", 1), "lanes": (lanes, "H", 1), "speed": (lanes + 2, "H", 1), "graphics": (clocks, "H", 8),
        "soc": (soc, "H", 4), "video": (video, "H", 4), "uclk": (uclk, "H", 1),
    }  # fmt: skip
    return Layout(size, MappingProxyType({**_NEW, **places}))


LAYOUTS: Mapping[tuple[int, int], Layout] = MappingProxyType(
    {
        (1, 1): Layout(96, _OLD),
        (1, 2): Layout(104, _OLD),
        (1, 3): Layout(120, MappingProxyType({**_OLD, "throttle": (112, "Q", 1)})),
        (1, 4): _new(288, energy=24, lanes=48, clocks=240, soc=256, video=264, uclk=280),
        (1, 5): _new(360, energy=88, lanes=112, clocks=312, soc=328, video=336, uclk=352),
        (1, 6): _new(1664, energy=16, lanes=60, clocks=264, soc=280, video=288, uclk=304),
        (1, 7): _new(2208, energy=24, lanes=68, clocks=296, soc=312, video=320, uclk=336),
        (1, 8): _new(3872, energy=24, lanes=68, clocks=296, soc=312, video=320, uclk=336),
    }
)
# Version 1.9: attributes by their id.
_ATTRIBUTES: Mapping[int, str] = MappingProxyType(
    {0: "junction", 1: "memory", 3: "instant_power", 4: "gfx", 5: "umc", 7: "energy", 33: "graphics"}
)
_TYPES = ("B", "b", "H", "h", "I", "i", "Q", "q")
_MOST_ATTRIBUTES = 512

# Which metric a name gives: key, label, divisor.
_READINGS: Mapping[str, tuple[str, str, float]] = MappingProxyType(
    {
        "edge": ("temperature_celsius", "edge", 1.0),
        "junction": ("temperature_celsius", "junction", 1.0),
        "memory": ("temperature_celsius", "memory", 1.0),
        "gfx": ("utilization_ratio", "", 100.0),
        "umc": ("memory_activity_ratio", "", 100.0),
        "average_power": ("power_average_watts", "", 1.0),
        "instant_power": ("power_instant_watts", "", 1.0),
        "energy": ("energy_joules_total", "", _ENERGY_STEPS_PER_JOULE),
        "graphics": ("clock_hertz", "graphics", 1 / _MEGAHERTZ),
        "soc": ("clock_hertz", "soc", 1 / _MEGAHERTZ),
        "uclk": ("clock_hertz", "memory", 1 / _MEGAHERTZ),
        "video": ("clock_hertz", "video", 1 / _MEGAHERTZ),
        "lanes": ("pcie_link_width", "", 1.0),
    }
)
# The bits of the throttle status that is the same for all chips (enum smu_throttler of the driver), by what holds it down.
_THROTTLERS: Mapping[str, range] = MappingProxyType(
    {"power_limit": range(16), "current_limit": range(16, 32), "thermal": range(32, 48), "other": range(48, 64)}
)


@dataclass(frozen=True, slots=True)
class BlobReading:
    """One value of the blob."""

    metric: str
    label: str
    value: Value


class UnknownBlobError(ValueError):
    """A blob of a version that no table knows, or whose size is not what its version has."""


def content_of(data: object) -> bytes:
    """The bytes of a binary file as a reader hands them over; UnknownBlobError when they are none."""
    text = data.get("base64") if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise UnknownBlobError("no bytes")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise UnknownBlobError(f"broken bytes: {error}") from None


def read_blob(content: bytes) -> list[BlobReading]:
    """What a blob says. Raises UnknownBlobError."""
    if len(content) < 4:
        raise UnknownBlobError("shorter than its header")
    size, version = struct.unpack_from("<H", content)[0], (content[2], content[3])
    if version == (1, 9):
        return _readings(_attributes(content))
    layout = LAYOUTS.get(version)
    if layout is None:
        raise UnknownBlobError(f"version {version[0]}.{version[1]}")
    if size != layout.size or len(content) < size:
        raise UnknownBlobError(f"version {version[0]}.{version[1]} in {len(content)} bytes that say {size}")
    return _readings({name: _unpacked(content, place) for name, place in layout.places.items()})


def _unpacked(content: bytes, place: Place) -> list[int | None]:
    """The numbers of a place, None where all bits are set: the driver does not know."""
    offset, code, count = place
    numbers = struct.unpack_from(f"<{count}{code}", content, offset)
    return [None if number == _BLANK.get(code) else number for number in numbers]


def _attributes(content: bytes) -> dict[str, list[int | None]]:
    """The attributes of version 1.9: each says its type, id and number of instances, and its values follow."""
    found: dict[str, list[int | None]] = {}
    if len(content) < 8:
        raise UnknownBlobError("version 1.9 without attributes")
    count, position = struct.unpack_from("<i", content, 4)[0], 8
    if not 0 <= count <= _MOST_ATTRIBUTES:
        raise UnknownBlobError(f"version 1.9 with {count} attributes")
    for _ in range(count):
        if position + 8 > len(content):
            raise UnknownBlobError("version 1.9 that ends inside an attribute")
        encoding = struct.unpack_from("<Q", content, position)[0]
        kind, identity, instances = encoding >> 20 & 0xF, encoding >> 10 & 0x3FF, encoding & 0x3FF
        if kind >= len(_TYPES):
            raise UnknownBlobError(f"version 1.9 with an attribute of type {kind}")
        place = (position + 8, _TYPES[kind], instances)
        position += 8 + instances * struct.calcsize(_TYPES[kind])
        if position > len(content):
            raise UnknownBlobError("version 1.9 that ends inside an attribute")
        if identity in _ATTRIBUTES:
            found[_ATTRIBUTES[identity]] = _unpacked(content, place)
    return found


def _readings(found: Mapping[str, list[int | None]]) -> list[BlobReading]:
    readings = []
    for name, (metric, label, divisor) in _READINGS.items():
        if name in found:
            # Several engines of a kind: the highest.
            known = [number for number in found[name] if number is not None]
            readings.append(BlobReading(metric, label, max(known) / divisor if known else Absent.NOT_SUPPORTED))
    for position, number in enumerate(found.get("hbm", ())):
        if number is not None:
            readings.append(BlobReading("temperature_celsius", f"hbm{position}", float(number)))
    readings += _link(found)
    readings += _throttled(found)
    return readings


def _link(found: Mapping[str, list[int | None]]) -> Iterator[BlobReading]:
    for tenths in found.get("speed", ()):
        if tenths:
            yield BlobReading("pcie_link_generation", "", units.pcie_generation(f"{tenths / 10:g}"))


def _throttled(found: Mapping[str, list[int | None]]) -> Iterator[BlobReading]:
    for status in found.get("throttle", ()):
        if status is not None:
            for reason, bits in _THROTTLERS.items():
                yield BlobReading("throttled", reason, float(any(status >> bit & 1 for bit in bits)))
