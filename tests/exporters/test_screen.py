"""Readings that cannot be shown are left out and reported, even if the merge lets them through."""

import math
from dataclasses import fields, replace

import pytest

from kits import snapshots as kit
from kits.page_lint import complaints
from telemetry_exporters.documents import snapshot_csv, snapshot_json
from telemetry_exporters.prometheus.renderer import text_page
from telemetry_exporters.snapshot_filter import Fault, clean_snapshot, usable_metrics
from telemetry_parsers.model import Absent, MergedDevice, MergedReading, Metric, Problem, Sample


@pytest.mark.parametrize(
    ("reading", "fault"),
    [
        (kit.reading("no_such_metric", 1.0), Fault.UNKNOWN),
        (kit.reading("no_such_metric", Absent.NOT_REPORTED), Fault.UNKNOWN),
        (kit.reading("up", 1.0), Fault.UNKNOWN),
        (kit.reading("info", 1.0), Fault.UNKNOWN),
        (kit.reading("telemetry_host_load1", 1.0), Fault.UNKNOWN),
        (kit.reading("power_watts", 2.0), Fault.DUPLICATE),
        (kit.reading("power_watts", Absent.NOT_REPORTED), Fault.DUPLICATE),
        (kit.reading("power_cap_watts", math.nan), Fault.INVALID),
        (kit.reading("power_cap_watts", math.inf), Fault.INVALID),
        (kit.reading("rank_info", 2.0, "37"), Fault.INVALID),
        (kit.reading("power_cap_watts", 1.0, "edge"), Fault.MISLABELLED),
        (kit.reading("fan_ratio", Absent.NOT_REPORTED, "edge"), Fault.MISLABELLED),
        (kit.reading("temperature_celsius", 41.0), Fault.MISLABELLED),
    ],
)
def test_invalid_reading_is_left_out_and_reported(reading, fault):
    good = kit.reading("power_watts", 80.0)
    snapshot = kit.snapshot(kit.device(0, good, reading), sources=(kit.source("nvml"), kit.source("hy-smi")))
    screened = clean_snapshot(snapshot)
    assert screened.devices[0].readings == (good,)
    nvml, hy_smi = screened.sources
    name = f"{reading.metric} {reading.label}".strip()
    assert nvml.problems == (Problem("nvidia 0 GPU-00000000", f"{name}: {fault.value}; omitted"),)
    assert hy_smi.problems == ()
    page = text_page(snapshot).decode()
    assert 'telemetry_source_problems{source="nvml"} 1.0\n' in page
    assert complaints(page.encode()) == []
    assert len(snapshot_json.document(snapshot)["sources"][0]["problems"]) == 1
    assert snapshot_csv.render(snapshot).count("power_watts") == 1


@pytest.mark.parametrize(
    "reading",
    [
        kit.reading("temperature_celsius", Absent.NOT_REPORTED),
        kit.reading("temperature_celsius", Absent.NOT_REPORTED, "edge"),
        kit.reading("rank_info", 1.0, "37"),
        kit.reading("power_cap_watts", 0.0),
    ],
)
def test_valid_reading_is_kept(reading):
    screened = clean_snapshot(kit.snapshot(kit.device(0, reading), sources=(kit.source("nvml"),)))
    assert screened.devices[0].readings == (reading,)
    assert screened.sources[0].problems == ()


def test_valid_device_is_not_copied():
    snapshot = kit.big_snapshot(3)
    screened = clean_snapshot(snapshot)
    assert all(shown is given for shown, given in zip(screened.devices, snapshot.devices, strict=True))
    assert screened == snapshot


@pytest.mark.parametrize("other", ["GPU-00000000", "GPU-00000000\x00"])
def test_two_devices_with_one_id_are_one_device(other):
    first, second = kit.device(0, id=other.replace("\x00", "\x01")), kit.device(1, id=other)
    screened = clean_snapshot(kit.snapshot(first, second))
    assert [device.device for device in screened.devices] == ["0"]


