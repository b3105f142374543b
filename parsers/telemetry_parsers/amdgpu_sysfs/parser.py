"""AMD's and Hygon's cards through the files of their drivers: what to read, and what it says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from telemetry_parsers import units
from telemetry_parsers.amdgpu_sysfs import blob, values
from telemetry_parsers.amdgpu_sysfs.saved import saved_files
from telemetry_parsers.amdgpu_sysfs.topology import Node, nodes_of
from telemetry_parsers.amdgpu_sysfs.tree import DRIVERS, CardFiles, Tree, is_folder, tree_of
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.metrics import reading, states
from telemetry_parsers.model import Absent, Capture, Device, Files, Output, Poll, Problem, Process, Reading, Report
from telemetry_parsers.rocm.keys import level_word
from telemetry_parsers.text.answers import failed, not_read, told
from telemetry_parsers.text.lines import MOST_LINES, foreign_tool, lines, quote

SOURCE = "amdgpu-sysfs"
_MOST_SENSORS = 16
_LOUD = (Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE)
_RAS = "ras/"
_RAS_END = "_err_count"


@dataclass(slots=True)
class _Read:
    """What is collected over all cards."""

    devices: list[Device] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)


def parse(capture: Capture) -> Report:
    """What the drivers' files say: devices and readings, or the reason why there are none."""
    refusal = not_read(capture)
    if refusal is not None:
        return refusal
    outputs = _files(capture.outputs)
    if isinstance(outputs, Report):
        return outputs
    tree = tree_of(outputs)
    read = _Read()
    _read_cards(tree, read)
    nodes = nodes_of(tree)
    _read_nodes(nodes, read)
    _read_processes(tree, nodes, read)
    forbidden = [output for output in outputs if output.status in (1, 13)]
    if not read.devices and forbidden:
        return failed("no_permission", forbidden[0].name, "may not be read; run it as a user who may read /sys")
    return Report(
        outcome="ok" if read.devices else "no_devices",
        devices=tuple(read.devices),
        readings=tuple(read.readings),
        processes=tuple(read.processes),
        problems=told(read.problems),
        unknown_fields=tuple(read.unknown),
        form="data",
    )


def _files(outputs: Sequence[Output]) -> list[Output] | Report:
    """The files of a capture; of a text that was saved, the files in it."""
    texts = [output for output in outputs if not output.name.startswith("/") and output.data is None]
    if not texts:
        return list(outputs)
    text = "\n".join(output.text for output in texts)
    if text.count("\n") > MOST_LINES * 10:
        return failed("not_understood", "text", "far more lines than any node has files")
    # A path that ends at the card is the beginning of a longer one, where the text was cut.
    found = [output for output in saved_files(lines(text)) if not is_folder(output.name)]
    tree = tree_of(found)
    if tree.cards or tree.nodes:
        return found
    foreign = next((tool for output in texts if (tool := foreign_tool(output.text, SOURCE)) is not None), None)
    if foreign is not None:
        return Report("not_mine", problems=(Problem("text", f"this is output of {foreign}, not files of a driver"),))
    first = next((line for line in text.splitlines() if line.strip()), "")
    what = "no output" if not first else f"no file of a card or of KFD's topology in it: {quote(first)}"
    return failed("not_understood", "text", what)


def _read_cards(tree: Tree, read: _Read) -> None:
    for card in sorted(tree.cards.values(), key=lambda card: (card.bus_id, card.number or 0)):
        if not card.vendor or not (card.listed or card.files):
            continue
        # Its folder is listed and its files are left alone: the reader found it suspended.
        if card.listed and not card.files:
            read.devices.append(Device(card.vendor, bus_id=card.bus_id or None))
            read.readings.append(reading(len(read.devices) - 1, "suspended", 1.0))
            continue
        _read_card(card, tree.versions.get(card.driver) or None, read)


