"""KFD's topology: each compute node's card, its partition, compute units and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from telemetry_parsers.amdgpu_sysfs.tree import VENDORS, Tree
from telemetry_parsers.model import Output

_BANKS = "mem_banks/"


@dataclass(frozen=True, slots=True)
class Node:
    """A node that computes. Its address is its card's; `partition` is None for the whole card or its first partition.

    `is_parted` tells that the card has more than one partition. Memory is told where the node has one bank of it.
    """

    number: int
    vendor: str
    bus_id: str
    partition: str | None
    is_parted: bool
    gpu_id: str
    compute_units: float | None
    max_clock_megahertz: float | None
    memory_total_bytes: float | None
    memory_used_bytes: float | None
    unique_id: str | None
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Raw:
    number: int
    values: Mapping[str, int]
    gpu_id: str
    banks: tuple[Mapping[str, int], ...]
    used_bytes: int | None

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
    groups: dict[tuple[int, int, int], list[_Raw]] = {}
    for node in raw:
        if node is not None and node.values.get("simd_count", 0) > 0:
            groups.setdefault(node.slot, []).append(node)
    found = []
    for group in groups.values():
        in_order = sorted(group, key=lambda node: node.function)
        for rank, node in enumerate(in_order):
            found.append(_node(node, in_order[0], str(rank) if rank else None, is_parted=len(group) > 1))
    return sorted(found, key=lambda node: node.number)


def _raw(number: int, files: Mapping[str, Output]) -> _Raw | None:
    """A node's numbers; in a container the nodes of others are empty or forbidden."""
    values = _numbers(files.get("properties"))
    if not values:
        return None
    gpu_id, used = files.get("gpu_id"), files.get(f"{_BANKS}0/used_memory")
    banks = [_numbers(output) for name, output in files.items() if name.startswith(_BANKS) and name.endswith("ies")]
    return _Raw(
        number,
        values,
        gpu_id.text.strip() if gpu_id is not None and not gpu_id.status else "",
        tuple(banks),
        _whole(used.text) if used is not None and not used.status else None,
    )


def _numbers(output: Output | None) -> dict[str, int]:
    """The numbers of lines of a name and a number."""
    if output is None or output.status:
        return {}
    pairs = (line.strip().partition(" ") for line in output.text.splitlines())
    return {name: value for name, _, text in pairs if (value := _whole(text)) is not None}


def _whole(text: str) -> int | None:
    """A number of up to 64 bits."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def _node(node: _Raw, first: _Raw, partition: str | None, *, is_parted: bool) -> Node:
    values = node.values
    simds, per_unit = values.get("simd_count", 0), values.get("simd_per_cu", 0)
    location = first.values.get("location_id", 0)
    bank = node.banks[0] if len(node.banks) == values.get("mem_banks_count", 1) == 1 else {}
    # What is used is told for the whole card, also by a node that is a part of it.
    used = node.used_bytes if bank and not is_parted else None
    return Node(
        number=node.number,
        vendor=VENDORS.get(f"0x{values.get('vendor_id', 0):04x}", "amd"),
        bus_id=f"{values.get('domain', 0):04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 0x7}",
        partition=partition,
        is_parted=is_parted,
        gpu_id=node.gpu_id,
        compute_units=simds / per_unit if per_unit and simds % per_unit == 0 else None,
        max_clock_megahertz=_positive(values.get("max_engine_clk_fcompute")),
        memory_total_bytes=_positive(bank.get("size_in_bytes")),
        memory_used_bytes=None if used is None else float(used),
        unique_id=_hexadecimal(values.get("unique_id", 0)),
        facts=tuple(sorted(_facts(node).items())),
    )


def _positive(number: int | None) -> float | None:
    return float(number) if number else None


def _hexadecimal(number: int) -> str | None:
    return f"{number:016x}" if number else None


def _facts(node: _Raw) -> dict[str, str]:
    values = node.values
    facts = {"kfd_node": str(node.number)}
    if node.gpu_id:
        facts["gpu_id"] = node.gpu_id
    if version := values.get("gfx_target_version", 0):
        # 90010 is gfx90a: major, minor, and the step in hexadecimal.
        facts["gfx_version"] = f"gfx{version // 10_000}{version // 100 % 100:x}{version % 100:x}"
    if minor := values.get("drm_render_minor", 0):
        facts["render_node"] = f"renderD{minor}"
    if device := values.get("device_id", 0):
        facts["chip_id"] = f"0x{device:04x}"
    return facts
