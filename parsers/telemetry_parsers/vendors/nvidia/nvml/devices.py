"""Who a GPU or a MIG instance is, and the slow facts of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from telemetry_parsers.library_answers.devices import device_in, instance_in
from telemetry_parsers.library_answers.plain import error_in, mapping, part_of, text, whole
from telemetry_parsers.model import Device, Plain
from telemetry_parsers.vendors.nvidia import VENDOR

_PROFILE_MARK = " MIG "
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
_SWITCH = MappingProxyType({0: "off", 1: "on"})
_COMPUTE_MODES = MappingProxyType({0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"})
_ADDRESSING_MODES = MappingProxyType({0: "none", 1: "hmm", 2: "ats"})
_FABRIC_STATES = MappingProxyType({1: "not_started", 2: "in_progress", 3: "completed"})
_TEXTS = (
    ("firmware", "VbiosVersion"),
    ("gsp_firmware", "GspFirmwareVersion"),
    ("board_part_number", "BoardPartNumber"),
)
# GPUs whose memory is a node of the host's (Grace) have a NumaNodeId; MemoryAffinity shows where the card sits.
_NUMBERS = (("minor", "MinorNumber"), ("memory_numa_node", "NumaNodeId"), ("module", "ModuleId"))
_AFFINITY = "MemoryAffinity.1.0"
# GPUs on one chip with their CPU: Tegra, Orin, Thor, GB10.
_INTEGRATED = frozenset({(5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)})
_WORDS: tuple[tuple[str, str, Mapping[int, str]], ...] = (
    ("architecture", "Architecture", _ARCHITECTURES),
    ("persistence_mode", "PersistenceMode", _SWITCH),
    ("compute_mode", "ComputeMode", _COMPUTE_MODES),
    ("addressing_mode", "AddressingMode", _ADDRESSING_MODES),
)


def gpu(recorded: dict[str, Plain], node: dict[str, Plain]) -> Device:
    """A GPU; one that does not answer any more is down."""
    return device_in(recorded, VENDOR.word, node.get("driver"), tuple(sorted(_gpu_facts(recorded, node))))


def instance(recorded: dict[str, Plain], parent: Device, position: int) -> Device | None:
    """A MIG instance of the GPU at that position; None for one without a number."""
    return instance_in(recorded, parent, position, tuple(sorted(_instance_facts(recorded))))


def capability(recorded: dict[str, Plain]) -> tuple[int, int] | None:
    """The compute capability, such as (9, 0)."""
    version = recorded.get("compute_capability")
    major, minor = whole(part_of(version, 0)), whole(part_of(version, 1))
    return None if major is None or minor is None else (major, minor)


def is_integrated(recorded: dict[str, Plain]) -> bool:
    """Whether it shares a chip and its memory with a CPU: its driver makes up PCIe and memory use."""
    return capability(recorded) in _INTEGRATED


def power_kind(recorded: dict[str, Plain]) -> str | None:
    """Which power the main figure is: the average where the card has one, else that of the moment.

    A card that has reported its average before has one, also when it could not be read this time. The older call, asked where
    no field has a number, gives the average on Ampere (but not GA100, capability 8.0) and newer.
    """
    fields, calls = mapping(recorded.get("fields")), mapping(recorded.get("calls"))
    if "PowerUsage" in calls and error_in(calls["PowerUsage"]) is None:
        version = capability(recorded)
        return None if version is None else "average" if version > (8, 0) else "instant"
    if recorded.get("has_power_average") is True and "power_average" in fields:
        return "average"
    for name, kind in (("power_average", "average"), ("power_instant", "instant")):
        if fields.get(name) is not None and error_in(fields[name]) is None:
            return kind
    return None


def _instance_facts(recorded: dict[str, Plain]) -> Iterator[tuple[str, str]]:
    _, mark, profile = (text(recorded.get("name")) or "").partition(_PROFILE_MARK)
    if mark and profile.strip():
        yield "profile", profile.strip()
    for name in ("gpu_instance", "compute_instance"):
        number = whole(recorded.get(name))
        if number is not None:
            yield name, str(number)


def _gpu_facts(recorded: dict[str, Plain], node: dict[str, Plain]) -> Iterator[tuple[str, str]]:
    calls = mapping(recorded.get("calls"))
    version = capability(recorded)
    cuda = whole(node.get("cuda"))
    facts = {
        "power_kind": power_kind(recorded),
        "compute_capability": None if version is None else f"{version[0]}.{version[1]}",
        "cuda_version": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        **{name: text(calls.get(call)) for name, call in _TEXTS},
        **{name: _digits(calls.get(call)) for name, call in _NUMBERS},
        "numa_node": _only_bit(calls.get(_AFFINITY)),
        **{name: _word(calls.get(call), words) for name, call, words in _WORDS},
    }
    yield from ((name, fact) for name, fact in facts.items() if fact is not None)
    yield from _modes("mig_mode", calls.get("MigMode"))
    yield from _modes("ecc_mode", calls.get("EccMode"))
    yield from _fabric(mapping(calls.get("GpuFabricInfo")))


def _digits(answer: Plain) -> str | None:
    number = whole(answer)
    return None if number is None else str(number)


def _only_bit(answer: Plain) -> str | None:
    """The number of the one bit that is set; None for none, several, or what is no set."""
    nodes = whole(part_of(answer, 0), 1 << 64)
    return str(nodes.bit_length() - 1) if nodes and nodes & (nodes - 1) == 0 else None


def _modes(name: str, answer: Plain) -> Iterator[tuple[str, str]]:
    """A mode, and the one that a reset will bring where that is another."""
    current, pending = (_word(part_of(answer, place), _SWITCH) for place in (0, 1))
    if current is not None:
        yield name, current
    if pending is not None and pending != current:
        yield f"{name}_pending", pending


def _fabric(info: dict[str, Plain]) -> Iterator[tuple[str, str]]:
    state = _word(info.get("state"), _FABRIC_STATES)
    if state is None:
        return
    yield "fabric_state", state
    status, clique, cluster = whole(info.get("status")), whole(info.get("clique")), text(info.get("cluster"))
    if status:
        yield "fabric_status", str(status)
    if state == "completed" and clique is not None and cluster is not None:
        yield "fabric_clique", str(clique)
        yield "fabric_cluster", cluster


def _word(answer: Plain, words: Mapping[int, str]) -> str | None:
    number = whole(answer)
    return None if number is None else words.get(number)
