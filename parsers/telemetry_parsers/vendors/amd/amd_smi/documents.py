"""amd-smi's JSON: lists of devices, with or without the envelope of 7.x, several documents in a row, cut-off lists."""

from __future__ import annotations

from telemetry_parsers import units
from telemetry_parsers.model import Plain, Problem
from telemetry_parsers.text.documents import find_documents
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.amd.amd_smi.blocks import Block, Entry, Outcome, Path, plain_key
from telemetry_parsers.vendors.amd.amd_smi.words import OTHER_KINDS

_DEEPEST = 10
_GPU_KEYS = ("gpu", "gpu_id")
_LINK_STATES = "link_status"
_VERSIONS = (
    ("version", "tool_version"),
    ("amdsmi_library_version", "library_version"),
    ("rocm_version", "rocm_version"),
)
# Of these an empty list says that there are none.
_COUNTED = frozenset({"process_list", "retired", "pending"})
# Lists in an envelope that describe modes which a card could have, not what it is.
_NOT_DEVICES = frozenset(
    {"partition_profiles", "partition_resources", "accelerator_partition_profiles", "accelerator_partition_resources"}
)


def read_documents(text: str) -> Outcome | None:
    """What the JSON in this text says; None when none of it is amd-smi's."""
    outcome = Outcome("json")
    found = find_documents(text)
    taken = [item for item in found.documents if (item.value or not item.fault) and _take(outcome, item.value)]
    if not taken:
        return None
    outcome.problems += found.problems(taken)
    if found.fault:
        outcome.complete = False
        end = found.documents[-1].end
        before = quote(found.text[max(0, end - 60) : end])
        problem = f"the list is cut off; what stands whole before it is read: {before}"
        outcome.problems.append(Problem("JSON", problem))
    return outcome


def error_of(text: str) -> str | None:
    """The message of `{"error": …, "code": …}`, None where the text holds no such object."""
    for document in find_documents(text).documents:
        items = document.value if isinstance(document.value, list) else [document.value]
        for item in items:
            if isinstance(item, dict) and isinstance(item.get("error"), str):
                return str(item["error"])
    return None


def _take(outcome: Outcome, value: Plain) -> bool:
    """Add what a document says; False when it is none of amd-smi's."""
    if isinstance(value, list):
        taken = [_take_item(outcome, item) or _take_overview(outcome, item) for item in value]
        return any(taken) or not taken
    if not isinstance(value, dict):
        return False
    if _take_item(outcome, value) or _take_overview(outcome, value):
        return True
    lists = [(name, items) for name, items in value.items() if isinstance(items, list) and _device_list(name, items)]
    for name, items in lists:
        for item in _items(name, items):
            _take_item(outcome, item)
    others = [name for name in value if name not in dict(lists) and plain_key(name) not in _NOT_DEVICES]
    if lists:
        outcome.unknown.update(dict.fromkeys(quote(name) for name in others if value[name]))
    return bool(lists)


def _items(name: str, items: list[Plain]) -> list[Plain]:
    """The items of a list in an envelope; `xgmi_metric` holds a list of them, `link_status` tells its links by place."""
    flat = [inner for item in items for inner in (item if isinstance(item, list) else [item])]
    return [_with_neighbours(item, flat) for item in flat] if name == _LINK_STATES else flat


def _with_neighbours(item: Plain, devices: list[Plain]) -> Plain:
    """A device of `link_status` with its links as `topology` tells them: the states stand in the order of the devices."""
    states = item.get(_LINK_STATES) if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(states, list) or len(states) != len(devices):
        return item
    links: list[Plain] = [
        {"gpu": device.get("gpu"), "link_type": "XGMI", _LINK_STATES: state}
        for device, state in zip(devices, states, strict=True)
        if isinstance(device, dict)
    ]
    return {**{key: value for key, value in item.items() if key != _LINK_STATES}, "links": links}