def _read_card(card: CardFiles, driver: str | None, read: _Read) -> None:
    position = len(read.devices)
    found: dict[tuple[str, str], Reading] = {}
    kinds: dict[str, Reading] = {}
    if card.text("power/runtime_status"):
        _keep(found, reading(position, "suspended", float(card.text("power/runtime_status") == "suspended")))
    for name, wanted in values.FIELDS.items():
        if name in card.files:
            item = reading(position, wanted.metric, values.value_of(card.files[name], wanted.read), wanted.label)
            _keep(found, item)
            if wanted.power_kind:
                kinds.setdefault(wanted.power_kind, item)
    for item in (*_sensors(position, card), *_clocks(position, card), *_fan(position, card), *_errors(position, card)):
        _keep(found, item)
    _read_blob(position, card, found, kinds, read)
    _level(position, card, found)
    kind = _main_power(position, kinds, found)
    read.devices.append(_device(card, driver, kind))
    read.readings.extend(found.values())
    for item in found.values():
        if item.value in _LOUD:
            where = f"{card.bus_id or card.number} {item.metric}{item.label and ' ' + item.label}"
            read.problems.append(Problem(where, f"what the driver says is {item.value.value}"))


def _device(card: CardFiles, driver: str | None, power_kind: str) -> Device:
    facts = {"power_kind": power_kind} if power_kind else {}
    names = {"chip_id": "device", "firmware": "vbios_version", "numa_node": "numa_node"}
    names |= {"compute_partition": "current_compute_partition", "memory_partition": "current_memory_partition"}
    facts |= {fact: text for fact, name in names.items() if (text := card.text(name)) and text != "-1"}
    return Device(
        vendor=card.vendor,
        index=card.number,
        model=card.text("product_name") or None,
        uuid=_known(card.text("unique_id")),
        bus_id=card.bus_id or None,
        serial=_known(card.text("serial_number")),
        driver=driver,
        facts=tuple(sorted(facts.items())),
    )


def _known(text: str) -> str | None:
    return None if not text.strip("0") or units.placeholder(text) is not None else text


def _sensors(position: int, card: CardFiles) -> Iterable[Reading]:
    for number in range(1, _MOST_SENSORS):
        source = card.files.get(f"temp{number}_input")
        if source is None:
            continue
        word = values.sensor_word(card.text(f"temp{number}_label"), number)
        yield reading(position, "temperature_celsius", values.value_of(source, values.MILLICELSIUS), word)
        for suffix, metric in values.LIMITS.items():
            limit = card.files.get(f"temp{number}_{suffix}")
            if limit is not None:
                yield reading(position, metric, values.value_of(limit, values.limit(values.MILLICELSIUS)), word)


def _clocks(position: int, card: CardFiles) -> Iterable[Reading]:
    for name, domain in values.CLOCKS.items():
        levels = card.files.get(name)
        if levels is not None:
            yield reading(position, "clock_hertz", values.value_of(levels, values.current_clock), domain)
            highest = values.value_of(levels, values.highest_clock)
            if not isinstance(highest, Absent) and highest > 0:
                yield reading(position, "clock_max_hertz", highest, domain)


def _fan(position: int, card: CardFiles) -> Iterable[Reading]:
    """The share of the fan's highest speed; its setting (pwm) is not what it does."""
    speed, highest = units.number(card.text("fan1_input")), units.number(card.text("fan1_max"))
    if not isinstance(speed, Absent) and not isinstance(highest, Absent) and highest > 0:
        yield reading(position, "fan_ratio", speed / highest)


def _errors(position: int, card: CardFiles) -> Iterable[Reading]:
    metrics = {"ue": "ecc_uncorrected_total", "ce": "ecc_corrected_total"}
    for name, output in sorted(card.files.items()):
        if name.startswith(_RAS) and name.endswith(_RAS_END):
            block = values.word(name.removeprefix(_RAS).removesuffix(_RAS_END)) or "other"
            for kind, value in (values.error_counts(output.text) if not output.status else {}).items():
                yield reading(position, metrics[kind], value, block)


