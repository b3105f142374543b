"""The information of KFD about cards: each compute node's card, partition, compute units and memory, and the processes that use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Output, Problem, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.vendors.amd.amdgpu_sysfs.cards import read_partition
from telemetry_parsers.vendors.amd.amdgpu_sysfs.tree import VENDORS, CardFiles, Tree

_BANKS = "mem_banks/"


@dataclass(frozen=True, slots=True)
class Node:
    """A node that computes. It has the address of its card."""

    number: int
    vendor: str
    bus_id: str
    partition: str | None  # None for the whole card or its first partition
    is_parted: bool  # the card has more than one partition
    gpu_id: str
    compute_units: float | None
    max_clock_megahertz: float | None
    memory_total_bytes: float | None  # if the node has one bank of memory
    memory_used_bytes: float | None
    unique_id: str | None
    facts: tuple[tuple[str, str], ...]


_OF_EACH = ("simd_count", "simd_per_cu", "location_id")


@dataclass(frozen=True, slots=True)
class _Raw:
    number: int
    values: Mapping[str, int]
    gpu_id: str
    banks: tuple[Mapping[str, int], ...]
    used_bytes: int | None

    @property
    def slot(self) -> tuple[int, int]:
        """Return domain, bus and device."""
        return self.values.get("domain", 0), self.values["location_id"] >> 3 & 0x1FFF

    @property
    def unique_id(self) -> int:
        """Return the id that all partitions of a card share, 0 if it is not reported."""
        return self.values.get("unique_id", 0)

    @property
    def function(self) -> int:
        """Return the function. The driver also counts partitions in it, or in the highest bits."""
        location = self.values["location_id"]
        return (location >> 28 & 0xF) or (location & 0x7)


def nodes_of(tree: Tree) -> list[Node]:
    """Return the nodes that are cards or partitions, without CPU nodes."""
    slots: dict[tuple[int, int], list[_Raw]] = {}
    for node in _computing(tree):
        if "location_id" in node.values:
            slots.setdefault(node.slot, []).append(node)
    parts = [node for members in slots.values() for node in _partitions(members)]
    return sorted(parts, key=lambda node: node.number)


def cut_off(tree: Tree) -> list[Problem]:
    """Return a problem for each node whose text is incomplete: without its compute units or its location."""
    nodes = [node for number, files in sorted(tree.nodes.items()) if (node := _raw(number, files)) is not None]
    keys = _OF_EACH + (("unique_id",) if any("unique_id" in node.values for node in nodes) else ())
    lost = [
        Problem(f"node {node.number}", f"has no {key}: its text is cut off or damaged")
        for node in nodes
        for key in (keys if node.values.get("simd_count", 1) else ("simd_count",))
        if key not in node.values
    ]
    twice = [number for number, files in sorted(tree.nodes.items()) if _is_of_two(files.get("properties"))]
    return [*lost, *(Problem(f"node {number}", "the text has two nodes") for number in twice)]


def _is_of_two(output: Output | None) -> bool:
    """Return whether a key is repeated: the name of the second node's file is lost."""
    return output is not None and output.text.count("simd_count ") > 1


def _computing(tree: Tree) -> Iterator[_Raw]:
    for number, files in sorted(tree.nodes.items()):
        node = _raw(number, files)
        if node is not None and node.values.get("simd_count", 0) > 0:
            yield node


def _partitions(members: Sequence[_Raw]) -> Iterator[Node]:
    """Yield the nodes in one slot by their card. A node whose text ends before the unique id is left out."""
    cards: dict[int, list[_Raw]] = {}
    for node in sorted(members, key=lambda node: node.function):
        cards.setdefault(node.unique_id, []).append(node)
    if len(cards) > 1:
        cards.pop(0, None)
    for nodes in cards.values():
        for rank, node in enumerate(nodes):
            yield _node(node, nodes[0], str(rank) if rank else None, is_parted=len(nodes) > 1)


def _raw(number: int, files: Mapping[str, Output]) -> _Raw | None:
    """Return a node's numbers. In a container, other containers' nodes are empty or forbidden."""
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
    """Return the numbers in lines of a name and a number."""
    if output is None or output.status:
        return {}
    pairs = (line.strip().partition(" ") for line in output.text.splitlines())
    return {name: value for name, _, text in pairs if (value := _whole(text)) is not None}


