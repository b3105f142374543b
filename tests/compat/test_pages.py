"""Pages with other exporters' names: golden files, Prometheus' checks, and no value for an absent reading."""

import math
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from kits.fed_node import demo_snapshot, demo_snapshots
from telemetry_exporters.prometheus.compat import EXPORTERS, dcgm, load_table
from telemetry_exporters.prometheus.compat.page import CompatRenderer
from telemetry_exporters.prometheus.compat.table import NodeIdentity
from telemetry_exporters.prometheus.renderer import EOF, Syntax, text_page
from telemetry_parsers.model import Absent, MergedReading, Snapshot
from telemetry_parsers.vendors import VENDORS

PAGES = Path(__file__).parent / "pages"
NODE = NodeIdentity("node1")
EVERYBODY = ",".join(f"1x{vendor.word}" for vendor in VENDORS)
# Complaints of promtool about names that other exporters chose.
OF_NAMES = (
    "snake_case",
    "should have",
    "should not have",
    "should not include",
    "should contain",
    "should use",
    "no help",
    "use base unit",
)


@cache
def snapshot_of(cards: str) -> Snapshot:
    return demo_snapshot(cards)


def page(
    name: str,
    snapshot: Snapshot,
    *,
    all_vendors: bool = False,
    node: NodeIdentity = NODE,
    hostname_label: str = "",
    version: str = "",
) -> str:
    renderer = CompatRenderer(load_table(name, version), node, hostname_label, all_vendors=all_vendors)
    return renderer.page(snapshot, Syntax.TEXT).decode()


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return each sample's value; the parser appends `_total` to all counters."""
    return {
        (name, frozenset(sample.labels.items())): sample.value
        for family in text_families(text)
        for sample in family.samples
        for name in (sample.name if f"# TYPE {sample.name} " in text else sample.name.removesuffix("_total"),)
    }


def values(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for (name, _), value in samples(text).items():
        found.setdefault(name, value)
    return found


def own_node(name: str, cards: int) -> str:
    return f"{cards}x{load_table(name).vendors[0]}"


@pytest.mark.parametrize("name", EXPORTERS)
def test_page_of_one_card(name: str, assert_golden: Callable[[Path, str], None]) -> None:
    assert_golden(PAGES / f"{name}.txt", page(name, snapshot_of(own_node(name, 1)), hostname_label=""))


def test_versions_have_the_same_values_in_their_units() -> None:
    old, new = (values(page("dcgm-exporter", snapshot_of("1xnvidia"), version=version)) for version in ("4.8", "4.9"))
    prefix = "DCGM_FI_"
    factors = {prefix + before: (prefix + after, factor) for before, after, factor in dcgm.DEFAULT_RENAMES}
    renamed = {name: factors[name] for name in old if name in factors}
    assert len(renamed) >= 18
    for name, (after, factor) in renamed.items():
        assert new[after] == pytest.approx(old[name] * factor, rel=1e-6), name
    assert new["DCGM_FI_DEV_FB_CAPACITY_BYTES"] == old["DCGM_FI_DEV_FB_TOTAL"] * (1 << 20)
    assert not renamed.keys() & new.keys()


def test_memory_of_a_partitioned_card_is_counted_once() -> None:
    """Only the instances have memory, and neither they nor the card have a utilization."""
    snapshot = snapshot_of("1xh100mig")
    page_samples = samples(page("dcgm-exporter", snapshot))
    used = {labels: value for (name, labels), value in page_samples.items() if name == "DCGM_FI_DEV_FB_USED"}
    assert all("GPU_I_ID" in dict(labels) for labels in used)
    ours = samples(text_page(snapshot).decode())
    card = snapshot.devices[0].id
    (of_card,) = (
        value
        for (name, labels), value in ours.items()
        if name == "accelerator_memory_used_bytes" and dict(labels)["id"] == card
    )
    assert sum(used.values()) == of_card / (1 << 20)
    assert not {
        name for name, _ in page_samples if name.endswith(("GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL"))
    }


def test_pages_of_another_version_and_of_partitions(assert_golden: Callable[[Path, str], None]) -> None:
    assert_golden(PAGES / "dcgm-exporter-4.9.txt", page("dcgm-exporter", snapshot_of("1xnvidia"), version="4.9"))
    assert_golden(PAGES / "dcgm-exporter-mig.txt", page("dcgm-exporter", snapshot_of("1xh100mig")))
    assert_golden(PAGES / "nvidia_gpu_exporter-mig.txt", page("nvidia_gpu_exporter", snapshot_of("1xh100mig")))


@pytest.mark.needs("promtool")
def test_promtool_rejects_only_names() -> None:
    text = "".join(page(name, snapshot_of(own_node(name, 2))) for name in EXPORTERS)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if not any(words in line for words in OF_NAMES)]
    assert (complaints, done.returncode in (0, 3)) == ([], True)