def _take_overview(outcome: Outcome, value: Plain) -> bool:
    """Add what `amd-smi --json` says, the overview of all cards and the processes on them; False for anything else."""
    if not isinstance(value, dict):
        return False
    cards, users, said = (value.get(name) for name in ("gpu_info_list", "processes", "version_info"))
    if not isinstance(cards, list):
        return False
    versions = said if isinstance(said, dict) else {}
    start = len(outcome.blocks)
    for item in cards:
        _take_item(outcome, _as_elsewhere(item, versions))
    for number, item in enumerate(users if isinstance(users, list) else [], 1):
        _take_item(outcome, item, ("process_info",), number)
    blocks = outcome.blocks[start:]
    busy = {block.index for block in blocks if any(entry.path[0] == "process_info" for entry in block.entries)}
    for block in blocks if isinstance(users, list) else []:
        if block.index not in busy:
            block.entries.append(Entry(("process_info",), "[]", 0, block.where))
    rocm = versions.get("rocm version")
    told = (
        ("tool_version", versions.get("amd-smi")),
        ("rocm_version", rocm[-1] if isinstance(rocm, list) and rocm else rocm),
    )
    outcome.facts.update({name: version for name, version in told if isinstance(version, str)})
    return True


def _as_elsewhere(item: Plain, versions: dict[str, Plain]) -> Plain:
    """A card of the overview with its partition mode and its driver where the other forms have them."""
    if not isinstance(item, dict):
        return item
    mode, driver = item.get("partition_mode"), versions.get("driver info", versions.get("amdgpu version"))
    accelerator, slash, memory = mode.partition("/") if isinstance(mode, str) else ("", "", "")
    is_told = bool(slash) and units.placeholder(str(mode)) is None
    partition: dict[str, Plain] = {"accelerator_partition": accelerator, "memory_partition": memory}
    return {
        **item,
        **({"partition": partition} if is_told else {}),
        **({"driver": driver} if isinstance(driver, dict) else {}),
    }


def _device_list(name: str, items: list[Plain]) -> bool:
    if plain_key(name) in _NOT_DEVICES:
        return False
    return name in ("gpu_data", "cpu_data") or any(_kind(item) is not None for item in _items(name, items))


def _kind(item: Plain) -> tuple[str, Plain] | None:
    """The kind of device that an item speaks of, with its number."""
    if not isinstance(item, dict):
        return None
    for key in _GPU_KEYS:
        if key in item:
            return "gpu", item[key]
    return next(((kind, item[kind]) for kind in sorted(OTHER_KINDS) if kind in item), None)


def _take_item(outcome: Outcome, item: Plain, path: Path = (), group: int = 0) -> bool:
    found = _kind(item)
    if found is not None:
        kind, number = found
        index = int(number) if isinstance(number, str) and number.isdecimal() and len(number) < 6 else None
        block = Block(kind, index, f"{kind} {quote(str(number))}")
        if kind == "gpu":
            _flatten(block, {key: value for key, value in item.items() if key not in _GPU_KEYS}, path, group, _DEEPEST)
        outcome.blocks.append(block)
        return True
    if isinstance(item, dict) and "amdsmi_library_version" in item:
        facts = {name: item.get(key) for key, name in _VERSIONS}
        outcome.facts.update({name: value.strip() for name, value in facts.items() if isinstance(value, str)})
        return True
    return False


def _flatten(block: Block, value: Plain, path: Path, group: int, depth: int) -> None:
    where = f"{block.where} {'.'.join(path)}"
    if isinstance(value, dict) and not (path and _is_quantity(value)):
        for key, inner in value.items() if depth else ():
            _flatten(block, inner, (*path, plain_key(str(key))), group, depth - 1)
    elif isinstance(value, list) and not value and path[-1:] and path[-1] in _COUNTED:
        block.entries.append(Entry(path, "[]", group, where))
    elif isinstance(value, list):
        for position, inner in enumerate(value) if depth else ():
            _flatten(block, inner, path, group or position + 1, depth - 1)
    else:
        block.entries.append(Entry(path, _text(value), group, where))


def _is_quantity(value: dict[str, Plain]) -> bool:
    """Whether an object is a number and its unit, or what is left of one."""
    return bool(value) and value.keys() <= {"value", "unit"} and not isinstance(value.get("value"), dict | list)


def _text(value: Plain) -> str:
    """A value as the text form prints it: number and unit."""
    if isinstance(value, dict):
        number, unit = _text(value.get("value", "a unit without a value:")), value.get("unit")
        has_unit = isinstance(unit, str) and units.placeholder(number) is None
        return f"{number} {unit}".strip() if has_unit else number
    return "" if value is None else str(value)
