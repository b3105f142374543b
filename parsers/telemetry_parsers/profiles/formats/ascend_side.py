"""Side files of Ascend and MindSpore: clocks, ranks, and which card a rank had; and files that add nothing here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from telemetry_parsers.profiles.contract import Clue, TextFormat
from telemetry_parsers.profiles.facts import Card, Device, Facts
from telemetry_parsers.profiles.times import NS, US, nanoseconds

_TOOL = "Ascend profiler"
_CLOCK_KEYS = {"collectionTimeBegin", "clockMonotonicRaw"}
_DEVICE_FOLDER = re.compile(r"device_(\d{1,4})\Z")
_NAMED_RANK = re.compile(r"profiler_info_(\d{1,6})\.json\Z")
# What people find beside the results, and nothing of which tells how the time was spent.
_SILENT = re.compile(
    r"(end_info\.\d+|(ascend|gpu)_timeline_summary_\d+\.json|step_trace_point_info\w*\.json|minddata_cpu_utilization_\d+\.json"
    r"|parallel_strategy_\d+\.json|pipeline_profiling_\d+\.json|flops_(scope_)?\d+\.(json|txt)|dataset_iterator_profiling_\d+\.txt"
    r"|device_queue_profiling_\d+\.txt|minddata_aicpu_\d+\.txt|host_ips_mapping\.txt|memory_record\.csv|operator_memory\.csv|profiler_metadata\.json)\Z"
)


def _document(text: str) -> Any:  # JSON of any shape
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _recognises_clock(clue: Clue) -> bool:
    told = _document(clue.text)
    return isinstance(told, dict) and told.keys() >= _CLOCK_KEYS


def _read_clock(clue: Clue, lines: Iterable[str]) -> Facts:
    """Unix time and the node's own clock at one moment."""
    told = _document("\n".join(lines)) or {}
    unix, boot = (
        nanoseconds(str(told.get("collectionTimeBegin", "")), US),
        nanoseconds(str(told.get("clockMonotonicRaw", "")), NS),
    )
    offset = None if unix is None or boot is None else unix - boot
    return Facts("ascend-clock", _TOOL, devices=_named(clue, None), boot_to_unix_ns=offset)


def _recognises_info(clue: Clue) -> bool:
    told = _document(clue.text)
    return isinstance(told, dict) and (
        "DeviceInfo" in told or bool(_NAMED_RANK.search(clue.name)) or "server_list" in told
    )


def _read_info(clue: Clue, lines: Iterable[str]) -> Facts:
    told = _document("\n".join(lines)) or {}
    if "server_list" in told:
        return Facts("ascend-info", _TOOL, devices=tuple(_rank_table(told)))
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


def _rank_table(told: dict[str, Any]) -> Iterable[Device]:
    """The card of each rank, as hccl.json of the job says; the addresses beside it are nobody's business."""
    servers = told["server_list"]
    for server in servers if isinstance(servers, list) else ():
        devices = server.get("device") if isinstance(server, dict) else None
        for device in devices if isinstance(devices, list) else ():
            numbers = [str(device.get(key, "")) if isinstance(device, dict) else "" for key in ("rank_id", "device_id")]
            if all(number.isdecimal() and len(number) < 7 for number in numbers):
                yield Device(Card(index=int(numbers[1])), rank=int(numbers[0]))


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


CLOCK = TextFormat("ascend-clock", _TOOL, "keys collectionTimeBegin, clockMonotonicRaw", _recognises_clock, _read_clock)
INFO = TextFormat("ascend-info", _TOOL, "keys DeviceInfo, server_list", _recognises_info, _read_info)
OTHER = TextFormat("ascend-other", _TOOL, "their names", _recognises_silent, _read_silent)
