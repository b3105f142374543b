"""What `amd-smi --json` prints: an overview of all cards and the processes on them, as the other commands list cards."""

from __future__ import annotations

from telemetry_parsers import units
from telemetry_parsers.model import Plain


def cards_of(overview: Plain) -> list[Plain] | None:
    """The cards of an overview, each with its partition, driver and processes; None for anything else."""
    if not isinstance(overview, dict):
        return None
    cards, processes = overview.get("gpu_info_list"), overview.get("processes")
    if not isinstance(cards, list):
        return None
    versions = _versions(overview)
    lists: dict[str, list[Plain]] = {}
    for process in processes if isinstance(processes, list) else ():
        if isinstance(process, dict) and "gpu" in process:
            lists.setdefault(str(process["gpu"]), []).append({"process_info": process})
    items = [_as_elsewhere(card, versions) for card in cards if isinstance(card, dict)]
    if not isinstance(processes, list):
        return items
    named = [{**card, "process_list": lists.pop(str(card.get("gpu", card.get("gpu_id"))), [])} for card in items]
    return [*named, *({"gpu": number, "process_list": listed} for number, listed in lists.items())]


def versions_of(overview: dict[str, Plain]) -> dict[str, str]:
    """The versions of the tool and of ROCm, by the name of their facts."""
    versions = _versions(overview)
    rocm = versions.get("rocm version")
    texts = {
        "tool_version": versions.get("amd-smi"),
        "rocm_version": rocm[-1] if isinstance(rocm, list) and rocm else rocm,
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _versions(overview: dict[str, Plain]) -> dict[str, Plain]:
    versions = overview.get("version_info")
    return versions if isinstance(versions, dict) else {}


def _as_elsewhere(card: dict[str, Plain], versions: dict[str, Plain]) -> dict[str, Plain]:
    """A card with its partition mode and its driver where the other commands have them."""
    mode, driver = card.get("partition_mode"), versions.get("driver info", versions.get("amdgpu version"))
    accelerator, slash, memory = mode.partition("/") if isinstance(mode, str) else ("", "", "")
    has_mode = bool(slash) and units.placeholder(str(mode)) is None
    partition: dict[str, Plain] = {"accelerator_partition": accelerator, "memory_partition": memory}
    return {
        **card,
        **({"partition": partition} if has_mode else {}),
        **({"driver": driver} if isinstance(driver, dict) else {}),
    }
