"""The ranks of MindSpore's cluster folder: the number of a file is there that of a card, and a rank table says whose it was.

MindSpore until 1.3 gathers `cluster_profiler/ALIAS/profiler/…`, with the rank table and `host_ips_mapping.txt` beside `cluster_profiler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from telemetry_profile.facts.file_facts import Device, Facts

FOLDER = "cluster_profiler"
Folders = tuple[str, ...]
Ranks = Mapping[tuple[Folders, str], Mapping[int, int]]
"""The rank of each card by its number, for the folder that holds `cluster_profiler`, and the alias of the node."""

_NO_TABLE = f"no rank table with a host_ips_mapping.txt beside {FOLDER} says which rank some cards had: they are shown without one"


def ranks_of_nodes(files: Iterable[tuple[Folders, Facts]]) -> Ranks:
    """What rank tables say of the nodes' folders that lie beside them."""
    told = list(files)
    tables: dict[tuple[Folders, str], dict[int, int]] = {}
    for folders, facts in told:
        for place in facts.rank_places:
            tables.setdefault((folders, place.node), {})[place.index] = place.rank
    return {
        (folders, named.folder): tables.get((folders, named.node), {})
        for folders, facts in told
        for named in facts.node_folders
    }


def with_ranks(folders: Folders, facts: Facts, ranks: Ranks) -> Facts:
    """The facts of a file in a node's folder with the ranks that its cards had; those of any other file as they are."""
    if FOLDER not in folders[:-1] or not facts.devices:
        return facts
    place = len(folders) - 1 - folders[::-1].index(FOLDER)
    known = ranks.get((folders[:place], folders[place + 1]), {}) if place + 1 < len(folders) else {}
    devices = tuple(_with_rank(device, known) for device in facts.devices)
    remarks = facts.remarks if all(device.rank is not None for device in devices) else (*facts.remarks, _NO_TABLE)
    return replace(facts, devices=devices, remarks=remarks)


def _with_rank(device: Device, known: Mapping[int, int]) -> Device:
    number = device.rank if device.card.index is None else device.card.index
    if number is None:
        return device
    return replace(device, rank=known.get(number), card=replace(device.card, index=number))
