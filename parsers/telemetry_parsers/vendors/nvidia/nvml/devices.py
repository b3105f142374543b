"""Reads the facts and processes of a GPU or MIG instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from telemetry_parsers.library_answers import DeviceDraft, error_in, integer, mapping, number, part_of, text
from telemetry_parsers.metrics import BY_KEY, in_range
from telemetry_parsers.model import Absent, Plain, Process, Value
from telemetry_parsers.ownership import ProcessKind

_PROFILE_SEPARATOR = " MIG "
_ARCHITECTURES = MappingProxyType(
    {
        2: "kepler",
        3: "maxwell",
        4: "pascal",
        5: "volta",
        6: "turing",
        7: "ampere",
        8: "ada",
        9: "hopper",
        10: "blackwell",
        13: "rubin",
    }
)
_OFF_ON = MappingProxyType({0: "off", 1: "on"})
_COMPUTE_MODES = MappingProxyType({0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"})
_ADDRESSING_MODES = MappingProxyType({0: "none", 1: "hmm", 2: "ats"})
_FABRIC_STATES = MappingProxyType({1: "not_started", 2: "in_progress", 3: "completed"})
_TEXT_FACTS = (
    ("firmware", "VbiosVersion"),
    ("gsp_firmware", "GspFirmwareVersion"),
    ("board_part_number", "BoardPartNumber"),
)
# NumaNodeId is the node of the GPU's own memory (Grace). MemoryAffinity contains the NUMA node nearest to the card.
_NUMBER_FACTS = (("minor", "MinorNumber"), ("memory_numa_node", "NumaNodeId"), ("module", "ModuleId"))
_AFFINITY_CALL = "MemoryAffinity.1.0"
# Compute capabilities of GPUs that share a chip with a CPU: Tegra, Orin, Thor, GB10.
_INTEGRATED_CAPABILITIES = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)})
_WORD_FACTS: tuple[tuple[str, str, Mapping[int, str]], ...] = (
    ("architecture", "Architecture", _ARCHITECTURES),
    ("persistence_mode", "PersistenceMode", _OFF_ON),
    ("compute_mode", "ComputeMode", _COMPUTE_MODES),
    ("addressing_mode", "AddressingMode", _ADDRESSING_MODES),
)


def capability(record: dict[str, Plain]) -> tuple[int, int] | None:
    """Return the compute capability, such as (9, 0)."""
    version = record.get("compute_capability")
    major, minor = integer(part_of(version, 0)), integer(part_of(version, 1))
    return None if major is None or minor is None else (major, minor)


def is_integrated(record: dict[str, Plain]) -> bool:
    """Return whether the GPU shares a chip and memory with a CPU."""
    return capability(record) in _INTEGRATED_CAPABILITIES


def power_kind(record: dict[str, Plain]) -> str | None:
    """Return whether the main power is an `average` or an `instant` value, or None if unknown."""
    fields, calls = mapping(record.get("fields")), mapping(record.get("calls"))
    if "PowerUsage" in calls and error_in(calls["PowerUsage"]) is None:
        version = capability(record)
        # PowerUsage returns an average on Ampere and newer GPUs, except on GA100 (capability 8.0).
        return None if version is None else "average" if version > (8, 0) else "instant"
    # If a card has ever reported an average, the main power reading remains the average.
    if record.get("has_power_average") is True and "power_average" in fields:
        return "average"
    for name, kind in (("power_average", "average"), ("power_instant", "instant")):
        if fields.get(name) is not None and error_in(fields[name]) is None:
            return kind
    return None


def instance_facts(record: dict[str, Plain]) -> Iterator[tuple[str, str]]:
    """Yield the facts of a MIG instance: its profile, GPU instance id and compute instance id."""
    _, separator, profile = (text(record.get("name")) or "").partition(_PROFILE_SEPARATOR)
    if separator and profile.strip():
        yield "profile", profile.strip()
    for name in ("gpu_instance", "compute_instance"):
        instance_id = integer(record.get(name))
        if instance_id is not None:
            yield name, str(instance_id)


def gpu_facts(record: dict[str, Plain], node: dict[str, Plain]) -> Iterator[tuple[str, str]]:
    """Yield the facts of a GPU, such as its architecture and modes."""
    calls = mapping(record.get("calls"))
    version = capability(record)
    cuda = integer(node.get("cuda"))
    facts = {
        "power_kind": power_kind(record),
        "compute_capability": None if version is None else f"{version[0]}.{version[1]}",
        "memory_kind": "unified" if is_integrated(record) else None,
        "cuda_version": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        **{name: text(calls[call]) for name, call in _TEXT_FACTS if call in calls},
        **{name: _format_integer(calls[call]) for name, call in _NUMBER_FACTS if call in calls},
        "numa_node": _single_bit_position(calls.get(_AFFINITY_CALL)),
        **{name: _word_for(calls[call], words) for name, call, words in _WORD_FACTS if call in calls},
    }
    yield from ((name, fact) for name, fact in facts.items() if fact is not None)
    for name, call in (("mig_mode", "MigMode"), ("ecc_mode", "EccMode")):
        if call in calls:
            yield from _mode_facts(name, calls[call])
    yield from _fabric_facts(mapping(calls.get("GpuFabricInfo")))


def _format_integer(answer: Plain) -> str | None:
    number = integer(answer)
    return None if number is None else str(number)


def _single_bit_position(answer: Plain) -> str | None:
    """Return the position of the only set bit, or None unless exactly one bit is set."""
    bits = integer(part_of(answer, 0), 1 << 64)
    return str(bits.bit_length() - 1) if bits and bits & (bits - 1) == 0 else None


def _mode_facts(name: str, answer: Plain) -> Iterator[tuple[str, str]]:
    current, pending = (_word_for(part_of(answer, position), _OFF_ON) for position in (0, 1))
    if current is not None:
        yield name, current
    if pending is not None and pending != current:
        yield f"{name}_pending", pending


def _fabric_facts(fabric: dict[str, Plain]) -> Iterator[tuple[str, str]]:
    state = _word_for(fabric.get("state"), _FABRIC_STATES)
    if state is None:
        return
    yield "fabric_state", state
    status, clique, cluster = integer(fabric.get("status")), integer(fabric.get("clique")), text(fabric.get("cluster"))
    if status:
        yield "fabric_status", str(status)
    if state == "completed" and clique is not None and cluster is not None:
        yield "fabric_clique", str(clique)
        yield "fabric_cluster", cluster


def _word_for(answer: Plain, words: Mapping[int, str]) -> str | None:
    code = integer(answer)
    return None if code is None else words.get(code)


# The largest PID of Linux.
_MAX_PID = 1 << 22
_MAX_ENTRIES = 100_000
_MAX_PERCENT = 100
# (PID, GPU instance id, compute instance id)
_ProcessKey = tuple[int, int | None, int | None]
# If a process is in several lists, the last kind in this order is used.
_KIND_BY_LIST: Mapping[str, ProcessKind] = {"Graphics": "graphics", "Compute": "compute", "MPSCompute": "mps"}
_RANK_BY_KIND = {kind: rank for rank, kind in enumerate(_KIND_BY_LIST.values())}


def read_processes(
    answer: Plain, utilization: Plain, device_draft: DeviceDraft, *, is_unified: bool = False
) -> tuple[Process, ...]:
    """Return a device's processes. Store their count and, if `is_unified`, their total memory."""
    processes: dict[_ProcessKey, Process] = {}
    lists = mapping(answer).items()
    lengths = [
        _read_list(kind, entries, processes, device_draft) for kind, entries in lists if error_in(entries) is None
    ]
    failures = [
        device_draft.absence_of(error, f"{kind} processes") for kind, error in lists if error_in(error) is not None
    ]
    absent_values = [value for value in (*lengths, *failures) if isinstance(value, Absent)]
    if not lengths and not absent_values:
        return ()
    known_count: Value = float(len(processes)) if lengths else Absent.NOT_SUPPORTED
    count = next((absence for absence in absent_values if absence is not Absent.NOT_SUPPORTED), known_count)
    device_draft.add("processes", count, source="processes")
    if is_unified:
        known_bytes = [used for process in processes.values() if (used := process.memory_used_bytes) is not None]
        total = float(sum(known_bytes)) if len(known_bytes) == len(processes) else Absent.NOT_REPORTED
        device_draft.add("memory_processes_bytes", count if isinstance(count, Absent) else total, source="processes")
    return _with_utilization(tuple(processes.values()), utilization)


