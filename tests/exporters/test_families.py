"""Series and their labels; processes and owners on the series of their card."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import snapshots as kit
from kits.page_lint import complaints
from kits.page_oracle import shown_families
from telemetry_exporters.documents import snapshot_csv, snapshot_json
from telemetry_exporters.prometheus.families import OwnerSeries
from telemetry_exporters.prometheus.labels import identity_labels
from telemetry_exporters.prometheus.renderer import Renderer, text_page
from telemetry_parsers.metrics import CATALOGUE, OWN_LABELS, OWNER_LABELS
from telemetry_parsers.model import Absent, MergedReading, Metric, Sample

IDENTITY = {"vendor": "nvidia", "device": "0", "id": "GPU-00000000", "model": "NVIDIA H100 80GB HBM3"}


def series_of(snapshot, name, extra=None):
    return [
        (dict(labels), value)
        for metric, series in shown_families(snapshot, extra)
        if metric.name == name
        for labels, value in series
    ]


def names_of(snapshot):
    return [metric.name for metric, _ in shown_families(snapshot)]


def test_families_come_in_the_order_of_the_catalogue_and_devices_in_that_of_the_snapshot():
    snapshot = kit.snapshot(kit.full_device(3), kit.full_device(1), sources=(kit.source(),))
    order = [metric.name for metric in CATALOGUE]
    assert names_of(snapshot) == sorted(names_of(snapshot), key=order.index)
    assert [labels["device"] for labels, _ in series_of(snapshot, "accelerator_power_watts")] == ["3", "1"]


@pytest.mark.parametrize("value", [1, 1.0, True])
def test_whole_numbers_are_numbers_like_others(value):
    snapshot = kit.snapshot(
        kit.device(0, kit.reading("utilization_ratio", value), kit.reading("memory_total_bytes", value)),
        daemon_samples=(Sample("telemetry_config_last_reload_successful", value),),
    )
    page = text_page(snapshot).decode()
    assert re.findall(r"(?:utilization_ratio|total_bytes)\{.*\} (.*)\n", page) == ["1.0", "1.0"]
    assert "telemetry_config_last_reload_successful 1.0\n" in page
    text = snapshot_json.render(snapshot)
    assert '"readings": {"utilization_ratio": 1.0, "memory_total_bytes": 1}' in text
    assert "utilization_ratio,,1.0,,nvml" in snapshot_csv.render(snapshot)


def test_metrics_of_plugins_follow_the_catalogue():
    metric = Metric("accelerator_acme_tank_ratio", "gauge", "ratio", "Level of the tank.", 0, 1, "tank")
    extra = {metric.key: metric}
    snapshot = kit.snapshot(
        kit.device(0, MergedReading("acme_tank_ratio", "left", 0.5, "acme")), sources=(kit.source(),)
    )
    assert series_of(snapshot, metric.name, extra) == [(IDENTITY | {"tank": "left"}, 0.5)]
    assert [shown.name for shown, _ in shown_families(snapshot, extra)][-1] == metric.name
    assert metric.name not in names_of(snapshot)


@given(kit.snapshots())
@settings(max_examples=20)
def test_series_are_unique_and_have_the_labels_of_the_catalogue(snapshot):
    seen = set()
    for metric, series in shown_families(snapshot):
        for labels, _ in series:
            names = [name for name, _ in labels]
            key = (metric.name, frozenset(labels))
            assert key not in seen
            assert len(set(names)) == len(names)
            seen.add(key)
            if metric.scope == "daemon":
                assert tuple(names) == OWN_LABELS[metric.name]
            elif metric.scope == "host":
                assert names == []
            elif metric.scope == "owner":
                label_order = ("vendor", "device", "id", "model", *OWNER_LABELS[metric.name])
                assert names == [name for name in label_order if name in names]
                assert "" not in dict(labels[4:]).values()
            elif metric.name != "accelerator_info":
                extra_labels = [metric.label] if metric.label else []
                assert names == ["vendor", "device", "id", "model", *extra_labels]


OF_EVENTS = frozenset({"events_total", "event_last_timestamp_seconds", "event_open"})


@given(kit.snapshots())
@settings(max_examples=15)
def test_numbers_of_listed_devices_and_events_of_lost_ones_are_shown(snapshot):
    shown = {
        (metric.key, labels[:4], dict(labels)[metric.label] if metric.label else "", value)
        for metric, series in shown_families(snapshot)
        for labels, value in series
    }
    first_of_id = {}
    for device in snapshot.devices:
        first_of_id.setdefault(device.id, device)
    for device in first_of_id.values():
        for reading in device.readings:
            if all(text.isprintable() for text in (device.vendor, device.id, device.device, device.model)):
                is_shown = (reading.metric, identity_labels(device), reading.label, reading.value) in shown
                may_be = device.up is not False or reading.metric in OF_EVENTS
                assert is_shown == (may_be and not isinstance(reading.value, Absent))


PROCESSES = OwnerSeries(process_metrics=True)
INLINE = OwnerSeries(inline_labels=("user", "job_id"))


def test_process_metrics_are_optional_and_end_with_the_process():
    snapshot = kit.snapshot(kit.shared_device())
    assert b"accelerator_process_memory_bytes" not in text_page(snapshot)
    renderer = Renderer(owner_series=PROCESSES)
    assert b'pid="4711"' in renderer.text(snapshot)
    assert b'pid="4711"' not in renderer.text(kit.snapshot(kit.full_device()))


def test_inline_labels_end_with_the_owner():
    renderer = Renderer(owner_series=INLINE)
    owned, free = kit.full_device(allocations=(kit.allocation(),)), kit.full_device()
    pages = [renderer.text(kit.snapshot(device)) for device in (owned, free, owned)]
    assert [b'accelerator_power_watts{device="0",id="GPU-00000000",job_id="1234"' in page for page in pages] == [
        True,
        False,
        True,
    ]


def test_device_labels_do_not_clash_with_owner_labels():
    device_labels = {metric.label for metric in CATALOGUE if metric.scope == "device"}
    assert not device_labels.intersection(OWNER_LABELS["accelerator_allocation_seconds_total"])


@given(
    snapshot=kit.snapshots(),
    inline=st.lists(st.sampled_from(OWNER_LABELS["accelerator_allocation_seconds_total"]), unique=True),
)
@settings(max_examples=20)
def test_page_of_any_snapshot_has_valid_syntax(snapshot, inline):
    page = text_page(snapshot, owner_series=OwnerSeries(process_metrics=True, inline_labels=tuple(inline)))
    allowed = [
        complaint
        for complaint in complaints(page)
        if ": labels [" not in complaint and "more than one label" not in complaint
    ]
    assert allowed == []