def test_a_source_or_poll_that_comes_twice_is_shown_once():
    twice = replace(kit.source(), polls=(kit.poll(), kit.poll()))
    screened = clean_snapshot(kit.snapshot(sources=(twice, kit.source("nvml", "failed"))))
    (source,) = screened.sources
    assert (source.state, len(source.polls)) == ("ok", 1)
    assert [problem.text.partition(": ")[2] for problem in source.problems] == [f"{Fault.DUPLICATE.value}; omitted"] * 2


@pytest.mark.parametrize(
    "sample",
    [
        Sample("no_such_metric", 1.0),
        Sample("power_watts", 1.0),
        Sample("telemetry_devices", 1.0, (("vendor", "amd"), ("model", ""))),
        Sample("telemetry_source_up", 1.0, (("source", "nvml"),)),
        Sample("telemetry_pci_devices", 1.0),
        Sample("telemetry_pci_devices", math.nan, (("vendor", "amd"),)),
        Sample("telemetry_build_info", 0.0, (("version", "1"), ("python", "3"))),
        Sample("telemetry_config_last_reload_successful", 0.0),
    ],
)
def test_invalid_sample_of_the_daemon_is_left_out(sample):
    good = Sample("telemetry_config_last_reload_successful", 1.0)
    screened = clean_snapshot(kit.snapshot(daemon_samples=(good, sample)))
    assert screened.daemon_samples == (good,)


def test_all_texts_of_a_snapshot_are_cleaned():
    screened = clean_snapshot(
        kit.snapshot(
            kit.device(0, kit.reading("events_total", 1.0, "a\x1b[2Jb"), serial="1\n2", facts=(("x", "\x07"),)),
            hostname="no\ude00de",
        )
    )
    (device,) = screened.devices
    assert screened.hostname == "no�de"
    assert (device.serial, device.facts, device.readings[0].label) == ("1 2", (("x", "�"),), "a�[2Jb")


TEXTS = [item.name for item in fields(MergedDevice) if item.type in ("str", "str | None")]


@pytest.mark.parametrize("name", TEXTS)
def test_each_text_of_a_device_is_clean(name: str) -> None:
    (device,) = clean_snapshot(kit.snapshot(replace(kit.device(), **{name: "a\x1b[2Jb"}))).devices
    assert getattr(device, name) == "a\ufffd[2Jb"


@pytest.mark.parametrize(
    "metric",
    [
        Metric("accelerator_power_watts", "gauge", "watts", "Stands in the catalogue."),
        Metric("accelerator_energy_joules", "gauge", "joules", "OpenMetrics has a family of that name."),
        Metric("accelerator_acme_total", "gauge", "", "Ends as a counter."),
        Metric("accelerator_acme_events", "counter", "", "Does not end as a counter."),
        Metric("accelerator_acme", "info", "", "Does not end as an info."),
        Metric("accelerator_acme_info", "gauge", "", "Ends as an info."),
        Metric("accelerator_Acme", "gauge", "", "No snake_case."),
        Metric("accelerator acme", "gauge", "", "No name."),
        Metric("accelerator_acme_x", "gauge", "", "A label that all have.", label="id"),
        Metric("accelerator_acme_y", "gauge", "", "No label's name.", label="a-b"),
        Metric("telemetry_acme", "gauge", "", "Not of a device.", scope="daemon"),
    ],
)
def test_unusable_metric_of_a_plugin_is_unknown(metric):
    usable = usable_metrics({metric.key: metric})
    assert usable == usable_metrics({})
    snapshot = kit.snapshot(kit.device(0, MergedReading(metric.key, "", 1.0, "acme")))
    if metric.name != "accelerator_power_watts":
        assert clean_snapshot(snapshot, {metric.key: metric}).devices[0].readings == ()


def test_first_of_two_metrics_with_one_family_wins():
    first = Metric("accelerator_acme_a_total", "counter", "", "A counter.")
    second = Metric("accelerator_acme_a", "gauge", "", "Its family's name.")
    usable = usable_metrics({first.key: first, second.key: second})
    assert first.key in usable
    assert second.key not in usable