def _read_blob(
    position: int, card: CardFiles, found: dict[tuple[str, str], Reading], kinds: dict[str, Reading], read: _Read
) -> None:
    """The binary table fills what no file told."""
    output = card.files.get("gpu_metrics")
    if output is None or output.status:
        return
    try:
        told_by_blob = blob.read_blob(blob.content_of(output.data))
    except blob.UnknownBlobError as error:
        read.unknown[f"gpu_metrics {error}"] = None
        return
    for item in told_by_blob:
        entry = reading(position, item.metric, item.value, item.label)
        _keep(found, entry)
        kind = {"power_average_watts": "average", "power_instant_watts": "instant"}.get(item.metric)
        if kind is not None and isinstance(kinds.get(kind, entry).value, Absent):
            kinds[kind] = entry
        elif kind is not None:
            kinds.setdefault(kind, entry)


def _keep(found: dict[tuple[str, str], Reading], item: Reading) -> None:
    known = found.get((item.metric, item.label))
    if known is None or (isinstance(known.value, Absent) and not isinstance(item.value, Absent)):
        found[item.metric, item.label] = item


def _level(position: int, card: CardFiles, found: dict[tuple[str, str], Reading]) -> None:
    word = level_word(card.text("power_dpm_force_performance_level"))
    if not isinstance(word, Absent):
        for item in states(position, "performance_level", word):
            _keep(found, item)


def _main_power(position: int, kinds: dict[str, Reading], found: dict[tuple[str, str], Reading]) -> str:
    """The main figure is the average where the card tells it, as rocm-smi has it, else the instantaneous power."""
    for kind in ("average", "instant"):
        item = kinds.get(kind)
        if item is not None and not isinstance(item.value, Absent):
            _keep(found, reading(position, "power_watts", item.value))
            return kind
    for item in kinds.values():
        _keep(found, reading(position, "power_watts", item.value))
    return ""


def _read_nodes(nodes: Iterable[Node], read: _Read) -> None:
    """KFD's nodes: what they know of a card, and the partitions of cards."""
    places = {device.bus_id: position for position, device in enumerate(read.devices) if device.bus_id}
    asleep = {item.device for item in read.readings if item.metric == "suspended" and item.value == 1.0}
    for node in nodes:
        if node.partition is None:
            position = places.get(node.bus_id)
            if position is None:
                position = places[node.bus_id] = len(read.devices)
                read.devices.append(Device(node.vendor, uuid=node.unique_id, bus_id=node.bus_id))
            read.devices[position] = _with_facts(read.devices[position], node)
        elif node.bus_id in places:
            position = len(read.devices)
            device = Device(
                node.vendor,
                uuid=node.unique_id,
                bus_id=node.bus_id,
                partition=node.partition,
                parent=places[node.bus_id],
            )
            read.devices.append(_with_facts(device, node))
        else:
            continue
        if node.compute_units is not None and position not in asleep:
            read.readings.append(reading(position, "compute_units", node.compute_units))


def _with_facts(device: Device, node: Node) -> Device:
    facts = dict(device.facts) | {"kfd_node": str(node.number)}
    if node.gpu_id:
        facts["gpu_id"] = node.gpu_id
    if node.gfx_target:
        facts["gfx_version"] = node.gfx_target
    return replace(device, uuid=device.uuid or node.unique_id, facts=tuple(sorted(facts.items())))


def _read_processes(tree: Tree, nodes: Iterable[Node], read: _Read) -> None:
    by_gpu = {node.gpu_id: (node.bus_id, node.partition) for node in nodes if node.gpu_id}
    places = {(device.bus_id, device.partition): position for position, device in enumerate(read.devices)}
    for (pid, gpu_id), output in sorted(tree.processes.items()):
        position = places.get(by_gpu.get(gpu_id, ("", None)))
        used = units.number(output.text) if not output.status else Absent.NOT_REPORTED
        if position is not None and used != 0.0:
            known = None if isinstance(used, Absent) or used < 0 else used
            read.processes.append(Process(position, pid, "", known))
    if tree.processes:
        for position in sorted(set(places.values())):
            count = sum(process.device == position for process in read.processes)
            read.readings.append(reading(position, "processes", float(count)))