def _with_utilization(processes: tuple[Process, ...], samples: Plain) -> tuple[Process, ...]:
    """Return the processes, with their utilization if the driver reports samples."""
    if not isinstance(samples, list) or len(samples) > _MAX_ENTRIES:
        return processes
    ratios_by_pid = dict(sample for sample in map(_utilization_sample, samples) if sample is not None)
    # The driver samples only active processes, so a process without a sample was idle. A sample with an unlisted PID
    # may belong to any listed process (MPS, some containers), or to a process that has ended.
    idle = 0.0 if ratios_by_pid.keys() <= {process.pid for process in processes} else None
    return tuple(replace(process, utilization_ratio=ratios_by_pid.get(process.pid, idle)) for process in processes)


def _utilization_sample(sample: Plain) -> tuple[int, float | None] | None:
    """Return (PID, ratio), or None if the sample is invalid."""
    if not isinstance(sample, list) or len(sample) != 2:
        return None
    pid, percent = integer(sample[0], _MAX_PID + 1), integer(sample[1], _MAX_PERCENT + 1)
    return None if not pid else (pid, None if percent is None else percent / _MAX_PERCENT)


def _read_list(kind: str, answer: Plain, processes: dict[_ProcessKey, Process], device_draft: DeviceDraft) -> Value:
    """Add the entries of a list to `processes`. Return their number, or an `Absent` value for an invalid list."""
    if not isinstance(answer, list) or len(answer) > _MAX_ENTRIES:
        return Absent.NOT_UNDERSTOOD
    entries = [_read_entry(kind, entry, device_draft) for entry in answer]
    if any(entry is None for entry in entries):
        device_draft.add_problem(f"{kind} processes: invalid entries")
        return Absent.NOT_UNDERSTOOD
    for key, process in (entry for entry in entries if entry is not None):
        previous = processes.get(key)
        processes[key] = process if previous is None else _merge_processes(previous, process)
    return float(len(entries))