@pytest.mark.parametrize("name", EXPORTERS)
@pytest.mark.parametrize("all_vendors", [False, True])
def test_both_syntaxes_have_the_same_values(name: str, *, all_vendors: bool) -> None:
    renderer = CompatRenderer(load_table(name), NODE, all_vendors=all_vendors)
    snapshot = snapshot_of(EVERYBODY)
    page = renderer.page(snapshot, Syntax.TEXT).decode()
    lines = [line.rpartition(" ")[0] for line in page.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))
    text = samples(page)
    assert all(map(math.isfinite, text.values()))
    opened = (renderer.page(snapshot, Syntax.OPENMETRICS) + EOF).decode()
    openmetrics = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in openmetrics_families(opened)
        for sample in family.samples
    }
    assert text == openmetrics != {}


def test_values_are_converted_exactly() -> None:
    snapshot = snapshot_of("1xnvidia")
    ours, theirs = values(text_page(snapshot).decode()), values(page("dcgm-exporter", snapshot))
    assert theirs["DCGM_FI_DEV_POWER_USAGE"] == ours["accelerator_power_watts"]
    parts = sum(theirs[f"DCGM_FI_DEV_FB_{part}"] for part in ("USED", "FREE", "RESERVED"))
    assert abs(parts - theirs["DCGM_FI_DEV_FB_TOTAL"]) <= 1
    energy = theirs["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]
    assert energy / 1000 == pytest.approx(ours["accelerator_energy_joules_total"], rel=1e-12)
    assert theirs["DCGM_FI_DEV_GPU_UTIL"] / 100 == ours["accelerator_utilization_ratio"]
    assert theirs["DCGM_FI_DEV_GPU_UTIL"] == round(theirs["DCGM_FI_DEV_GPU_UTIL"])


@cache
def snapshots_of_a_course() -> tuple[Snapshot, ...]:
    return (*demo_snapshots("2xnvidia,1xamd,1xascend", 4), *demo_snapshots("1xh100mig,1xhygon", 2))


@pytest.mark.parametrize("name", EXPORTERS)
def test_cached_layout_renders_the_same_page(name: str) -> None:
    renderer, course = CompatRenderer(load_table(name), NODE, all_vendors=True), snapshots_of_a_course()
    gone = replace(course[2], devices=tuple(replace(device, up=False) for device in course[2].devices))
    for snapshot in (*course, gone, course[3], without(course[3], 0, "power_watts"), course[3]):
        assert renderer.page(snapshot, Syntax.TEXT).decode() == page(name, snapshot, all_vendors=True)


def without(snapshot: Snapshot, position: int, metric: str, instead: Absent | None = None) -> Snapshot:
    """Return the snapshot without a device's readings of that metric, or with them absent."""
    device = snapshot.devices[position]
    kept: list[MergedReading] = []
    for reading in device.readings:
        if reading.metric != metric:
            kept.append(reading)
        elif instead is not None:
            kept.append(replace(reading, value=instead))
    devices = list(snapshot.devices)
    devices[position] = replace(device, readings=tuple(kept))
    return replace(snapshot, devices=tuple(devices))


def rows_that_read(name: str, metric: str) -> set[str]:
    table = load_table(name)
    return {
        table.prefix + row.name
        for row in table.rows
        if any(reading.partition("{")[0] == metric for reading in row.formula.readings)
    }


@settings(max_examples=20)
@given(data=st.data())
def test_missing_reading_removes_only_its_lines(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(EXPORTERS)))
    snapshot = snapshot_of(EVERYBODY)
    position = data.draw(st.integers(0, len(snapshot.devices) - 1))
    metric = data.draw(st.sampled_from(sorted({reading.metric for reading in snapshot.devices[position].readings})))
    instead = data.draw(st.sampled_from([None, Absent.NOT_REPORTED, Absent.NOT_SUPPORTED]))
    before = samples(page(name, snapshot, all_vendors=True))
    after = samples(page(name, without(snapshot, position, metric, instead), all_vendors=True))
    concerned = rows_that_read(name, metric)
    changed = {series for series in before.keys() | after.keys() if before.get(series) != after.get(series)}
    assert {series for series, _ in changed} <= concerned
    # A row may read another metric instead; other lines are not added.
    assert all(series in before or series[0] in concerned for series in after)