def _of_each(*names: str) -> tuple[str, ...]:
    return tuple(f"/sys/bus/pci/drivers/{driver}/*:*:*.*/{name}" for driver in DRIVERS for name in names)


_KFD = "/sys/class/kfd/kfd"
_NODES = (f"{_KFD}/topology/nodes/*/gpu_id", f"{_KFD}/topology/nodes/*/properties")
# A card that sleeps is not woken: nothing in its folder is opened but this, which tells that it does.
_ASLEEP = (("power/runtime_status", "suspended"),)
# pcie_bw is left out: reading it takes a second.
_FAST = (
    "vendor", "device", "product_name", "unique_id", "power/runtime_status", "gpu_busy_percent", "mem_busy_percent",
    "mem_info_vram_total", "mem_info_vram_used", "chip_power_average", "pp_dpm_sclk", "pp_dpm_mclk", "pp_dpm_socclk",
    "pp_dpm_fclk", "power_dpm_force_performance_level", "hwmon/hwmon*/temp*_input", "hwmon/hwmon*/temp*_label",
    "hwmon/hwmon*/temp*_crit", "hwmon/hwmon*/temp*_emergency", "hwmon/hwmon*/power1_average", "hwmon/hwmon*/power1_input",
    "hwmon/hwmon*/power1_cap", "hwmon/hwmon*/power1_cap_default", "hwmon/hwmon*/power1_cap_max",
    "hwmon/hwmon*/power1_cap_min", "hwmon/hwmon*/fan1_input", "hwmon/hwmon*/fan1_max",
)  # fmt: skip
_SLOW = (
    "vendor",
    "ras/*_err_count",
    "pcie_replay_count",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
)
_RARE = (
    "vendor",
    "device",
    "serial_number",
    "vbios_version",
    "numa_node",
    "current_compute_partition",
    "current_memory_partition",
)

PARSER = SourceParser(
    name=SOURCE,
    vendor="amd",
    gives=(
        "suspended", "temperature_celsius", "temperature_critical_celsius", "temperature_shutdown_celsius", "power_watts",
        "power_average_watts", "power_instant_watts", "power_cap_watts", "power_cap_default_watts", "power_cap_max_watts",
        "power_cap_min_watts", "energy_joules_total", "memory_used_bytes", "memory_total_bytes", "memory_activity_ratio",
        "utilization_ratio", "clock_hertz", "clock_max_hertz", "throttled", "fan_ratio", "performance_level",
        "pcie_link_generation", "pcie_link_generation_max", "pcie_link_width", "pcie_link_width_max", "pcie_replays_total",
        "ecc_corrected_total", "ecc_uncorrected_total", "compute_units", "processes",
    ),
    polls=(
        Poll(
            name="readings",
            request=Files(
                globs=(*_of_each(*_FAST), *_NODES),
                links=tuple(f"/sys/bus/pci/drivers/{driver}/*:*:*.*" for driver in DRIVERS),
                binary=_of_each("gpu_metrics"),
                skip_when=_ASLEEP,
            ),
            interval=2.0,
            deadline=2.0,
        ),
        Poll(
            name="links",
            request=Files(globs=_of_each(*_SLOW), skip_when=_ASLEEP),
            tier="slow",
            interval=60.0,
            deadline=5.0,
            lists_devices=False,
        ),
        Poll(
            name="processes",
            request=Files(globs=(*_of_each("vendor"), *_NODES, f"{_KFD}/proc/*/vram_*"), skip_when=_ASLEEP),
            tier="slow",
            interval=60.0,
            deadline=5.0,
            lists_devices=False,
        ),
        Poll(
            name="facts",
            request=Files(
                globs=(*_of_each(*_RARE), *(f"/sys/module/{driver}/version" for driver in DRIVERS)), skip_when=_ASLEEP
            ),
            tier="inventory",
            interval=300.0,
            deadline=5.0,
            lists_devices=False,
        ),
    ),
    parse=parse,
)  # fmt: skip
