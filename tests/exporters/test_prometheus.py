"""Pages of metrics equal prometheus_client's, every reader of pages accepts them, and docs/metrics.md is current."""

import pickle
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import page_oracle
from kits import snapshots as kit
from kits.page_lint import complaints
from kits.snapshots import openmetrics_page
from telemetry_exporters.documents.metrics_doc import metrics_list
from telemetry_exporters.prometheus.renderer import Renderer, text_page
from telemetry_parsers.metrics import CATALOGUE
from telemetry_parsers.model import MergedReading, Metric, Sample


@given(kit.snapshots())
@settings(max_examples=25)
def test_both_syntaxes_are_those_of_prometheus_client_byte_for_byte(snapshot):
    assert text_page(snapshot) == page_oracle.text(snapshot)
    assert openmetrics_page(snapshot) == page_oracle.openmetrics(snapshot)


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=100)
def test_every_finite_number_is_printed_as_prometheus_client_prints_it(value):
    snapshot = kit.snapshot(daemon_samples=(Sample("telemetry_config_last_reload_successful", value),))
    assert text_page(snapshot) == page_oracle.text(snapshot)


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("# HELP a_percent x\n# TYPE a_percent gauge\na_percent 1.0\n", "not a base unit"),
        ("# HELP clock_mhz x\n# TYPE clock_mhz gauge\nclock_mhz 1.0\n", "not a base unit"),
        ("# HELP temp_c x\n# TYPE temp_c gauge\ntemp_c 1.0\n", "not a base unit"),
        ("# HELP used_mb x\n# TYPE used_mb gauge\nused_mb 1.0\n", "not a base unit"),
        ("# HELP a x\n# TYPE a counter\na 1.0\n", "_total"),
        ("# HELP a_total x\n# TYPE a_total gauge\na_total 1.0\n", "_total"),
        ("# HELP a x\n# TYPE a gauge\na 1.0\na 2.0\n", "2 series"),
        ("# HELP a x\n# TYPE a gauge\na 1.0 1700000000000\n", "timestamp"),
        ("# HELP a x\n# TYPE a gauge\na NaN\n", "not a number"),
        ("# HELP a_info x\n# TYPE a_info gauge\na_info 2.0\n", "not 1"),
        ('# HELP a x\n# TYPE a gauge\na{hostname="h"} 1.0\n', "labels ['hostname']"),
        ('# HELP a x\n# TYPE a gauge\na{source="x"y"} 1.0\n', "cannot be read"),
        ('# HELP a x\n# TYPE a gauge\na{source="x",source="y"} 1.0\n', "a label twice"),
        ('# HELP accelerator_up x\n# TYPE accelerator_up gauge\naccelerator_up{id="1"} 1.0\n', "identity"),
        ("a 1.0\n", "not under its own"),
        ("# HELP a x\na 1.0\n", "not under its own"),
        ("# HELP a x\n# HELP a x\n# TYPE a gauge\na 1.0\n", "a second HELP"),
        (
            "# HELP a x\n# TYPE a gauge\na 1.0\n# HELP b x\n# TYPE b gauge\nb 1.0\n# HELP a x\n",
            "the family was begun before",
        ),
        ("# HELP a x\n# TYPE a gauge\na 1.0", "no end"),
    ],
)
def test_lint_finds_each_kind_of_mistake(page, complaint):
    assert any(complaint in found for found in complaints(page.encode()))


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ('a "b"', r"a \"b\""),
        ("a\\b", r"a\\b"),
        ("a\nb", "a b"),
        ("a\tb", "a b"),
        ("\x1b[31mred\x1b[0m", "�[31mred�[0m"),
        ("\ud800x", "�x"),
        ("\u202eabc", "�abc"),
        ("天数智芯 BI-V100", "天数智芯 BI-V100"),
    ],
)
def test_a_label_value_is_valid_utf8_on_one_line(printed, shown):
    page = text_page(kit.snapshot(kit.device(model=printed, current_model=printed)))
    assert f'accelerator_up{{device="0",id="GPU-00000000",model="{shown}",vendor="nvidia"}} 1.0\n' in page.decode()


def test_help_of_a_plugin_is_escaped():
    metric = Metric("accelerator_acme_level", "gauge", "", 'say "x",\na\\b', label="tank")
    extra = {metric.key: metric}
    snapshot = kit.snapshot(kit.device(0, MergedReading("acme_level", "left", 1.0, "acme")))
    assert text_page(snapshot, extra) == page_oracle.text(snapshot, extra)
    assert openmetrics_page(snapshot, extra) == page_oracle.openmetrics(snapshot, extra)
    assert '# HELP accelerator_acme_level say "x",\\na\\\\b\n' in text_page(snapshot, extra).decode()


def kept_bytes(renderer):
    return len(pickle.dumps(renderer))


def test_series_that_are_gone_are_forgotten():
    renderer = Renderer({})
    everything = kit.snapshot(*(kit.full_device(number) for number in range(8)), sources=(kit.source(),))
    renderer.text(everything)
    most = kept_bytes(renderer)
    renderer.text(replace(everything, devices=everything.devices[:1]))
    one_device = kept_bytes(renderer)
    for number in range(100):
        event = kit.reading("events_total", 1.0, f"code{number}")
        renderer.text(replace(everything, devices=(kit.device(0, event),)))
    assert kept_bytes(renderer) < one_device < most
    new = Renderer({})
    for drawer in (renderer, new):
        drawer.text(kit.snapshot())
    assert kept_bytes(renderer) == kept_bytes(new)


def test_the_list_has_a_line_for_each_metric_and_its_columns_line_up():
    extra = Metric("accelerator_acme_tank_ratio", "gauge", "ratio", "Level of the tank.", 0, 1, "tank")
    lines = metrics_list((extra,)).splitlines()
    assert [line.split()[0] for line in lines] == [metric.name for metric in (*CATALOGUE, extra)]
    assert lines[-1].split()[1:4] == ["gauge", "ratio", "tank"]
    assert len({line.index(metric.help) for line, metric in zip(lines, (*CATALOGUE, extra), strict=True)}) == 1
