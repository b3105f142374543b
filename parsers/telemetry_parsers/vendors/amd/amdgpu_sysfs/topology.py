"""Reads the nodes of KFD's topology, and the processes on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Output, Problem, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.vendors.amd.amdgpu_sysfs.cards import read_partition_metrics
from telemetry_parsers.vendors.amd.amdgpu_sysfs.tree import VENDORS_BY_PCI_ID, CardFiles, Tree

_BANKS = "mem_banks/"


@dataclass(frozen=True, slots=True)
class Node:
    """A KFD node of a card or partition."""

    number: int
    vendor: str
    bus_id: str
    partition: str | None  # None for the whole card or its first partition
    is_partitioned: bool  # the card has more than one partition
    gpu_id: str
    compute_units: float | None
    max_clock_megahertz: float | None
    memory_total_bytes: float | None  # None unless the node has exactly one bank of memory
    memory_used_bytes: float | None
    unique_id: str | None
    facts: tuple[tuple[str, str], ...]


_REQUIRED_KEYS = ("simd_count", "simd_per_cu", "location_id")


@dataclass(frozen=True, slots=True)
class _RawNode:
    number: int
    values: Mapping[str, int]
    gpu_id: str
    banks: tuple[Mapping[str, int], ...]
    used_bytes: int | None

    @property
    def slot(self) -> tuple[int, int]:
        """Return the PCI slot: the domain, and the bus and device numbers in one integer."""
        return self.values.get("domain", 0), self.values["location_id"] >> 3 & 0x1FFF

    @property
    def unique_id(self) -> int:
        """Return the id that a card's partitions share, or 0 if it is not reported."""
        return self.values.get("unique_id", 0)

    @property
    def partition_or_function(self) -> int:
        """Return the partition number or, if it is 0, the PCI function."""
        location = self.values["location_id"]
        return (location >> 28 & 0xF) or (location & 0x7)


def parse_nodes(tree: Tree) -> list[Node]:
    """Return the KFD nodes of cards and partitions. The nodes of CPUs are omitted."""
    nodes_by_slot: dict[tuple[int, int], list[_RawNode]] = {}
    for node in _gpu_nodes(tree):
        if "location_id" in node.values:
            nodes_by_slot.setdefault(node.slot, []).append(node)
    nodes = [node for slot_nodes in nodes_by_slot.values() for node in _build_nodes_of_slot(slot_nodes)]
    return sorted(nodes, key=lambda node: node.number)


def node_problems(tree: Tree) -> list[Problem]:
    """Return a problem for each missing key of a node, and for each text that contains two nodes."""
    nodes = [node for number, files in sorted(tree.nodes.items()) if (node := _parse_node(number, files)) is not None]
    keys = _REQUIRED_KEYS + (("unique_id",) if any("unique_id" in node.values for node in nodes) else ())
    missing_keys = [
        Problem(f"node {node.number}", f"the node's {key} is missing, so the text is cut off or damaged")
        for node in nodes
        for key in (keys if node.values.get("simd_count", 1) else ("simd_count",))
        if key not in node.values
    ]
    mixed_nodes = [number for number, files in sorted(tree.nodes.items()) if _has_two_nodes(files.get("properties"))]
    return [*missing_keys, *(Problem(f"node {number}", "the text contains two nodes") for number in mixed_nodes)]


def _has_two_nodes(output: Output | None) -> bool:
    return output is not None and output.text.count("simd_count ") > 1


def _gpu_nodes(tree: Tree) -> Iterator[_RawNode]:
    for node_number, files in sorted(tree.nodes.items()):
        node = _parse_node(node_number, files)
        if node is not None and node.values.get("simd_count", 0) > 0:
            yield node


def _build_nodes_of_slot(slot_nodes: Sequence[_RawNode]) -> Iterator[Node]:
    """Yield the nodes of all cards in one PCI slot. A card's nodes are numbered as partitions."""
    nodes_by_unique_id: dict[int, list[_RawNode]] = {}
    for node in sorted(slot_nodes, key=lambda node: node.partition_or_function):
        nodes_by_unique_id.setdefault(node.unique_id, []).append(node)
    if len(nodes_by_unique_id) > 1:
        nodes_by_unique_id.pop(0, None)  # the card of a node without an id is unknown
    for nodes in nodes_by_unique_id.values():
        for index, node in enumerate(nodes):
            yield _build_node(node, nodes[0], str(index) if index else None, is_partitioned=len(nodes) > 1)


def _parse_node(number: int, files: Mapping[str, Output]) -> _RawNode | None:
    """Return the node in these files, or None if `properties` has no values."""
    values = _numbers_in(files.get("properties"))
    if not values:
        return None
    gpu_id, used = files.get("gpu_id"), files.get(f"{_BANKS}0/used_memory")
    banks = [_numbers_in(output) for name, output in files.items() if name.startswith(_BANKS) and "properties" in name]
    return _RawNode(
        number,
        values,
        gpu_id.text.strip() if gpu_id is not None and not gpu_id.status else "",
        tuple(banks),
        _parse_uint64(used.text) if used is not None and not used.status else None,
    )


def _numbers_in(output: Output | None) -> dict[str, int]:
    """Return the numbers in lines such as `simd_count 304`, by name."""
    if output is None or output.status:
        return {}
    pairs = (line.strip().partition(" ") for line in output.text.splitlines())
    return {name: value for name, _, text in pairs if (value := _parse_uint64(text)) is not None}