def test_lost_card_has_only_its_events() -> None:
    snapshot = snapshot_of("1xnvidia")
    (device,) = snapshot.devices
    xid = MergedReading("event_last_timestamp_seconds", "xid_79", 1_768_176_000.0, "nvml")
    lost = replace(snapshot, devices=(replace(device, up=False, readings=(*device.readings, xid)),))
    page_samples = samples(page("dcgm-exporter", lost))
    assert {name for name, _ in page_samples} == {"DCGM_FI_DEV_XID_ERRORS"}
    assert list(page_samples.values()) == [79.0]
    assert "gpu_info" not in page("nvidia_gpu_exporter", lost)


@pytest.mark.parametrize(
    ("watch", "codes", "expected"),
    [
        (1.0, {}, ["0.0"]),
        (None, {}, []),
        (1.0, {"xid_13": 10.0, "xid_79": 20.0}, ["79.0"]),
        (0.0, {"xid_13": 30.0, "xid_79": 20.0}, ["13.0"]),
        (1.0, {"xid_" + "9" * 400: 30.0, "xid_²": 31.0}, ["0.0"]),
    ],
)
def test_xid_errors_are_0_only_while_events_are_watched(
    watch: float | None, codes: dict[str, float], expected: list[str]
) -> None:
    snapshot = without(snapshot_of("1xnvidia"), 0, "event_watch")
    (device,) = snapshot.devices
    more = [MergedReading("event_last_timestamp_seconds", code, when, "nvml") for code, when in codes.items()]
    if watch is not None:
        more.append(MergedReading("event_watch", "", watch, "nvml"))
    text = page("dcgm-exporter", replace(snapshot, devices=(replace(device, readings=(*device.readings, *more)),)))
    lines = [line for line in text.splitlines() if line.startswith("DCGM_FI_DEV_XID_ERRORS{")]
    assert [line.rpartition(" ")[2] for line in lines] == expected
    labels = re.findall(r'err_code="(\d+)",err_msg="([^"]*)"', "".join(lines))
    codes_of_lines = [value.removesuffix(".0") for value in expected]
    assert labels == [(code, "No Error" if code == "0" else "") for code in codes_of_lines]


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ({"all": 9216.0}, {"all": 9.0}),
        ({"all": 9216.0, "gpu1": 1024.0, "gpu7": 8192.0}, {"0": 1.0, "1": 8.0}),
    ],
)
def test_links_are_counted_from_0_or_summed(links: dict[str, float], expected: dict[str, float]) -> None:
    snapshot = without(snapshot_of("1xamd"), 0, "link_receive_bytes_total")
    (device,) = snapshot.devices
    readings = [MergedReading("link_receive_bytes_total", link, value, "amd-smi") for link, value in links.items()]
    shown = replace(snapshot, devices=(replace(device, readings=(*device.readings, *readings)),))
    found = samples(page("device-metrics-exporter", shown)).items()
    received = {dict(labels)["link_index"]: value for (name, labels), value in found if name == "gpu_xgmi_link_rx"}
    assert received == expected


def test_labels_of_other_exporters() -> None:
    def labels(name: str, cards: str, **more: object) -> dict[str, str]:
        text = page(name, snapshot_of(cards), **more)  # type: ignore[arg-type]  # passed on as it is
        return dict(next(iter(samples(text)))[1])

    renamed = labels(
        "dcgm-exporter", "1xnvidia", hostname_label="hostname", node=NodeIdentity("n", "node-of-kubernetes")
    )
    assert "Hostname" not in renamed
    assert renamed["hostname"] == "node-of-kubernetes"
    assert labels("dcgm-exporter", "1xascend", all_vendors=True)["vendor"] == "ascend"
    assert not labels("nvidia_gpu_exporter", "1xnvidia")["uuid"].startswith("GPU-")
    free = labels("dcgm-exporter", "1xnvidia", node=NodeIdentity("n", reports_owners=True))
    assert (free["namespace"], free["pod"], free["container"]) == ("", "", "")


def test_hostile_texts_stay_within_their_label() -> None:
    snapshot = snapshot_of("1xnvidia")
    (device,) = snapshot.devices
    hostile = 'H100"} 1\nDCGM_FI_DEV_GPU_UTIL{gpu="9"} 99 <script>' + "x" * 10_000
    text = page("dcgm-exporter", replace(snapshot, devices=(replace(device, model=hostile, uuid=hostile),)))
    assert {dict(labels)["gpu"] for _, labels in samples(text)} == {"0"}
    assert all("\n" not in dict(labels)["modelName"] for _, labels in samples(text))
