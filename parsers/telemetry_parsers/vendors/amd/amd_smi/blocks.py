"""The one form that every shape of amd-smi's output is brought into: blocks of entries, a block for each device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

Path = tuple[str, ...]

# Which of several of a kind: GFX_0, XCP_7, Level 3, vclk1. What a key is called otherwise is kept.
_ORDINAL = re.compile(r"_[0-9]{1,4}\Z|(?<=clk)[0-9]{1,3}\Z")


@dataclass(frozen=True, slots=True)
class Entry:
    """A value with its unit as printed, and the keys that lead to it.

    `group` separates the items of a list: the processes, the links, the pages of a block.
    """

    path: Path
    text: str
    group: int
    where: str


@dataclass(slots=True)
class Block:
    """What an output holds of the device of this kind and number; `gpu` is a card or a partition of one.

    `open_at` is the path at which the text ends, where it does not show that the block is whole.
    """

    kind: str
    index: int | None
    where: str
    entries: list[Entry] = field(default_factory=list)
    open_at: Path | None = None


def plain_key(name: str) -> str:
    """A key in lower case without blanks: text, JSON and CSV spell the same key alike then."""
    return "_".join(name.lower().split())


def pattern(path: Sequence[str]) -> Path:
    """The path without ordinals: `clock/gfx_3/clk` is one of `clock/gfx_#/clk`."""
    return tuple(_ORDINAL.sub("_#", key) for key in path)
