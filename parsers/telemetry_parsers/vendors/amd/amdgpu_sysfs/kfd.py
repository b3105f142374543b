"""What KFD adds to the cards: their partitions, compute units, and the processes that use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from telemetry_parsers import units
from telemetry_parsers.metrics import reading
from telemetry_parsers.model import Absent, Device, Process
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.vendors.amd.amdgpu_sysfs.cards import read_partition
from telemetry_parsers.vendors.amd.amdgpu_sysfs.topology import Node
from telemetry_parsers.vendors.amd.amdgpu_sysfs.tree import CardFiles, Tree

_MEGAHERTZ = 1e6


def read_nodes(nodes: Iterable[Node], awake: Mapping[str, CardFiles], draft: Draft) -> None:
    """Join the nodes to the cards by their address, and add the partitions of cards.

    Only cards that are awake, and those that KFD alone lists, get numbers.
    """
    places = {device.bus_id: position for position, device in enumerate(draft.devices()) if device.bus_id}
    alone = {node.bus_id for node in nodes if node.bus_id not in places}
    for node in nodes:
        position = _place(node, places, draft)
        if position is None:
            continue
        draft.rewrite(position, _with_facts(draft.device_at(position), node))
        if node.bus_id in alone or node.bus_id in awake:
            _keep(draft, position, "compute_units", node.compute_units)
        if node.bus_id in alone:
            _read_alone(node, position, draft)
        if node.partition is not None:
            _read_partition(node, node.partition, position, awake.get(node.bus_id), draft)


def _place(node: Node, places: dict[str, int], draft: Draft) -> int | None:
    """The position of the node's device, which is added where no card has files of its own; None without a card."""
    if node.partition is not None:
        return draft.add(_device(node, places[node.bus_id])) if node.bus_id in places else None
    if node.bus_id not in places:
        places[node.bus_id] = draft.add(_device(node, None))
    return places[node.bus_id]


def _read_partition(node: Node, partition: str, position: int, card: CardFiles | None, draft: Draft) -> None:
    _keep(draft, position, "memory_total_bytes", node.memory_total_bytes)
    if card is not None:
        read_partition(position, partition, card, draft)


def _read_alone(node: Node, position: int, draft: Draft) -> None:
    """What a card's own files would report better."""
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
    """Add the processes that have memory on a node; where the list is there, no process is a number, too."""
    if not tree.lists_processes:
        return
    places = {(device.bus_id, device.partition): position for position, device in enumerate(draft.devices())}
    by_gpu = {node.gpu_id: places[node.bus_id, node.partition] for node in nodes if node.gpu_id}
    for (pid, gpu_id), output in sorted(tree.processes.items()):
        position = by_gpu.get(gpu_id)
        used = units.number(output.text) if not output.status else Absent.NOT_REPORTED
        # The driver has a file for each process and card, whether it uses that card or not.
        if position is not None and used != 0.0:
            known = None if isinstance(used, Absent) or used < 0 else used
            draft.processes.append(Process(position, pid, "", known))
    for position in sorted(set(by_gpu.values())):
        count = sum(process.device == position for process in draft.processes)
        draft.keep(reading(position, "processes", float(count)))
