"""Pages of metrics equal prometheus_client's, every reader of pages accepts them, and docs/metrics.md is current."""

import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from kits import page_oracle
from kits import snapshots as kit
from kits.page_lint import complaints
from kits.snapshots import openmetrics_page
from telemetry_exporters.documents.metrics_doc import metrics_list, metrics_markdown
from telemetry_exporters.prometheus.renderer import EOF, Renderer, Syntax, text_page
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
    snapshot = kit.snapshot(own=(Sample("telemetry_config_last_reload_successful", value),))
    assert text_page(snapshot) == page_oracle.text(snapshot)


@given(st.lists(kit.snapshots(), min_size=2, max_size=4))
@settings(max_examples=10)
def test_a_renderer_that_has_rendered_before_gives_the_same_page_as_a_new_one(snapshots):
    renderer = Renderer()
    for snapshot in snapshots:
        assert renderer.text(snapshot) == text_page(snapshot)
        assert renderer.page(snapshot, Syntax.OPENMETRICS) + EOF == openmetrics_page(snapshot)


@given(kit.snapshots())
@settings(max_examples=20)
def test_what_is_read_back_is_what_was_given(snapshot):
    wanted = {
        (metric.name, frozenset(labels), value)
        for metric, series in page_oracle.shown_families(snapshot)
        for labels, value in series
    }
    for page, read in ((text_page(snapshot), read_text), (openmetrics_page(snapshot), read_openmetrics)):
        got = [
            (sample.name, frozenset(sample.labels.items()), float(sample.value))
            for family in read(page.decode())
            for sample in family.samples
        ]
        assert len(got) == len(wanted)
        assert set(got) == wanted


@given(kit.snapshots())
@settings(max_examples=20)
def test_no_page_has_anything_that_the_lint_complains_of(snapshot):
    assert complaints(text_page(snapshot)) == []


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
def test_the_lint_sees_what_it_is_there_for(page, complaint):
    assert any(complaint in found for found in complaints(page.encode()))


@pytest.mark.needs("promtool")
@pytest.mark.parametrize(
    "page", [text_page(kit.big_snapshot(2, 200)), text_page(kit.snapshot(sources=(kit.source(),)))]
)
def test_promtool_has_nothing_to_say_of_a_page(page):
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_every_metric_of_the_catalogue_keeps_the_rules_of_names():
    heads = "".join(
        f"# HELP {metric.name} x\n# TYPE {metric.name} {'gauge' if metric.kind == 'info' else metric.kind}\n"
        for metric in CATALOGUE
    )
    assert complaints(heads.encode()) == []
    assert all(
        not metric.unit or metric.name.removesuffix("_total").endswith("_" + metric.unit) for metric in CATALOGUE
    )


def test_openmetrics_of_a_renderer_is_open_ended_so_that_process_metrics_can_follow():
    assert not Renderer().page(kit.snapshot(kit.full_device()), Syntax.OPENMETRICS).endswith(EOF)


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


def test_a_series_that_comes_back_is_rendered_as_before():
    renderer, full, empty = Renderer(), kit.snapshot(kit.full_device()), kit.snapshot()
    first = renderer.text(full)
    assert renderer.text(empty) == b""
    assert renderer.text(full) == first


PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_in_docs_is_the_generated_one():
    assert PAGE.read_text(encoding="utf-8") == metrics_markdown(), (
        "run: python -m telemetry_exporters.documents.metrics_doc > docs/metrics.md"
    )


def test_the_command_that_writes_the_page_prints_it():
    done = subprocess.run(
        [sys.executable, "-m", "telemetry_exporters.documents.metrics_doc"], capture_output=True, check=True
    )
    assert done.stdout.decode() == metrics_markdown()


def test_the_list_has_a_line_for_each_metric_and_its_columns_line_up():
    extra = Metric("accelerator_acme_tank_ratio", "gauge", "ratio", "Level of the tank.", 0, 1, "tank")
    lines = metrics_list((extra,)).splitlines()
    assert [line.split()[0] for line in lines] == [metric.name for metric in (*CATALOGUE, extra)]
    assert lines[-1].split()[1:4] == ["gauge", "ratio", "tank"]
    assert len({line.index(metric.help) for line, metric in zip(lines, (*CATALOGUE, extra), strict=True)}) == 1