def _parse_uint64(text: str) -> int | None:

    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def _build_node(node: _RawNode, first_node: _RawNode, partition: str | None, *, is_partitioned: bool) -> Node:
    values = node.values
    simds, simds_per_unit = values.get("simd_count", 0), values.get("simd_per_cu", 0)
    location = first_node.values["location_id"]
    bank = node.banks[0] if len(node.banks) == values.get("mem_banks_count", 1) == 1 else {}
    # The node of a partition reports the memory in use on the whole card.
    used = node.used_bytes if bank and not is_partitioned else None
    return Node(
        number=node.number,
        vendor=VENDORS_BY_PCI_ID.get(f"0x{values.get('vendor_id', 0):04x}", "amd"),
        bus_id=f"{values.get('domain', 0):04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 0x7}",
        partition=partition,
        is_partitioned=is_partitioned,
        gpu_id=node.gpu_id,
        compute_units=simds / simds_per_unit if simds_per_unit and simds % simds_per_unit == 0 else None,
        max_clock_megahertz=_float_or_none(values.get("max_engine_clk_fcompute")),
        memory_total_bytes=_float_or_none(bank.get("size_in_bytes")),
        memory_used_bytes=None if used is None else float(used),
        unique_id=f"{node.unique_id:016x}" if node.unique_id else None,
        facts=tuple(sorted(_node_facts(node).items())),
    )


def _float_or_none(number: int | None) -> float | None:
    return float(number) if number else None  # 0 means unknown


def _node_facts(node: _RawNode) -> dict[str, str]:
    values = node.values
    facts = {"kfd_node": str(node.number)}
    if node.gpu_id:
        facts["gpu_id"] = node.gpu_id
    if version := values.get("gfx_target_version", 0):
        # 90010 is gfx90a: major version 9, minor version 0, step 10 (`a`).
        facts["gfx_version"] = f"gfx{version // 10_000}{version // 100 % 100:x}{version % 100:x}"
    if minor := values.get("drm_render_minor", 0):
        facts["render_node"] = f"renderD{minor}"
    if device := values.get("device_id", 0):
        facts["chip_id"] = f"0x{device:04x}"
    return facts


_MEGAHERTZ = 1e6


def read_nodes(nodes: Sequence[Node], awake_cards: Mapping[str, CardFiles], draft: Draft) -> None:
    """Add each node's facts and readings to the card at its address. Add its partition, if any, as a device."""
    positions_by_address = {device.bus_id: position for position, device in enumerate(draft.devices()) if device.bus_id}
    kfd_only_addresses = {node.bus_id for node in nodes if node.bus_id not in positions_by_address}
    for node in nodes:
        position = _find_or_add_device(node, positions_by_address, draft)
        if position is None:
            continue
        draft.replace_device(position, _with_node_facts(draft.device_at(position), node))
        if node.bus_id in kfd_only_addresses or node.bus_id in awake_cards:
            _add_reading(draft, position, "compute_units", node.compute_units)
        if node.bus_id in kfd_only_addresses:
            _read_kfd_readings(node, position, draft)
        if node.partition is not None:
            _add_reading(draft, position, "memory_total_bytes", node.memory_total_bytes)
            if node.bus_id in awake_cards:
                read_partition_metrics(position, node.partition, awake_cards[node.bus_id], draft)


def _find_or_add_device(node: Node, positions_by_address: dict[str, int], draft: Draft) -> int | None:
    """Return the position of the node's device, or None for a partition whose card is missing."""
    if node.partition is not None:
        parent = positions_by_address.get(node.bus_id)
        return None if parent is None else draft.add_device(_create_device(node, parent))
    if node.bus_id not in positions_by_address:
        positions_by_address[node.bus_id] = draft.add_device(_create_device(node, None))
    return positions_by_address[node.bus_id]


def _read_kfd_readings(node: Node, position: int, draft: Draft) -> None:
    """Store KFD's readings of a card whose driver files are missing."""
    if node.max_clock_megahertz is not None:
        draft.add_reading(reading(position, "clock_max_hertz", node.max_clock_megahertz * _MEGAHERTZ, "graphics"))
    if not node.is_partitioned:
        _add_reading(draft, position, "memory_total_bytes", node.memory_total_bytes)
        _add_reading(draft, position, "memory_used_bytes", node.memory_used_bytes)


def _add_reading(draft: Draft, position: int, metric: str, value: float | None) -> None:
    if value is not None:
        draft.add_reading(reading(position, metric, value))


def _create_device(node: Node, parent: int | None) -> Device:
    return Device(node.vendor, uuid=node.unique_id, bus_id=node.bus_id, partition=node.partition, parent=parent)


def _with_node_facts(device: Device, node: Node) -> Device:
    facts = {**dict(node.facts), **dict(device.facts)}
    return replace(device, uuid=device.uuid or node.unique_id, facts=tuple(sorted(facts.items())))


def read_processes(tree: Tree, nodes: Iterable[Node], draft: Draft) -> None:
    """Add the processes that use memory of a node, and each device's process count."""
    if not tree.lists_processes:
        return
    positions_by_slot = {(device.bus_id, device.partition): position for position, device in enumerate(draft.devices())}
    positions_by_gpu = {node.gpu_id: positions_by_slot[node.bus_id, node.partition] for node in nodes if node.gpu_id}
    for (pid, gpu_id), output in sorted(tree.processes.items()):
        position = positions_by_gpu.get(gpu_id)
        used = units.number(output.text) if not output.status else Absent.NOT_REPORTED
        # The file of a process that does not use the card contains 0.
        if position is not None and used != 0.0:
            memory = None if isinstance(used, Absent) or used < 0 else used
            draft.processes.append(Process(position, pid, "", memory))
    for position in sorted(set(positions_by_gpu.values())):
        count = sum(process.device == position for process in draft.processes)
        draft.add_reading(reading(position, "processes", float(count)))