def _whole(text: str) -> int | None:
    """Return a number of up to 64 bits."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def _node(node: _Raw, first: _Raw, partition: str | None, *, is_parted: bool) -> Node:
    values = node.values
    simds, per_unit = values.get("simd_count", 0), values.get("simd_per_cu", 0)
    location = first.values["location_id"]
    bank = node.banks[0] if len(node.banks) == values.get("mem_banks_count", 1) == 1 else {}
    # A node that is a part of a card also reports the memory in use of the whole card.
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
        unique_id=f"{node.unique_id:016x}" if node.unique_id else None,
        facts=tuple(sorted(_facts(node).items())),
    )


def _positive(number: int | None) -> float | None:
    return float(number) if number else None


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


_MEGAHERTZ = 1e6


def read_nodes(nodes: Iterable[Node], awake: Mapping[str, CardFiles], draft: Draft) -> None:
    """Join the nodes to the cards by address, and add partitions. Only awake cards, and cards that KFD alone lists, get numbers."""
    positions = {device.bus_id: position for position, device in enumerate(draft.devices()) if device.bus_id}
    alone = {node.bus_id for node in nodes if node.bus_id not in positions}
    for node in nodes:
        position = _position_of(node, positions, draft)
        if position is None:
            continue
        draft.rewrite(position, _with_facts(draft.device_at(position), node))
        if node.bus_id in alone or node.bus_id in awake:
            _keep(draft, position, "compute_units", node.compute_units)
        if node.bus_id in alone:
            _read_alone(node, position, draft)
        if node.partition is not None:
            _read_partition(node, node.partition, position, awake.get(node.bus_id), draft)


def _position_of(node: Node, positions: dict[str, int], draft: Draft) -> int | None:
    """Return the position of the node's device, which is added if its card has no files; None for a partition without a card."""
    if node.partition is not None:
        return draft.add(_device(node, positions[node.bus_id])) if node.bus_id in positions else None
    if node.bus_id not in positions:
        positions[node.bus_id] = draft.add(_device(node, None))
    return positions[node.bus_id]


def _read_partition(node: Node, partition: str, position: int, card: CardFiles | None, draft: Draft) -> None:
    _keep(draft, position, "memory_total_bytes", node.memory_total_bytes)
    if card is not None:
        read_partition(position, partition, card, draft)


def _read_alone(node: Node, position: int, draft: Draft) -> None:
    """Keep readings that a card's own files would report better."""
    if node.max_clock_megahertz is not None:
        draft.keep(reading(position, "clock_max_hertz", node.max_clock_megahertz * _MEGAHERTZ, "graphics"))
    if not node.is_parted:
        _keep(draft, position, "memory_total_bytes", node.memory_total_bytes)
        _keep(draft, position, "memory_used_bytes", node.memory_used_bytes)


def _keep(draft: Draft, position: int, metric: str, value: float | None) -> None:
    if value is not None:
        draft.keep(reading(position, metric, value))


def _device(node: Node, parent: int | None) -> Device:
    return Device(node.vendor, uuid=node.unique_id, bus_id=node.bus_id, partition=node.partition, parent=parent)


def _with_facts(device: Device, node: Node) -> Device:
    facts = {**dict(node.facts), **dict(device.facts)}
    return replace(device, uuid=device.uuid or node.unique_id, facts=tuple(sorted(facts.items())))


def read_processes(tree: Tree, nodes: Iterable[Node], draft: Draft) -> None:
    """Add the processes with memory on a node. If the list of processes exists, their number is a reading, too."""
    if not tree.lists_processes:
        return
    positions = {(device.bus_id, device.partition): position for position, device in enumerate(draft.devices())}
    by_gpu = {node.gpu_id: positions[node.bus_id, node.partition] for node in nodes if node.gpu_id}
    for (pid, gpu_id), output in sorted(tree.processes.items()):
        position = by_gpu.get(gpu_id)
        used = units.number(output.text) if not output.status else Absent.NOT_REPORTED
        # The driver has a file for each process and card, even if the process does not use the card.
        if position is not None and used != 0.0:
            memory = None if isinstance(used, Absent) or used < 0 else used
            draft.processes.append(Process(position, pid, "", memory))
    for position in sorted(set(by_gpu.values())):
        count = sum(process.device == position for process in draft.processes)
        draft.keep(reading(position, "processes", float(count)))
