"""The links between cards: what `topology` and `xgmi` tell of them in JSON."""

from __future__ import annotations

from telemetry_parsers import units
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Problem, Reading, Value
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.amd.amd_smi.blocks import Block, Path
from telemetry_parsers.vendors.amd.amd_smi.words import link_up

_TOPOLOGY = ("links",)
_XGMI = ("link_metrics", "links")
_STATUS = ("link_status",)
# `read` is what the card reads from its neighbour over the link.
_BYTES = (("read", "link_receive_bytes_total"), ("write", "link_transmit_bytes_total"))


def is_mine(path: Path) -> bool:
    """Whether a path belongs to the lists of links."""
    return path[0] in (_TOPOLOGY[0], _XGMI[0], _STATUS[0])


def readings_of(position: int, block: Block, problems: list[Problem]) -> list[Reading]:
    """The links of a card: by neighbour where it is told, else by their number."""
    found = [*_neighbours(position, block), *_numbered(position, block)]
    wrong = [item for item in found if item.value in (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)]
    problems += [Problem(block.where, f"{item.metric} of link {quote(item.label)} is not understood") for item in wrong]
    return list({(item.metric, item.label): item for item in reversed(found)}.values())[::-1]


def _neighbours(position: int, block: Block) -> list[Reading]:
    found = []
    for keys in _items(block, _TOPOLOGY):
        number = units.whole(keys.get("gpu", ""))
        if number is not None and number != block.index and keys.get("link_type", "").upper() == "XGMI":
            found.append(reading(position, "link_up", link_up(keys.get("link_status", "")), f"gpu{number}"))
    for keys in _items(block, _XGMI):
        number = units.whole(keys.get("gpu", ""))
        if number is None or number == block.index:
            continue
        for key, metric in _BYTES:
            if key in keys:
                found.append(reading(position, metric, _bytes(keys[key]), f"gpu{number}"))
    return found


def _bytes(text: str) -> Value:
    return units.quantity(text, units.BYTES)


def _numbered(position: int, block: Block) -> list[Reading]:
    """The states of a card's own links, as `xgmi --link-status` lists them."""
    states = [entry.text for entry in block.entries if entry.path == _STATUS]
    return [reading(position, "link_up", link_up(text), str(number)) for number, text in enumerate(states)]


def _items(block: Block, path: Path) -> list[dict[str, str]]:
    """The items of a list of objects, each with its keys."""
    groups: dict[int, dict[str, str]] = {}
    for entry in block.entries:
        if entry.path[:-1] == path:
            groups.setdefault(entry.group, {})[entry.path[-1]] = entry.text
    return list(groups.values())
