"""Where what is read stands in each version of gpu_metrics: tables of offsets, compiled from AMD's own structs.

`centi` and `milli` in a name tell the unit. What versions 2.0 to 2.3 say of power and activity is left out: its unit
differs between chips and firmwares (W or mW, percent or hundredths of it), and files tell both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# A place in the blob: its offset, how it is packed (as struct names it) and how many there are.
Place = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class PartitionTable:
    """Where a version has partitions: their number, the first one's place, the size of each, and what is in it."""

    count: int
    first: int
    size: int
    places: Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class Layout:
    """One version: its size and the places of what is read from it."""

    size: int
    places: Mapping[str, Place]
    partitions: PartitionTable | None = None


def _table(places: Mapping[str, Place]) -> Mapping[str, Place]:
    return MappingProxyType(dict(places))


def _clocks(first: int) -> dict[str, Place]:
    """Graphics, SoC, memory and video clocks that stand side by side, as cards reported them up to 1.3."""
    return {name: (first + 2 * n, "H", 1) for n, name in enumerate(("graphics", "soc", "uclk", "video"))}


_CARD_1_0: Mapping[str, Place] = _table(
    {
        "edge": (16, "H", 1), "junction": (18, "H", 1), "memory": (20, "H", 1), "gfx": (28, "H", 1), "umc": (30, "H", 1),
        "multimedia": (32, "H", 1), "average_power": (34, "H", 1), "energy": (36, "I", 1), **_clocks(54),
    }
)  # fmt: skip
_CARD_1_1: Mapping[str, Place] = _table(
    {
        "edge": (4, "H", 1), "junction": (6, "H", 1), "memory": (8, "H", 1), "gfx": (16, "H", 1), "umc": (18, "H", 1),
        "multimedia": (20, "H", 1), "average_power": (22, "H", 1), "energy": (24, "Q", 1), **_clocks(54),
        "hbm": (88, "H", 4),
    }
)  # fmt: skip
_CARD_1_4: Mapping[str, Place] = _table(
    {
        "junction": (4, "H", 1),
        "memory": (6, "H", 1),
        "instant_power": (10, "H", 1),
        "gfx": (12, "H", 1),
        "umc": (14, "H", 1),
    }
)
_PARTITION: Mapping[str, Place] = _table({"gfx": (0, "I", 8), "jpeg": (32, "H", 32), "vcn": (96, "H", 4)})
_PARTITION_1_8: Mapping[str, Place] = _table({"gfx": (0, "I", 8), "jpeg": (32, "H", 40), "vcn": (112, "H", 4)})


def _instinct(
    size: int, energy: int, clocks: int, more: Mapping[str, Place], partitions: PartitionTable | None = None
) -> Layout:
    """A version from 1.4 on: eight graphics clocks, four each of SoC, video and decoder clocks, one of the memory."""
    places = {
        "energy": (energy, "Q", 1), "graphics": (clocks, "H", 8), "soc": (clocks + 16, "H", 4),
        "video": (clocks + 24, "H", 4), "uclk": (clocks + 40, "H", 1),
    }  # fmt: skip
    return Layout(size, _table({**_CARD_1_4, **places, **more}), partitions)


_APU_2_1: Mapping[str, Place] = _table(
    {
        "edge_centi": (4, "H", 1), "soc_centi": (6, "H", 1), "graphics": (76, "H", 1), "soc": (78, "H", 1),
        "uclk": (80, "H", 1), "fabric": (82, "H", 1), "video": (84, "H", 1),
    }
)  # fmt: skip
_APU_2_0: Mapping[str, Place] = _table(
    {
        "edge_centi": (16, "H", 1), "soc_centi": (18, "H", 1), "graphics": (80, "H", 1), "soc": (82, "H", 1),
        "uclk": (84, "H", 1), "fabric": (86, "H", 1), "video": (88, "H", 1),
    }
)  # fmt: skip
_THROTTLE_2_2: Mapping[str, Place] = _table({"throttle": (120, "Q", 1)})
_APU_3_0: Mapping[str, Place] = _table(
    {
        "edge_centi": (4, "H", 1), "soc_centi": (6, "H", 1), "gfx": (42, "H", 1), "vcn": (44, "H", 1),
        "average_power_milli": (112, "I", 1), "graphics": (174, "H", 1), "soc": (176, "H", 1), "fabric": (182, "H", 1),
        "video": (184, "H", 1), "uclk": (186, "H", 1),
    }
)  # fmt: skip

LAYOUTS: Mapping[tuple[int, int], Layout] = {
    (1, 0): Layout(80, _CARD_1_0),
    (1, 1): Layout(96, _CARD_1_1),
    (1, 2): Layout(104, _CARD_1_1),
    (1, 3): Layout(120, _table({**_CARD_1_1, "throttle": (112, "Q", 1)})),
    (1, 4): _instinct(288, 24, 240, {"vcn": (16, "H", 4)}),
    (1, 5): _instinct(360, 88, 312, {"vcn": (16, "H", 4), "jpeg": (24, "H", 32)}),
    (1, 6): _instinct(1664, 16, 264, {}, PartitionTable(306, 312, 168, _PARTITION)),
    (1, 7): _instinct(2208, 24, 296, {}, PartitionTable(338, 344, 232, _PARTITION)),
    (1, 8): _instinct(3872, 24, 296, {}, PartitionTable(338, 344, 440, _PARTITION_1_8)),
    (2, 0): Layout(120, _APU_2_0),
    (2, 1): Layout(120, _APU_2_1),
    (2, 2): Layout(128, _table({**_APU_2_1, **_THROTTLE_2_2})),
    (2, 3): Layout(152, _table({**_APU_2_1, **_THROTTLE_2_2})),
    (2, 4): Layout(168, _table({**_APU_2_1, **_THROTTLE_2_2, "average_power_milli": (40, "H", 1)})),
    (3, 0): Layout(264, _APU_3_0),
}
# Version 1.9 is a list of attributes, each with an id.
ATTRIBUTES: Mapping[int, str] = {
    0: "junction", 1: "memory", 3: "instant_power", 4: "gfx", 5: "umc", 7: "energy", 33: "graphics", 34: "soc",
    35: "video", 37: "uclk", 41: "jpeg", 42: "vcn", 48: "hbm",
}  # fmt: skip
ATTRIBUTE_TYPES = ("B", "b", "H", "h", "I", "i", "Q", "q")
MOST_PARTITIONS = 8