def _merge_processes(previous: Process, process: Process) -> Process:
    memory = process.memory_used_bytes if previous.memory_used_bytes is None else previous.memory_used_bytes
    return replace(
        previous,
        memory_used_bytes=memory,
        kind=max(previous.kind, process.kind, key=lambda kind: _RANK_BY_KIND.get(kind, -1)),
    )


def _read_entry(kind: str, entry: Plain, device_draft: DeviceDraft) -> tuple[_ProcessKey, Process] | None:
    if not isinstance(entry, list) or len(entry) != 5:
        return None
    pid = integer(entry[0], _MAX_PID + 1)
    memory = number(entry[2])
    if not pid or memory is Absent.NOT_UNDERSTOOD:
        return None
    key = (pid, integer(entry[3], 1 << 32), integer(entry[4], 1 << 32))
    instance = "" if key[1] is None else str(key[1])
    used = _used_bytes(kind, memory, device_draft)
    return key, Process(
        device_draft.device, pid, text(entry[1]) or "", used, kind=_KIND_BY_LIST.get(kind, ""), instance=instance
    )


def _used_bytes(kind: str, memory: Value, device_draft: DeviceDraft) -> float | None:
    """Return the memory that a process uses, or None if the value is absent or impossible."""
    if isinstance(memory, Absent):
        return None
    used = in_range(BY_KEY["memory_used_bytes"], memory)
    if isinstance(used, Absent):
        device_draft.add_problem(f"{kind} processes: no process can use {memory:.0f} bytes of memory")
        return None
    return used
