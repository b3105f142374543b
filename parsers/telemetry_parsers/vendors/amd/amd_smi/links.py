"""The links between cards: what `topology` and `xgmi` print about them in JSON."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry_parsers import units
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import metric, special
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


def read_links(draft: Draft, device: int, block: Block) -> None:
    """Put the links of a card into the draft: by neighbour where it is named, else by their number."""
    for neighbour, link in _links(block, _TOPOLOGY):
        if link.get("link_type", "").upper() == "XGMI":
            _take_state(draft, device, neighbour, link.get("link_status", ""), block)
    for neighbour, link in _links(block, _XGMI):
        for key, name in _BYTES:
            if key in link:
                draft.take(device, (metric(name, neighbour),), link[key], f"{block.where} {neighbour} {key}")
    for number, text in enumerate(entry.text for entry in block.entries if entry.path == _STATUS):
        _take_state(draft, device, str(number), text, block)


def _take_state(draft: Draft, device: int, link: str, text: str, block: Block) -> None:
    draft.take(device, (special("link_up", link_up, link),), text, f"{block.where} link {link}")


def _links(block: Block, path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The neighbour at the other end of each link in a list, and the texts of the link by key."""
    links: dict[int, dict[str, str]] = {}
    for entry in block.entries:
        if entry.path[:-1] == path:
            links.setdefault(entry.group, {})[entry.path[-1]] = entry.text
    for link in links.values():
        number = units.whole(link.get("gpu", ""))
        if number is not None and number != block.index:
            yield f"gpu{number}", link
