"""Adds the ranks of a job to the merged devices."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import MergedDevice, MergedReading
from telemetry_parsers.readings import Readings

VENDOR = "ascend"
RANK_METRIC = "rank_info"
# This fact becomes the label `server` of `accelerator_rank_info` only.
SERVER_FACT = "rank_server"
_SOURCE = "rank-table"


@dataclass(frozen=True, slots=True)
class NodeRanks:
    """The ranks on one server of the rank table. The chips are identified by their physical ids."""

    server: str = ""
    ranks_by_physical_id: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


def with_ranks(devices: tuple[MergedDevice, ...], ranks: NodeRanks) -> tuple[MergedDevice, ...]:
    """Return the devices with the ranks that run on them."""
    if not ranks.ranks_by_physical_id:
        return devices
    all_ids = [_physical_id(device) for device in devices]
    ranked = []
    for device, physical_id in zip(devices, all_ids, strict=True):
        is_unique = all_ids.count(physical_id) == 1
        rank = ranks.ranks_by_physical_id.get(physical_id) if physical_id is not None and is_unique else None
        ranked.append(device if rank is None else _with_rank(device, rank, ranks.server))
    return tuple(ranked)


def _physical_id(device: MergedDevice) -> int | None:
    """Return the physical id of an Ascend chip, or its index if the id is not reported. Return None for other devices."""
    if device.vendor != VENDOR or device.up is False:
        return None
    printed_id = dict(device.facts).get("phy_id", "")
    return int(printed_id) if printed_id.isdecimal() else device.index


def _with_rank(device: MergedDevice, rank: int, server: str) -> MergedDevice:
    reading = MergedReading(RANK_METRIC, str(rank), 1.0, _SOURCE)
    facts = (*device.facts, (SERVER_FACT, server)) if server else device.facts
    readings = Readings.of(device.readings)
    if any(metric == RANK_METRIC for metric, _ in readings.shape.keys):
        # The rank table has priority over the ranks of the processes.
        readings = Readings.of(old for old in readings if old.metric != RANK_METRIC)
    return replace(device, readings=readings.extended((reading,)), facts=facts)
