"""Reads amd-smi's JSON: lists of devices, and the overview."""

from __future__ import annotations

from telemetry_parsers import units
from telemetry_parsers.model import Plain
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.documents import find_documents
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.amd.amd_smi.entries import OTHER_KINDS, Block, Entry, Path, normalize_key


def cards_in_overview(overview: Plain) -> list[Plain] | None:
    """Return the cards in an overview with their processes, or None for any other object."""
    if not isinstance(overview, dict):
        return None
    cards, processes = overview.get("gpu_info_list"), overview.get("processes")
    if not isinstance(cards, list):
        return None
    versions = _version_info(overview)
    processes_by_gpu: dict[str, list[Plain]] = {}
    for process in processes if isinstance(processes, list) else ():
        if isinstance(process, dict) and "gpu" in process:
            processes_by_gpu.setdefault(str(process["gpu"]), []).append({"process_info": process})
    items: list[dict[str, Plain]] = [_with_common_keys(card, versions) for card in cards if isinstance(card, dict)]
    if isinstance(processes, list):
        for card in items:
            card["process_list"] = processes_by_gpu.pop(str(card.get("gpu", card.get("gpu_id"))), [])
        items += [{"gpu": gpu, "process_list": entries} for gpu, entries in processes_by_gpu.items()]
    return [*items]


