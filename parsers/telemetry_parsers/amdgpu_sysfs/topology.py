"""KFD's topology: each compute node's card, its partition, compute units and processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from telemetry_parsers import units
from telemetry_parsers.amdgpu_sysfs.tree import Tree
from telemetry_parsers.model import Output

_VENDORS = {4098: "amd", 7572: "hygon"}


@dataclass(frozen=True, slots=True)
class Node:
    """A node that computes. Its address is its card's; `partition` is None for the whole card or its first partition."""

    number: int
    vendor: str
    bus_id: str
    partition: str | None
    gpu_id: str
    compute_units: float | None
    unique_id: str | None
    gfx_target: str | None


@dataclass(frozen=True, slots=True)
class _Raw:
    number: int
    values: Mapping[str, int]
    gpu_id: str

    @property
    def slot(self) -> tuple[int, int, int]:
        """Domain, bus and device, and the unique id, which all partitions of a card share."""
        location = self.values.get("location_id", 0)
        return self.values.get("domain", 0), location >> 3 & 0x1FFF, self.values.get("unique_id", 0)

    @property
    def function(self) -> int:
        """The function, in which the driver also counts partitions; some put them into the highest bits."""
        location = self.values.get("location_id", 0)
        return (location >> 28 & 0xF) or (location & 0x7)


def nodes_of(tree: Tree) -> list[Node]:
    """The nodes that are cards or partitions of one; CPU nodes are none."""
    raw = [_raw(number, files) for number, files in sorted(tree.nodes.items())]
    cards = [node for node in raw if node is not None and node.values.get("simd_count", 0) > 0]
    groups: dict[tuple[int, int, int], list[_Raw]] = {}
    for node in cards:
        groups.setdefault(node.slot, []).append(node)
    found = []
    for group in groups.values():
        first = min(group, key=lambda node: node.function)
        for rank, node in enumerate(sorted(group, key=lambda node: node.function)):
            found.append(_node(node, first, str(rank) if rank else None))
    return sorted(found, key=lambda node: node.number)


def _raw(number: int, files: Mapping[str, Output]) -> _Raw | None:
    """A node's numbers; in a container the nodes of others are empty or forbidden."""
    output = files.get("properties")
    if output is None or output.status or not output.text.strip():
        return None
    values = {}
    for line in output.text.splitlines():
        name, _, text = line.strip().partition(" ")
        value = (
            units.whole(text)
            if len(text) <= 18
            else (int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None)
        )
        if value is not None:
            values[name] = value
    gpu_id = files.get("gpu_id")
    return _Raw(number, values, gpu_id.text.strip() if gpu_id is not None and not gpu_id.status else "")


def _node(node: _Raw, first: _Raw, partition: str | None) -> Node:
    values = node.values
    simds, per_unit = values.get("simd_count", 0), values.get("simd_per_cu", 0)
    unique_id = values.get("unique_id", 0)
    location = first.values.get("location_id", 0)
    return Node(
        number=node.number,
        vendor=_VENDORS.get(values.get("vendor_id", 0), "amd"),
        bus_id=f"{values.get('domain', 0):04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 0x7}",
        partition=partition,
        gpu_id=node.gpu_id,
        compute_units=simds / per_unit if per_unit and simds % per_unit == 0 else None,
        unique_id=f"{unique_id:016x}" if unique_id else None,
        gfx_target=_gfx(values.get("gfx_target_version", 0)),
    )


def _gfx(version: int) -> str | None:
    """90010 is gfx90a: major, minor, and the step in hexadecimal."""
    if not version:
        return None
    return f"gfx{version // 10_000}{version // 100 % 100:x}{version % 100:x}"
