"""What becomes a series, under which labels, and what does not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings

from kits import snapshots as kit
from kits.page_oracle import shown_families
from telemetry_exporters import csv, json
from telemetry_exporters.labels import identity_labels
from telemetry_exporters.prometheus import text_page
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.metrics import CATALOGUE, OWN_LABELS, OWNER_LABELS
from telemetry_parsers.model import REASONS, STATES, Absent, MergedReading, Metric, Problem, Sample

IDENTITY = {"vendor": "nvidia", "device": "0", "id": "GPU-00000000", "model": "NVIDIA H100 80GB HBM3"}


def series_of(snapshot, name, extra=None):
    """The labels and value of each series of a metric."""
    return [
        (dict(labels), value)
        for metric, series in shown_families(snapshot, extra)
        if metric.name == name
        for labels, value in series
    ]


def names_of(snapshot):
    return [metric.name for metric, _ in shown_families(snapshot)]


def test_a_reading_has_the_identity_labels_and_its_own():
    snapshot = kit.snapshot(kit.device(0, kit.reading("temperature_celsius", 41.0, "edge")))
    assert series_of(snapshot, "accelerator_temperature_celsius") == [(IDENTITY | {"sensor": "edge"}, 41.0)]


def test_families_come_in_the_order_of_the_catalogue_and_devices_in_that_of_the_snapshot():
    snapshot = kit.snapshot(kit.full_device(3), kit.full_device(1), sources=(kit.source(),))
    order = [metric.name for metric in CATALOGUE]
    assert names_of(snapshot) == sorted(names_of(snapshot), key=order.index)
    assert [labels["device"] for labels, _ in series_of(snapshot, "accelerator_power_watts")] == ["3", "1"]


@pytest.mark.parametrize(
    ("maintenance", "on", "ends_in"),
    [
        (Maintenance(60.0), [1.0], [60.0]),
        (Maintenance(-60.0), [0.0], [-60.0]),
        (Maintenance(0.0), [0.0], [0.0]),
        (Maintenance(), [0.0], []),
        (None, [], []),  # nobody keeps it: no daemon
    ],
)
def test_maintenance_is_told_by_the_daemon_and_its_end_once_it_was_announced(maintenance, on, ends_in):
    snapshot = kit.snapshot(maintenance=maintenance)
    assert series_of(snapshot, "telemetry_maintenance") == [({}, value) for value in on]
    assert series_of(snapshot, "telemetry_maintenance_ends_in_seconds") == [({}, value) for value in ends_in]


@pytest.mark.parametrize(
    ("up", "presence", "has_info"), [(True, [(IDENTITY, 1.0)], 1), (False, [(IDENTITY, 0.0)], 1), (None, [], 0)]
)
def test_presence_and_info_live_alike(up, presence, has_info):
    snapshot = kit.snapshot(kit.device(0, up=up))
    assert series_of(snapshot, "accelerator_up") == presence
    assert len(series_of(snapshot, "accelerator_info")) == has_info


def test_a_lost_device_shows_that_it_is_lost_and_who_it_is_and_what_happened_to_it_and_no_reading():
    happened = (kit.reading("events_total", 1.0, "79"), kit.reading("event_last_timestamp_seconds", 1.7e9, "79"))
    snapshot = kit.snapshot(kit.device(0, kit.reading("power_watts", 112.5), *happened, up=False))
    events = ["accelerator_events_total", "accelerator_event_last_timestamp_seconds"]
    assert names_of(snapshot) == ["accelerator_info", "accelerator_up", *events]


def test_a_device_that_nobody_lists_keeps_what_was_read_of_it():
    snapshot = kit.snapshot(kit.device(0, kit.reading("suspended", 1.0), up=None))
    assert names_of(snapshot) == ["accelerator_suspended"]


def test_info_has_every_known_fact_and_no_unknown_one():
    device = kit.device(
        0,
        uuid="GPU-1",
        bus_id="0000:1a:00.0",
        serial="",
        driver="550.54.15",
        parent=None,
        facts=(("numa_node", "1"), ("VBIOS Version", "96.00"), ("firmware", ""), ("power_kind", "average")),
    )
    assert series_of(kit.snapshot(device), "accelerator_info") == [
        (
            IDENTITY
            | {
                "uuid": "GPU-1",
                "bus_id": "0000:1a:00.0",
                "driver": "550.54.15",
                "numa_node": "1",
                "vbios_version": "96.00",
                "power_kind": "average",
            },
            1.0,
        )
    ]


@pytest.mark.parametrize(
    ("facts", "added"),
    [
        ({"simulated": True}, {"simulated": "true"}),
        ({"simulated": False}, {}),
        ({"replayed": True}, {"replayed": "true"}),
        ({"current_model": "A better name"}, {"model_now": "A better name"}),
        ({"current_model": None}, {}),
        ({"parent": "GPU-9", "partition": "1"}, {"parent": "GPU-9", "partition": "1"}),
        ({"facts": (("vendor", "x"), ("id", "x"), ("instance", "x"), ("9", "x"), ("__name__", "x"), ("", "x"))}, {}),
        ({"facts": (("a", "first"), ("A", "second"))}, {"a": "first"}),
        ({"driver": "1", "facts": (("driver", "2"),)}, {"driver": "1"}),
    ],
)
def test_labels_of_info(facts, added):
    ((labels, value),) = series_of(kit.snapshot(kit.device(0, **facts)), "accelerator_info")
    assert (labels, value) == (IDENTITY | added, 1.0)


def test_an_unknown_model_is_an_empty_label_so_that_all_series_have_the_same_labels():
    snapshot = kit.snapshot(kit.device(0, model="", current_model=None))
    assert series_of(snapshot, "accelerator_up") == [(IDENTITY | {"model": ""}, 1.0)]


@pytest.mark.parametrize("value", [1, 1.0, True])
def test_whole_numbers_are_numbers_like_others(value):
    snapshot = kit.snapshot(
        kit.device(0, kit.reading("utilization_ratio", value), kit.reading("memory_total_bytes", value)),
        own=(Sample("telemetry_config_last_reload_successful", value),),
    )
    page = text_page(snapshot).decode()
    assert re.findall(r"(?:utilization_ratio|total_bytes)\{.*\} (.*)\n", page) == ["1.0", "1.0"]
    assert "telemetry_config_last_reload_successful 1.0\n" in page
    text = json.render(snapshot)
    assert '"readings": {"utilization_ratio": 1.0, "memory_total_bytes": 1}' in text
    assert "utilization_ratio,,1.0,,nvml" in csv.render(snapshot)


def test_minus_zero_is_zero():
    snapshot = kit.snapshot(kit.device(0, kit.reading("temperature_margin_celsius", -0.0)))
    assert "} 0.0\n" in text_page(snapshot).decode()
    assert '"temperature_margin_celsius": 0.0' in json.render(snapshot)
    assert ",0.0,,nvml" in csv.render(snapshot)


def test_host_readings_have_no_labels():
    snapshot = kit.snapshot(
        host=(
            MergedReading("telemetry_host_load1", "", 0.5, "host"),
            MergedReading("telemetry_host_load5", "", Absent.NOT_REPORTED, "host"),
        )
    )
    assert series_of(snapshot, "telemetry_host_load1") == [({}, 0.5)]
    assert names_of(snapshot) == ["telemetry_host_load1"]


def test_devices_are_counted_whole_and_up_by_vendor_and_model():
    snapshot = kit.snapshot(
        kit.device(0),
        kit.device(1, simulated=True),
        kit.device(2, up=False),
        kit.device(3, up=None),
        kit.device(4, id="part", parent="GPU-00000000", partition="0"),
        kit.device(0, vendor="amd", model="MI300X", id="x"),
    )
    assert series_of(snapshot, "telemetry_devices") == [
        ({"vendor": "nvidia", "model": "NVIDIA H100 80GB HBM3"}, 2.0),
        ({"vendor": "amd", "model": "MI300X"}, 1.0),
    ]


def test_a_source_has_every_state_and_is_in_one():
    snapshot = kit.snapshot(sources=(kit.source("hy-smi", "failed", reason="timeout"),))
    states = series_of(snapshot, "telemetry_source_state")
    assert [labels for labels, _ in states] == [{"source": "hy-smi", "state": state} for state in STATES]
    assert [labels["state"] for labels, value in states if value == 1.0] == ["failed"]
    assert {value for _, value in states} == {0.0, 1.0}


@pytest.mark.parametrize(
    ("state", "wanted"), [("ok", [1.0]), ("failed", [0.0]), ("stuck", [0.0]), ("missing", []), ("disabled", [])]
)
def test_a_source_is_up_or_down_or_neither(state, wanted):
    snapshot = kit.snapshot(sources=(kit.source("hy-smi", state),))
    assert [value for _, value in series_of(snapshot, "telemetry_source_up")] == wanted
    assert [value for _, value in series_of(snapshot, "telemetry_source_poll_up")] == wanted


@pytest.mark.parametrize(
    ("state", "expires", "wanted"),
    [
        ("ok", kit.NOW + 0.1, 1.0),
        ("ok", kit.NOW, 0.0),
        ("no_devices", kit.NOW + 1, 1.0),
        ("suspended", kit.NOW + 1, 1.0),
        ("failed", kit.NOW + 1, 0.0),
    ],
)
def test_a_poll_is_up_while_its_last_success_is_fresh(state, expires, wanted):
    source = kit.source("nvml", polls=(kit.poll("nvml", "readings", state, expires=expires),))
    assert series_of(kit.snapshot(sources=(source,)), "telemetry_source_poll_up") == [
        ({"source": "nvml", "poll": "readings"}, wanted)
    ]


def test_a_source_that_was_never_polled_has_no_series():
    never = kit.source("nvml", polls=(kit.poll(attempted=0.0),))
    assert names_of(kit.snapshot(sources=(never, kit.source("hy-smi", polls=())))) == []


@pytest.mark.parametrize("state", ["missing", "disabled", "released"])
def test_a_source_that_nobody_asks_has_its_state(state):
    names = names_of(kit.snapshot(sources=(kit.source("nvml", state, polls=()),)))
    assert "telemetry_source_state" in names
    assert "telemetry_source_last_success_timestamp_seconds" not in names


def test_health_of_a_poll():
    poll = kit.poll(
        "nvml",
        "inventory",
        "failed",
        reason="timeout",
        seconds=10.0,
        last_success=kit.WALL_TIME - 300,
        failures=(("timeout", 3), ("killed", 1)),
        overruns=2,
    )
    snapshot = kit.snapshot(
        sources=(
            kit.source(
                "nvml",
                "failed",
                version="550.54.15",
                polls=(poll,),
                cpu_seconds=1.5,
                problems=(Problem("a", "b"), Problem("c", "d")),
                unknown_fields=("x",),
            ),
        )
    )
    labels = {"source": "nvml", "poll": "inventory"}
    assert series_of(snapshot, "telemetry_source_duration_seconds") == [(labels, 10.0)]
    assert series_of(snapshot, "telemetry_source_last_success_timestamp_seconds") == [(labels, kit.WALL_TIME - 300)]
    assert series_of(snapshot, "telemetry_source_overruns_total") == [(labels, 2.0)]
    assert series_of(snapshot, "telemetry_source_info") == [({"source": "nvml", "version": "550.54.15"}, 1.0)]
    assert series_of(snapshot, "telemetry_source_cpu_seconds_total") == [({"source": "nvml"}, 1.5)]
    assert series_of(snapshot, "telemetry_source_problems") == [({"source": "nvml"}, 2.0)]
    assert series_of(snapshot, "telemetry_source_unknown_fields") == [({"source": "nvml"}, 1.0)]
    counted = {"timeout": 3.0, "killed": 1.0}
    assert series_of(snapshot, "telemetry_source_failures_total") == [
        (labels | {"reason": reason}, counted.get(reason, 0.0)) for reason in REASONS
    ]


def test_the_daemons_own_samples_are_shown_as_they_are():
    own = (
        Sample("telemetry_build_info", 1.0, (("version", "1.2.3"), ("python", "3.11.7"))),
        Sample("telemetry_devices_expected", 8.0, (("vendor", "nvidia"),)),
        Sample("telemetry_config_last_reload_successful", 0.0),
    )
    snapshot = kit.snapshot(own=own)
    assert series_of(snapshot, "telemetry_build_info") == [({"version": "1.2.3", "python": "3.11.7"}, 1.0)]
    assert series_of(snapshot, "telemetry_devices_expected") == [({"vendor": "nvidia"}, 8.0)]
    assert series_of(snapshot, "telemetry_config_last_reload_successful") == [({}, 0.0)]


def test_a_plugins_metric_comes_after_the_catalogues():
    metric = Metric("accelerator_acme_tank_ratio", "gauge", "ratio", "Level of the tank.", 0, 1, "tank")
    extra = {metric.key: metric}
    snapshot = kit.snapshot(
        kit.device(0, MergedReading("acme_tank_ratio", "left", 0.5, "acme")), sources=(kit.source(),)
    )
    assert series_of(snapshot, metric.name, extra) == [(IDENTITY | {"tank": "left"}, 0.5)]
    assert [shown.name for shown, _ in shown_families(snapshot, extra)][-1] == metric.name
    assert metric.name not in names_of(snapshot)


@given(kit.snapshots())
@settings(max_examples=60, deadline=None)
def test_of_any_snapshot_no_series_comes_twice_and_labels_are_those_of_the_catalogue(snapshot):
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
                known = ("vendor", "device", "id", "model", *OWNER_LABELS[metric.name])
                assert names == [name for name in known if name in names]
                assert "" not in dict(labels[4:]).values()
            elif metric.name != "accelerator_info":
                own = [metric.label] if metric.label else []
                assert names == ["vendor", "device", "id", "model", *own]


OF_EVENTS = frozenset({"events_total", "event_last_timestamp_seconds", "event_open"})


@given(kit.snapshots())
@settings(max_examples=40, deadline=None)
def test_of_any_snapshot_every_reading_that_is_a_number_is_shown_but_of_a_lost_device_only_its_events(snapshot):
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
