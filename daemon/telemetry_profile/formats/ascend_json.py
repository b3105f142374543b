"""Reads Ascend's JSON files, and recognises files of Ascend and MindSpore that are not needed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from telemetry_profile.facts.device_timeline import MAX_NAME_CHARACTERS, LinkSums
from telemetry_profile.facts.printed_numbers import MS, NS, US, nanoseconds, parse_index
from telemetry_profile.facts.splits import find_unusual_first
from telemetry_profile.facts.trace_facts import whole_number
from telemetry_profile.format_contract import (
    THIS_RANK,
    Card,
    Device,
    Facts,
    FileSample,
    FirstCollective,
    Kernel,
    NodeFolder,
    NotReadError,
    RankCard,
    Split,
    Step,
    TextFormat,
    sort_kernels,
)

_TOOL = "Ascend profiler"
_TIMES_KEY, _BANDWIDTH_KEY = "Communication Time Info", "Communication Bandwidth Info"
_MATRIX_KEYS = ("Transport Type", "Transit Size(MB)", "Transit Time(ms)")
_MEGABYTE = 10**6
_SUM_OF_TRANSPORTS = "SDMA"  # the sum of HCCS, PCIE and SIO
_TRANSPORTS = frozenset({"HCCS", "HCCS_SW", "PCIE", "RDMA", "ROCE", "STANDARD_ROCE", "SIO", "UB", _SUM_OF_TRANSPORTS})
# Matches repeated values: the sum of a group, and calls that another entry of the matrix already includes.
_REPEATS = re.compile(r"Total Op Info(@|\Z)|[-_](top|middle|bottom)\d*(@|\Z)")
# Matches the end of a name with a call number, such as hcom_allReduce__445_0_1.
_CALL_NUMBER = re.compile(r"(__\d+)?(_\d+)*\Z")
_STEP_KEY = re.compile(r"step\s*(\d{1,18})\Z", re.IGNORECASE)
_RANK_PAIR = re.compile(r"(\d{1,6})-(\d{1,6})\Z")
_RANK_KEY = re.compile(r"\d{1,6}\Z")
_MAX_MIB, _MAX_INFO_MIB, _MAX_NODES, _MAX_RANK = 256, 16, 100_000, 10**6 - 1
_CLOCK_KEYS = {"collectionTimeBegin", "clockMonotonicRaw"}
_DEVICE_FOLDER = re.compile(r"device_(\d{1,4})\Z")
_RANK_IN_NAME = re.compile(r"profiler_info_(\d{1,6})\.json\Z")
# These files do not show how time was spent.
_IGNORED_NAMES = re.compile(
    r"(end_info\.\d+|(\w+_)?timeline_summary(_\d+)*\.json|step_trace_point_info\w*\.json|minddata_cpu_utilization_\d+\.json"
    r"|parallel_strategy_\d+\.json|pipeline_profiling_\d+\.json|flops_(scope_)?\d+\.(json|txt)|dataset_iterator_profiling_\d+\.txt"
    r"|device_queue_profiling_\d+\.txt|minddata_aicpu_\d+\.txt|memory_record\.csv|operator_memory\.csv|profiler_metadata\.json"
    # In msprof, task_time is a subset of op_summary, and the other tables have no step times.
    r"|(task_time|fusion_op|l2_cache|npu_(module_)?mem|static_op_mem|memory_record|operator_memory|(sys|process)_mem|(process_)?cpu_usage"
    r"|ai_(vector_)?core_utilization|aicpu(_mi)?|dp)(_\d+)+\.csv)\Z"
)


def _recognises_communication(file: FileSample) -> bool:
    text = file.text
    return text.lstrip().startswith("{") and (
        f'"{_TIMES_KEY}"' in text or all(f'"{mark}"' in text for mark in _MATRIX_KEYS)
    )


@dataclass(slots=True)
class _RankSums:
    kernels: dict[str, Kernel] = field(default_factory=dict)
    waits: dict[str, int] = field(default_factory=dict)
    calls: list[tuple[int, int, int]] = field(default_factory=list)  # start, length and wait of each call

    def add(self, name: str, step: str, times: Mapping[str, Any], elapsed_ns: int) -> None:
        """Add a call of a collective. If the step is unknown, also store the start and the wait in `calls`."""
        collective, previous = Kernel(name, "communication", 1, elapsed_ns, elapsed_ns), self.kernels.get(name)
        self.kernels[name] = collective if previous is None else previous.plus(collective)
        begin, wait_ns = _number(times, "Start Timestamp(us)", 1e17), _ms_as_ns(times, "Wait Time(ms)")
        if wait_ns is not None:
            self.waits[step] = self.waits.get(step, 0) + wait_ns
        if begin is not None and wait_ns is not None and not step:
            self.calls.append((round(begin * US), elapsed_ns, wait_ns))

    def first_collective(self) -> FirstCollective | None:
        """Return the first collective if it is unusually long."""
        index = find_unusual_first([begin for begin, _, _ in self.calls], [length for _, length, _ in self.calls])
        if index is None:
            return None
        _, elapsed_ns, waited_ns = self.calls[index]
        return FirstCollective(elapsed_ns, Split(wait_ns=self.waits[""] - waited_ns))


@dataclass(slots=True)
class _Communication:
    sums_by_rank: dict[int | None, _RankSums] = field(default_factory=dict)
    links: LinkSums = field(default_factory=LinkSums)


def _read_communication(_file: FileSample, lines: Iterable[str]) -> Facts:
    communication = _Communication()
    for keys, values in _operations(_read_document(lines, _MAX_MIB), ()):
        if _TIMES_KEY in values:
            _add_times(keys, values, communication)
        else:
            _add_matrix_link(keys, values, communication)
    ranks_and_sums = sorted(communication.sums_by_rank.items(), key=lambda item: item[0] or 0)
    devices = tuple(_device_of(rank, sums) for rank, sums in ranks_and_sums)
    return Facts("ascend-communication", _TOOL, devices=devices, links=communication.links.links())


def _operations(node: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Yield the values of each operation, with the keys that lead to them in the nested document."""
    if not isinstance(node, dict) or len(keys) > 6 or (keys and _REPEATS.search(keys[-1])):
        return
    if _TIMES_KEY in node or "Transport Type" in node:
        yield keys, node
        return
    for key, value in node.items():
        yield from _operations(value, (*keys, str(key)))