def versions_in_overview(overview: dict[str, Plain]) -> dict[str, str]:
    """Return the versions of the tool and of ROCm in an overview, by fact name."""
    versions = _version_info(overview)
    rocm_version = versions.get("rocm version")
    texts = {
        "tool_version": versions.get("amd-smi"),
        "rocm_version": rocm_version[-1] if isinstance(rocm_version, list) and rocm_version else rocm_version,
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _version_info(overview: dict[str, Plain]) -> dict[str, Plain]:
    version_info = overview.get("version_info")
    return version_info if isinstance(version_info, dict) else {}


def _with_common_keys(card: dict[str, Plain], versions: dict[str, Plain]) -> dict[str, Plain]:
    """Return a copy of the card with its partition mode and driver under the keys that other commands print."""
    mode, driver = card.get("partition_mode"), versions.get("driver info", versions.get("amdgpu version"))
    accelerator, slash, memory = mode.partition("/") if isinstance(mode, str) else ("", "", "")
    has_mode = bool(slash) and units.placeholder(str(mode)) is None
    partition: dict[str, Plain] = {"accelerator_partition": accelerator, "memory_partition": memory}
    return {
        **card,
        **({"partition": partition} if has_mode else {}),
        **({"driver": driver} if isinstance(driver, dict) else {}),
    }


_MAX_DEPTH = 10
_GPU_KEYS = ("gpu", "gpu_id")
_LINK_STATUS = "link_status"
_VERSION_KEYS = (
    ("version", "tool_version"),
    ("amdsmi_library_version", "library_version"),
    ("rocm_version", "rocm_version"),
)
# An empty list under one of these keys means a count of 0.
_COUNTED_LISTS = frozenset({"process_list", "retired", "pending"})
# These lists contain the possible modes of a card, not devices.
_MODE_LISTS = frozenset(
    {"partition_profiles", "partition_resources", "accelerator_partition_profiles", "accelerator_partition_resources"}
)


def read_documents(text: str, draft: Draft) -> list[Block] | None:
    """Return the blocks of all devices in JSON text, or None if the text is not from amd-smi."""
    blocks: list[Block] = []
    result = find_documents(text)
    documents = (document for document in result.documents if document.value or not document.fault)
    used_documents = [document for document in documents if _add_document(blocks, draft, document.value)]
    if not used_documents:
        return None
    draft.problems += result.problems(used_documents)
    if result.fault:
        draft.is_cut = True
        end = result.documents[-1].end
        last_text = quote(result.text[max(0, end - 60) : end])
        draft.add_problem(
            "JSON", f"the list is cut off, so only the complete items are read. It ends after: {last_text}"
        )
    return blocks


def error_message(text: str) -> str | None:
    """Return the first error message, as in `{"error": …, "code": …}`, or None if there is none."""
    for document in find_documents(text).documents:
        items = document.value if isinstance(document.value, list) else [document.value]
        for item in items:
            if isinstance(item, dict) and isinstance(item.get("error"), str):
                return str(item["error"])
    return None


def _add_document(blocks: list[Block], draft: Draft, value: Plain) -> bool:
    """Add a block for each device in a document. Return False if the document is not from amd-smi."""
    if isinstance(value, list):
        results = [_add_item(blocks, draft, item) for item in value]
        return any(results) or not results
    if not isinstance(value, dict):
        return False
    if _add_item(blocks, draft, value):
        return True
    lists = {name: items for name, items in value.items() if isinstance(items, list) and _lists_devices(name, items)}
    for name, items in lists.items():
        for item in _flatten_list(name, items):
            _add_item(blocks, draft, item)
    if lists:
        other_names = (name for name in value if name not in lists and normalize_key(name) not in _MODE_LISTS)
        draft.add_unknown(*(name for name in other_names if value[name]))
    return bool(lists)


def _add_item(blocks: list[Block], draft: Draft, item: Plain) -> bool:
    """Add a device, an overview or versions. Return False for any other item."""
    device = _device_in(item)
    if device is not None:
        blocks.append(_build_block(*device, item))
        return True
    cards = cards_in_overview(item)
    if isinstance(item, dict) and cards is not None:
        blocks += [_build_block(*card, value) for value in cards if (card := _device_in(value)) is not None]
        draft.facts.update(versions_in_overview(item))
        return True
    if isinstance(item, dict) and "amdsmi_library_version" in item:
        facts = {name: item.get(key) for key, name in _VERSION_KEYS}
        draft.facts.update({name: value.strip() for name, value in facts.items() if isinstance(value, str)})
        return True
    return False


def _flatten_list(name: str, items: list[Plain]) -> list[Plain]:
    """Return the devices in a possibly nested list. Devices in the list `link_status` get a list of links."""
    devices = [device for item in items for device in (item if isinstance(item, list) else [item])]
    return [_with_links(device, devices) for device in devices] if name == _LINK_STATUS else devices


def _with_links(item: Plain, devices: list[Plain]) -> Plain:
    """Replace a device's `link_status` with the list `links`, as `amd-smi topology` prints it."""
    states = item.get(_LINK_STATUS) if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(states, list) or len(states) != len(devices):
        return item
    links: list[Plain] = [
        {"gpu": device.get("gpu"), "link_type": "XGMI", _LINK_STATUS: state}
        for device, state in zip(devices, states, strict=True)
        if isinstance(device, dict)
    ]
    return {**{key: value for key, value in item.items() if key != _LINK_STATUS}, "links": links}


def _lists_devices(name: str, items: list[Plain]) -> bool:
    if normalize_key(name) in _MODE_LISTS:
        return False
    return name in ("gpu_data", "cpu_data") or any(_device_in(item) is not None for item in _flatten_list(name, items))


def _device_in(item: Plain) -> tuple[str, Plain] | None:
    """Return a device's kind and printed index, or None if the item is not a device."""
    if not isinstance(item, dict):
        return None
    for key in _GPU_KEYS:
        if key in item:
            return "gpu", item[key]
    return next(((kind, item[kind]) for kind in sorted(OTHER_KINDS) if kind in item), None)


def _build_block(kind: str, printed_index: Plain, item: Plain) -> Block:
    index = units.integer(printed_index) if isinstance(printed_index, str) and len(printed_index) < 6 else None
    block = Block(kind, index, f"{kind} {quote(str(printed_index))}")
    if kind == "gpu" and isinstance(item, dict):
        _add_entries(block, {key: value for key, value in item.items() if key not in _GPU_KEYS}, (), 0, _MAX_DEPTH)
    return block


def _add_entries(block: Block, value: Plain, path: Path, group: int, max_depth: int) -> None:
    where = f"{block.where} {'.'.join(path)}"
    if isinstance(value, dict) and not (path and _is_quantity(value)):
        for key, member in value.items() if max_depth else ():
            _add_entries(block, member, (*path, normalize_key(str(key))), group, max_depth - 1)
    elif isinstance(value, list) and not value and path[-1:] and path[-1] in _COUNTED_LISTS:
        block.entries.append(Entry(path, "[]", group, where))
    elif isinstance(value, list):
        for position, item in enumerate(value) if max_depth else ():
            # Values outside lists have the group 0. Items of nested lists have the group of the outermost list's item.
            _add_entries(block, item, path, group or position + 1, max_depth - 1)
    else:
        block.entries.append(Entry(path, _format_value(value), group, where))


def _is_quantity(value: dict[str, Plain]) -> bool:
    """Return whether an object consists of a value, a unit or both, such as `{"value": 35, "unit": "C"}`."""
    return bool(value) and value.keys() <= {"value", "unit"} and not isinstance(value.get("value"), dict | list)


def _format_value(value: Plain) -> str:
    """Format a value as amd-smi prints it in text: a number and its unit."""
    if isinstance(value, dict):
        number_text, unit = _format_value(value.get("value", "a unit without a value:")), value.get("unit")
        has_unit = isinstance(unit, str) and units.placeholder(number_text) is None
        return f"{number_text} {unit}".strip() if has_unit else number_text
    return "" if value is None else str(value)
