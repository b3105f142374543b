"""Side files of Ascend and MindSpore: clocks, ranks, and which card a rank had; and files that add nothing here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.file_facts import Card, Device, Facts, NodeFolder, RankPlace
from telemetry_profile.facts.headed_tables import number_of
from telemetry_profile.facts.printed_times import NS, US, nanoseconds
from telemetry_profile.facts.whole_json import document, document_in

_TOOL = "Ascend profiler"
_LARGEST_MIB, _MOST_NODES = 16, 100_000
_CLOCK_KEYS = {"collectionTimeBegin", "clockMonotonicRaw"}
_DEVICE_FOLDER = re.compile(r"device_(\d{1,4})\Z")
_NAMED_RANK = re.compile(r"profiler_info_(\d{1,6})\.json\Z")
# What people find beside the results, and nothing of which tells how the time was spent.
_SILENT = re.compile(
    r"(end_info\.\d+|(ascend|gpu)_timeline_summary_\d+\.json|step_trace_point_info\w*\.json|minddata_cpu_utilization_\d+\.json"
    r"|parallel_strategy_\d+\.json|pipeline_profiling_\d+\.json|flops_(scope_)?\d+\.(json|txt)|dataset_iterator_profiling_\d+\.txt"
    r"|device_queue_profiling_\d+\.txt|minddata_aicpu_\d+\.txt|memory_record\.csv|operator_memory\.csv|profiler_metadata\.json"
    # msprof's tables of other things than the time of a step, as its manual lists them, and task_time, of which op_summary tells more
    r"|(task_time|fusion_op|l2_cache|npu_(module_)?mem|static_op_mem|memory_record|operator_memory|(sys|process)_mem|(process_)?cpu_usage"
    r"|ai_(vector_)?core_utilization|aicpu(_mi)?|dp)(_\d+)+\.csv)\Z"
)


def _recognises_clock(clue: Clue) -> bool:
    told = document_in(clue.text)
    return isinstance(told, dict) and told.keys() >= _CLOCK_KEYS


def _read_clock(clue: Clue, lines: Iterable[str]) -> Facts:
    """Unix time and the node's own clock at one moment."""
    told = _object(lines)
    unix, boot = (
        nanoseconds(str(told.get("collectionTimeBegin", "")), US),
        nanoseconds(str(told.get("clockMonotonicRaw", "")), NS),
    )
    offset = None if unix is None or boot is None else unix - boot
    return Facts("ascend-clock", _TOOL, devices=_named(clue, None), boot_to_unix_ns=offset)


def _recognises_info(clue: Clue) -> bool:
    # A rank table of a thousand cards is longer than the beginning that is seen here.
    text = clue.text
    if not text.lstrip().startswith("{") or '"traceEvents"' in text:
        return False
    return bool(_NAMED_RANK.search(clue.name)) or '"DeviceInfo"' in text or '"server_list"' in text


def _read_info(clue: Clue, lines: Iterable[str]) -> Facts:
    told = _object(lines)
    if "server_list" in told:
        return _rank_table(told)
    rank = told.get("rank_id")
    if not _is_small(rank) and (named := _NAMED_RANK.search(clue.name)):
        rank = int(named[1])
    size = told.get("rank_size")
    return Facts(
        "ascend-info",
        _TOOL,
        ranks=size if _is_small(size) and size else None,
        devices=_named(clue, rank if _is_small(rank) else None),
    )


def _rank_table(told: dict[str, Any]) -> Facts:
    """The card of each rank, as hccl.json of the job says. The addresses beside it are nobody's business."""
    places = tuple(_places(told["server_list"]))
    return Facts(
        "ascend-info",
        _TOOL,
        ranks=len(places) or None,
        devices=tuple(Device(Card(index=place.index), rank=place.rank) for place in places),
        rank_places=places,
    )


def _places(servers: Any) -> Iterator[RankPlace]:  # JSON of any shape
    for server in servers if isinstance(servers, list) else ():
        devices = server.get("device") if isinstance(server, dict) else None
        for device in devices if isinstance(devices, list) else ():
            rank, index = (
                number_of(str(device.get(key, ""))) if isinstance(device, dict) else None
                for key in ("rank_id", "device_id")
            )
            if rank is not None and index is not None:
                yield RankPlace(_node(str(server.get("server_id", ""))), index, rank)


def _node(address: str) -> str:
    """What stands for an address: equal for equal ones, and nothing that tells it."""
    return hashlib.blake2s(address.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _recognises_nodes(clue: Clue) -> bool:
    return clue.name == "host_ips_mapping.txt"


def _read_nodes(clue: Clue, lines: Iterable[str]) -> Facts:
    """In which folder the results of each node lie: its address and the folder's name in each line."""
    del clue
    pairs = [line.split() for line in islice(lines, _MOST_NODES)]
    folders = tuple(NodeFolder(_node(pair[0]), pair[1]) for pair in pairs if len(pair) > 1)
    return Facts("ascend-nodes", _TOOL, node_folders=folders)


def _object(lines: Iterable[str]) -> dict[str, Any]:
    """The object that the file is. Raises NotReadError."""
    told = document(lines, _LARGEST_MIB)
    return told if isinstance(told, dict) else {}


def _named(clue: Clue, rank: int | None) -> tuple[Device, ...]:
    """The device whose folder holds the file."""
    folder = _DEVICE_FOLDER.match(clue.folders[-1]) if clue.folders else None
    index = int(folder[1]) if folder else None
    return () if rank is None and index is None else (Device(Card(index=index), rank=rank),)


def _is_small(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6


def _recognises_silent(clue: Clue) -> bool:
    return bool(_SILENT.match(clue.name))


def _read_silent(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue, lines
    return Facts("ascend-other", _TOOL)


CLOCK = TextFormat("ascend-clock", _TOOL, _recognises_clock, _read_clock)
INFO = TextFormat("ascend-info", _TOOL, _recognises_info, _read_info)
NODES = TextFormat("ascend-nodes", _TOOL, _recognises_nodes, _read_nodes)
OTHER = TextFormat("ascend-other", _TOOL, _recognises_silent, _read_silent)