def _add_times(keys: tuple[str, ...], values: Mapping[str, Any], communication: _Communication) -> None:
    times = values[_TIMES_KEY]
    elapsed_ns = _ms_as_ns(times, "Elapse Time(ms)")
    if elapsed_ns is None:
        return
    # If the file covers all ranks, the innermost key is the rank. Otherwise, it is the operation.
    has_rank_key = len(keys) > 1 and bool(_RANK_KEY.match(keys[-1]))
    rank_sums = communication.sums_by_rank.setdefault(int(keys[-1]) if has_rank_key else None, _RankSums())
    step = next((match[1] for key in keys if (match := _STEP_KEY.match(key))), "")
    rank_sums.add(_collective_name(keys[-2 if has_rank_key else -1]), step, times, elapsed_ns)
    _add_transports(values.get(_BANDWIDTH_KEY), keys[-1] if has_rank_key else "", communication)


def _collective_name(printed: str) -> str:
    """Return a collective's name without the call number, and without parts that may contain a node's address."""
    return _CALL_NUMBER.sub("", printed.partition("@")[0])[:MAX_NAME_CHARACTERS] or "collective"


def _add_transports(transports: Any, rank: str, communication: _Communication) -> None:
    for transport, values in transports.items() if isinstance(transports, dict) else ():
        if transport in _TRANSPORTS and transport != _SUM_OF_TRANSPORTS:
            _add_link(communication.links, transport, rank or THIS_RANK, "all", values)


def _add_matrix_link(keys: tuple[str, ...], values: Mapping[str, Any], communication: _Communication) -> None:
    ends, kind = _RANK_PAIR.match(keys[-1]) if keys else None, values["Transport Type"]
    if ends is not None and ends[1] != ends[2] and isinstance(kind, str) and kind in _TRANSPORTS:
        is_job_wide = not keys[0].lower().startswith("step")
        _add_link(communication.links, kind if is_job_wide else f"{kind} in a group", ends[1], ends[2], values)


def _add_link(links: LinkSums, transport: str, source: str, target: str, values: Any) -> None:
    time, size = _ms_as_ns(values, "Transit Time(ms)"), _number(values, "Transit Size(MB)")
    if size:
        links.add(transport, source, target, round(size * _MEGABYTE), time)


def _number(values: Any, key: str, limit: float = 1e12) -> float | None:
    value = values.get(key) if isinstance(values, dict) else None
    return float(value) if isinstance(value, int | float) and 0 <= value < limit else None


def _ms_as_ns(values: Any, key: str) -> int | None:
    value = _number(values, key)
    return None if value is None else round(value * MS)


def _device_of(rank: int | None, rank_sums: _RankSums) -> Device:
    steps = tuple(Step(f"step {step}", Split(wait_ns=wait_ns)) for step, wait_ns in rank_sums.waits.items() if step)
    return Device(
        rank=rank,
        split=Split(wait_ns=rank_sums.waits.get("")),
        steps=steps,
        kernels=sort_kernels(rank_sums.kernels.values()),
        first_collective=rank_sums.first_collective(),
    )


def _recognises_clock(file: FileSample) -> bool:
    document = _parse_json(file.text)
    return isinstance(document, dict) and document.keys() >= _CLOCK_KEYS


