"""Real pages of other exporters: our names, types, labels and shapes of label values are the same, or the difference is listed."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from kits.captures import in_ci, shared_folder
from kits.fed_node import demo_snapshot
from telemetry_exporters.prometheus.compat import EXPORTERS, load_table
from telemetry_exporters.prometheus.compat import table as formulas
from telemetry_exporters.prometheus.compat.doc import metric_matches
from telemetry_exporters.prometheus.compat.page import CompatRenderer
from telemetry_exporters.prometheus.compat.table import ExporterTable, NodeIdentity, Total
from telemetry_exporters.prometheus.renderer import Syntax
from telemetry_parsers.model import MergedDevice, MergedReading, Snapshot
from telemetry_parsers.ownership import Allocation, Owner

CARDS = {"nvidia": ("1xnvidia", "1xh100mig")}
# Label values of metrics of which a row shows all values.
WORDS = {
    "temperature_celsius": ("edge", "junction", "memory", "core", "hbm0"),
    "clock_hertz": ("graphics", "memory", "video", "soc"),
    "clock_max_hertz": ("graphics", "memory"),
    "link_receive_bytes_total": ("gpu1", "gpu2"),
    "link_transmit_bytes_total": ("gpu1", "gpu2"),
    "event_last_timestamp_seconds": ("xid_79",),
    "ecc_corrected_total": ("umc",),
    "ecc_uncorrected_total": ("umc",),
    "engine_utilization_ratio": ("compute", "copy", "media", "encoder"),
    "events_total": ("xid_79",),
}
FACTS = {
    "compute_capability": "9.0",
    "firmware": "96.00.89.00.01",
    "cuda_version": "13.1",
    "compute_mode": "default",
    "persistence_mode": "on",
    "mig_mode": "off",
    "ecc_mode": "on",
    "fabric_state": "completed",
    "fabric_clique": "0",
    "compute_partition": "SPX",
    "memory_partition": "NPS1",
    "memory_type": "GDDR6",
}
INSTANCE = {"gpu_instance": "3", "compute_instance": "0"}
POD = Owner("pod", "train/train-0/main", pod_namespace="train", pod_name="train-0", container_name="main")
ALLOCATION = Allocation(POD, 1.0, "whole", is_allocated=True, is_used=True)
_OLD = "releases before had no such label"
_CONFIGURED = "a label that their configuration adds"
_ADDED = "we add it, since joins and boards of Kubernetes ask for it"
# Intended differences with reasons: `label` or `label=SHAPE` on every family, or after a family's name and a blank.
# -label is on the real page only, +label on ours only.
DIFFERENCES: Mapping[str, Mapping[str, str]] = {
    "dcgm-exporter": {
        "-hostname": "since 4.8.3: `version=4.9` or `hostname_label`",
        "+Hostname": "since 4.8.3 it is `hostname`",
        "+pci_bus_id": _OLD,
        "+modelName": _OLD,
        "+DCGM_FI_DRIVER_VERSION": "missing where Helm installed it",
        "DCGM_FI_DEV_XID_ERRORS +err_code": _OLD,
        "DCGM_FI_DEV_XID_ERRORS +err_msg": _OLD,
        "DCGM_FI_DEV_XID_ERRORS -GPU_I_ID": "an Xid names no instance here: it would blame each",
        "DCGM_FI_DEV_XID_ERRORS -GPU_I_PROFILE": "an Xid names no instance here: it would blame each",
    },
    "dcu-exporter": {},
    "device-metrics-exporter": {
        "-cluster_name": "Prometheus has it as an external label",
        "-usergroup_id": _CONFIGURED,
        "-workload_id": _CONFIGURED,
        "-GPU_UUID": "the spelling of old releases",
        "-SERIAL_NUMBER": "the spelling of old releases",
        **dict.fromkeys(
            [
                "+card_model",
                "+card_series",
                "+card_vendor",
                "+container",
                "+deployment_mode",
                "+driver_version",
                "+gpu_id",
                "+gpu_partition_id",
                "+gpu_compute_partition_type",
                "+gpu_memory_partition_type",
                "+gpu_uuid",
                "+hostname",
                "+job_id",
                "+job_partition",
                "+job_user",
                "+namespace",
                "+pod",
                "+serial_number",
                "+vbios_version",
            ],
            "a page of an old release, or one with the labels of its default configuration alone",
        ),
    },
    "hcu-exporter": {},
    "ix-exporter": {},
    "mlu-exporter": {
        "+namespace": _ADDED,
        "+pod": _ADDED,
        "+container": _ADDED,
    },
    "npu-exporter": {},
    "nvidia_gpu_exporter": {
        "nvidia_smi_gpu_info -pci_sub_device_id": "it is not read",
    },
    "omnistat": {},
    "xpumd": {
        "+node": "their chart's ServiceMonitor adds it, and their board asks for it",
        "hw_gpu_info -pci_device_id": "no source reads it",
        "hw_gpu_info +hw_serial_number": "of newer releases",
        "hw_gpu_info +hw_driver_version": "of newer releases",
    },
}
_SHAPES = (
    ("digits", r"\d+"),
    ("version", r"\d+(\.\d+)+\w*"),
    ("v-version", r"v\d+(\.\d+)+"),
    ("uuid", r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("GPU-uuid", r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("die", r"[0-9A-F]{8}(-[0-9A-F]{8}){4}"),
    ("", r"[0-9]+:[0-9]+:[0-9]+\.\d"),  # an address of digits alone has any case
    ("bus of 4, lower", r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d"),
    ("bus of 4, upper", r"[0-9A-F]{4}:[0-9A-F]{2}:[0-9A-F]{2}\.\d"),
    ("bus of 8, upper", r"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d"),
    ("lower", r"[a-z][a-z0-9_.-]*"),
)
# Names given by people, vendors and tools may have any shape.
_FREE = re.compile(
    "hostname|Hostname|node|node_ip|node_name|name|mlu|sn|serial.*|device_id|uuid|hw_id|.*odel.*|card_series|driver|mcu"
    "|namespace|pod|container|.*pod_name.*|gpu_uuid|process_name|pid|profile|.*vbios.*|driver_version|serial_number"
)


@dataclass(frozen=True)
class Printed:
    """The type of a family, its sets of labels, and the shapes of their values."""

    kind: str = ""
    labels: set[frozenset[str]] = field(default_factory=set)
    shapes: dict[str, set[str]] = field(default_factory=dict)


def shape(text: str) -> str:
    return next((name for name, pattern in _SHAPES if re.fullmatch(pattern, text)), "text")


def printed(text: str, prefix: str = "") -> dict[str, Printed]:
    """Return the families of a page, even if it is indented, cut or has time stamps."""
    kinds = dict(re.findall(r"^\s*# TYPE (\S+) (\S+)", text, re.MULTILINE))
    families: dict[str, Printed] = {}
    for match in re.finditer(r"^\s*([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+[-+0-9.eE]+(?: \d+)?\s*$", text, re.MULTILINE):
        name, labels = match[1], dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
        family = families.setdefault(prefix + name, Printed(kinds.get(name, "")))
        family.labels.add(frozenset(labels))
        for label, value in labels.items():
            family.shapes.setdefault(label, set()).update({shape(value)} - {""} if value else set())
    return families


def filled(device: MergedDevice, table: ExporterTable, facts: Mapping[str, str]) -> MergedDevice:
    """Return the device with all readings that the table can show."""
    found = {(reading.metric, reading.label): reading for reading in device.readings}
    for row in table.rows:
        for reading in () if isinstance(row.formula, formulas.FactNumber) else row.formula.readings:
            metric, _, word = reading.partition("{")
            words = (word.removesuffix("}"),)
            if isinstance(row.formula, formulas.PerLabelValue | formulas.PerIndex | Total):
                words = WORDS.get(metric, ("all",))
            elif isinstance(row.formula, formulas.StateNumber):
                words = tuple(row.formula.numbers)[:1]
            elif isinstance(row.formula, formulas.Converted):
                words = ("all",) if isinstance(row.formula.formula, Total) else words
            for label in words:
                found[metric, label] = MergedReading(metric, label, 1.0, "test")
    # Xids are reported for whole cards only.
    left_out = (
        ("up", "info") if device.parent is None else ("up", "info", "event_watch", "event_last_timestamp_seconds")
    )
    return replace(
        device,
        readings=tuple(reading for (metric, _), reading in found.items() if metric not in left_out),
        facts=tuple((facts if device.parent is None else {**dict(device.facts), **INSTANCE}).items()),
        allocations=(ALLOCATION,),
        serial="1652623000123",
        bus_id="0000:c1:00.0",
    )


def shown(table: ExporterTable, snapshot: Snapshot, *, with_pods: bool) -> str:
    node = NodeIdentity("node1", "node-1", with_pods, "192.0.2.7")
    return CompatRenderer(table, node).page(snapshot, Syntax.TEXT).decode()


@cache
def ours(name: str, *, with_pods: bool) -> dict[str, Printed]:
    """Return our families of simulated cards, with their own and with all readings."""
    table, found = load_table(name), dict[str, Printed]()
    vendor = table.vendors[0]
    for cards in CARDS.get(vendor, (f"2x{vendor}",)):
        plain = demo_snapshot(cards)
        full = [
            replace(plain, devices=tuple(filled(device, table, facts) for device in plain.devices))
            for facts in (FACTS, {})
        ]
        for snapshot in (plain, *full):
            for family, of_page in printed(shown(table, snapshot, with_pods=with_pods)).items():
                joined = found.setdefault(family, Printed(of_page.kind))
                joined.labels.update(of_page.labels)
                for label, shapes in of_page.shapes.items():
                    joined.shapes.setdefault(label, set()).update(shapes)
    return found


def pages() -> list[Path]:
    folder = shared_folder()
    if folder is None:
        assert not in_ci(), "no shared captures although this is CI"
        return []
    return sorted((folder / "peer-pages").glob("*/*.prom"))


def differences(theirs: Mapping[str, Printed], ours: Mapping[str, Printed], missing: list[str]) -> Iterator[str]:
    """Yield the differences of a page: `NAME what`."""
    for name, family in theirs.items():
        mine = ours.get(name)
        if mine is None:
            if not any(fnmatchcase(name, pattern) for pattern in missing):
                yield f"{name} in neither list"
            continue
        if family.kind and family.kind != mine.kind:
            yield f"{name} type {family.kind}"
        for labels in family.labels:
            nearest = min(mine.labels, key=lambda other: len(labels ^ other))
            yield from (f"{name} -{label}" for label in sorted(labels - nearest))
            yield from (f"{name} +{label}" for label in sorted(nearest - labels))
        for label, shapes in family.shapes.items():
            found = mine.shapes.get(label)
            if found and not _FREE.fullmatch(label):
                yield from (f"{name} {label}={other}" for other in sorted(shapes - found))


def is_listed(difference: str, listed: Mapping[str, str]) -> bool:
    return difference in listed or difference.partition(" ")[2] in listed


@pytest.mark.parametrize("path", pages(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_real_page_matches_or_difference_is_listed(path: Path) -> None:
    name = path.parent.name
    text = path.read_text()
    theirs = printed(text, "mlu_" if name == "mlu-exporter" else "")
    assert theirs
    missing = [line.name for line in metric_matches(load_table(name)) if line.fit == "missing"]
    found = differences(theirs, ours(name, with_pods="pod" in text), missing)
    assert [difference for difference in found if not is_listed(difference, DIFFERENCES[name])] == []


@pytest.mark.parametrize("name", DIFFERENCES)
def test_listed_difference_is_on_a_page(name: str) -> None:
    found: set[str] = set()
    for path in pages():
        if path.parent.name == name:
            text = path.read_text()
            theirs = printed(text, "mlu_" if name == "mlu-exporter" else "")
            every = differences(theirs, ours(name, with_pods="pod" in text), ["*"])
            found.update(part for difference in every for part in (difference, difference.partition(" ")[2]))
    assert not pages() or set(DIFFERENCES[name]) - found == set()


@pytest.mark.parametrize("name", EXPORTERS)
def test_device_with_all_readings_has_every_name(name: str) -> None:
    table = load_table(name)
    rows = {table.prefix + row.name for row in (*table.rows, *table.node_rows) if not getattr(row, "metric", "")}
    assert rows - ours(name, with_pods=True).keys() == set()