def _read_clock(file: FileSample, lines: Iterable[str]) -> Facts:
    document = _read_object(lines)
    unix_ns = nanoseconds(str(document.get("collectionTimeBegin", "")), US)
    boot_ns = nanoseconds(str(document.get("clockMonotonicRaw", "")), NS)
    offset_ns = None if unix_ns is None or boot_ns is None else unix_ns - boot_ns
    return Facts("ascend-clock", _TOOL, devices=_devices_of_folder(file, None), boot_to_unix_ns=offset_ns)


def _recognises_info(file: FileSample) -> bool:
    # The file may contain only the beginning of a large rank table, so the JSON is not parsed.
    text = file.text
    if not text.lstrip().startswith("{") or '"traceEvents"' in text:
        return False
    return bool(_RANK_IN_NAME.search(file.name)) or '"DeviceInfo"' in text or '"server_list"' in text


def _read_info(file: FileSample, lines: Iterable[str]) -> Facts:
    document = _read_object(lines)
    if "server_list" in document:
        return _read_rank_table(document)
    rank, size = (whole_number(document.get(key), _MAX_RANK) for key in ("rank_id", "rank_size"))
    if rank is None and (match := _RANK_IN_NAME.search(file.name)):
        rank = int(match[1])
    return Facts("ascend-info", _TOOL, job_ranks=size or None, devices=_devices_of_folder(file, rank))


def _read_rank_table(document: dict[str, Any]) -> Facts:
    """Return the card of each rank from the job's hccl.json."""
    cards = tuple(_parse_rank_cards(document["server_list"]))
    return Facts(
        "ascend-info",
        _TOOL,
        job_ranks=len(cards) or None,
        devices=tuple(Device(Card(index=card.index), rank=card.rank) for card in cards),
        rank_cards=cards,
    )


def _parse_rank_cards(servers: Any) -> Iterator[RankCard]:  # JSON of any shape
    for server in servers if isinstance(servers, list) else ():
        devices = server.get("device") if isinstance(server, dict) else None
        for device in devices if isinstance(devices, list) else ():
            rank, index = (
                parse_index(str(device.get(key, ""))) if isinstance(device, dict) else None
                for key in ("rank_id", "device_id")
            )
            if rank is not None and index is not None:
                yield RankCard(_node_digest(str(server.get("server_id", ""))), index, rank)


def _node_digest(address: str) -> str:
    """Return a digest that identifies an address without revealing it."""
    return hashlib.blake2s(address.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _read_nodes(_file: FileSample, lines: Iterable[str]) -> Facts:
    pairs = [line.split() for line in islice(lines, _MAX_NODES)]
    folders = tuple(NodeFolder(_node_digest(pair[0]), pair[1]) for pair in pairs if len(pair) > 1)
    return Facts("ascend-nodes", _TOOL, node_folders=folders)


def _read_object(lines: Iterable[str]) -> dict[str, Any]:
    """Return the JSON object in a file, or {} for other JSON. Raise NotReadError if the JSON is damaged or too large."""
    document = _read_document(lines, _MAX_INFO_MIB)
    return document if isinstance(document, dict) else {}


def _devices_of_folder(file: FileSample, rank: int | None) -> tuple[Device, ...]:
    """Return (device,) with this rank and the number in the name of the folder, or () if both are unknown."""
    folder_match = _DEVICE_FOLDER.match(file.folders[-1]) if file.folders else None
    index = int(folder_match[1]) if folder_match else None
    return () if rank is None and index is None else (Device(Card(index=index), rank=rank),)


def _read_document(lines: Iterable[str], max_mib: int) -> Any:  # JSON of any shape
    kept_lines, length = [], 0
    for line in lines:
        kept_lines.append(line)
        length += len(line) + 1
        if length > max_mib << 20:
            raise NotReadError(f"the file is larger than {max_mib} MiB; pass a folder with fewer steps")
    document = _parse_json("\n".join(kept_lines))
    if document is None:
        raise NotReadError("the JSON is damaged or truncated; copy the file again")
    return document


def _parse_json(text: str) -> Any:  # JSON of any shape
    """Parse JSON, or return None if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # the caller decides whether the file is damaged or has another format
        return None


COMMUNICATION = TextFormat("ascend-communication", _TOOL, _recognises_communication, _read_communication)
CLOCK = TextFormat("ascend-clock", _TOOL, _recognises_clock, _read_clock)
INFO = TextFormat("ascend-info", _TOOL, _recognises_info, _read_info)
NODES = TextFormat("ascend-nodes", _TOOL, lambda file: file.name == "host_ips_mapping.txt", _read_nodes)
OTHER = TextFormat(
    "ascend-other",
    _TOOL,
    lambda file: bool(_IGNORED_NAMES.match(file.name)),
    lambda _file, _lines: Facts("ascend-other", _TOOL),
)
