"""A renderer that keeps results between pages writes the same bytes as a new renderer, whatever changes."""

import math
from dataclasses import replace
from itertools import cycle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kits import page_oracle
from kits import snapshots as kit
from kits.snapshots import openmetrics_page
from telemetry_exporters.prometheus.renderer import EOF, Renderer, Syntax, text_page
from telemetry_parsers.maintenance import Maintenance
from telemetry_parsers.model import Absent, MergedReading, Metric, Problem, Sample
from telemetry_parsers.readings import Readings

KEYS = (
    ("power_watts", ""),
    ("temperature_celsius", "core"),
    ("temperature_celsius", "memory"),
    ("memory_used_bytes", ""),
    ("events_total", "79"),
    ("rank_info", "3"),
    ("acme_level", "left"),
)
ACME = Metric("accelerator_acme_level", "gauge", "", "A plugin's.", label="tank")
NUMBERS = (
    0.0, -0.0, 1, True, 1.0, 0.1, 999999.5, 1e6, 1000000.25, 1 << 60, 1e16, 1e21, 1e22, 5e-324, 1.7e308, -2.5, -1e9,
)  # fmt: skip
UNFIT = (math.nan, math.inf, -math.inf)
ANY_VALUE = st.sampled_from((*NUMBERS, *Absent)) | st.floats(allow_nan=False, allow_infinity=False)


def readings(*values):
    return Readings.of(tuple(MergedReading(*key, value, "nvml") for key, value in zip(KEYS, values, strict=True)))


def card(number):
    return kit.device(number, facts=(("vbios", "96"),), serial="s")


CARDS = tuple(
    replace(card(number), readings=readings(1.0, 41.0, Absent.NOT_REPORTED, 2e9, 1.0, 1.0, 0.5)) for number in range(3)
)
START = kit.snapshot(
    *CARDS,
    sources=(kit.source("nvml"), kit.source("hy-smi", "missing")),
    daemon_samples=(Sample("telemetry_config_last_reload_successful", 1.0),),
    host=Readings.of((MergedReading("telemetry_host_load1", "", 0.5, "host"),)),
    maintenance=Maintenance(),
)


def with_card(snapshot, index, **changes):
    devices = list(snapshot.devices)
    if devices:
        index %= len(devices)
        devices[index] = replace(devices[index], **changes)
    return replace(snapshot, devices=tuple(devices))


def with_numbers(device, values):
    given = Readings.of(device.readings)
    return replace(device, readings=Readings(given.shape, tuple(values), given.origins))


def with_values(snapshot, values):
    fresh = cycle(values)
    devices = tuple(
        with_numbers(device, [1.0 if item.metric == "rank_info" else next(fresh) for item in device.readings])
        for device in snapshot.devices
    )
    return replace(snapshot, devices=devices)


def with_value(snapshot, index, at, value):
    if not snapshot.devices:
        return snapshot
    device = snapshot.devices[index % len(snapshot.devices)]
    values = list(Readings.of(device.readings).values)
    if values:
        values[at % len(values)] = value
    return with_card(snapshot, index, readings=with_numbers(device, values).readings)


def with_source(snapshot, index, **changes):
    sources = list(snapshot.sources)
    sources[index % len(sources)] = replace(sources[index % len(sources)], **changes)
    return replace(snapshot, sources=tuple(sources))


index = st.integers(0, 5)
CHANGES = st.one_of(
    st.builds(lambda values: lambda s: with_values(s, values), st.lists(ANY_VALUE, min_size=1, max_size=9)),
    st.builds(lambda i, at, value: lambda s: with_value(s, i, at, value), index, index, ANY_VALUE),
    st.builds(lambda i, at, value: lambda s: with_value(s, i, at, value), index, index, st.sampled_from((*UNFIT, 2.0))),
    st.builds(lambda i: lambda s: replace(s, devices=s.devices[:i]), index),
    st.builds(lambda i: lambda s: replace(s, devices=(*CARDS[:i], *s.devices[i:])), index),
    st.just(lambda s: replace(s, devices=s.devices[::-1])),
    st.builds(lambda i, up: lambda s: with_card(s, i, up=up), index, st.sampled_from([True, False, None])),
    st.builds(lambda i, text: lambda s: with_card(s, i, serial=text), index, kit.texts),
    st.builds(lambda i, text: lambda s: with_card(s, i, facts=(("vbios", text),)), index, kit.texts),
    st.builds(lambda i, text: lambda s: with_card(s, i, facts=(("rank_server", text),)), index, kit.texts),
    st.builds(
        lambda i, text: lambda s: with_card(s, i, id=text), index, st.sampled_from(["GPU-00000001", "x", "x\x00"])
    ),
    st.builds(
        lambda i, metric, value: (
            lambda s: with_card(
                s,
                i,
                readings=Readings.of(
                    (*(s.devices[i % len(s.devices)].readings if s.devices else ()), kit.reading(metric, value))
                ),
            )
        ),
        index,
        st.sampled_from(["fan_ratio", "no_such_metric", "power_watts"]),
        ANY_VALUE,
    ),
    st.builds(lambda i: lambda s: with_card(s, i, readings=tuple(CARDS[0].readings)), index),
    st.builds(lambda i, seconds: lambda s: with_source(s, i, cpu_seconds=seconds), index, st.floats(0, 1e9)),
    st.builds(lambda i, text: lambda s: with_source(s, i, problems=(Problem("a", text),)), index, kit.texts),
    st.builds(
        lambda i, state: lambda s: with_source(s, i, state=state), index, st.sampled_from(["ok", "missing", "failed"])
    ),
    st.builds(lambda i, name: lambda s: with_source(s, i, source=name), index, st.sampled_from(["nvml", "hy-smi"])),
    st.builds(
        lambda i, attempted: lambda s: with_source(s, i, polls=(kit.poll(), kit.poll(attempted=attempted))),
        index,
        st.sampled_from([0.0, kit.WALL_TIME]),
    ),
    st.just(lambda s: replace(s, sources=(*s.sources, kit.source("nvml", polls=())))),
    st.builds(lambda now: lambda s: replace(s, monotonic_time=now), st.sampled_from([kit.NOW, kit.NOW + 9])),
    st.builds(
        lambda value, again: (
            lambda s: replace(s, daemon_samples=(Sample("telemetry_config_last_reload_successful", value),) * again)
        ),
        st.sampled_from((*NUMBERS, *UNFIT)),
        st.integers(0, 2),
    ),
    st.builds(lambda ends: lambda s: replace(s, maintenance=Maintenance(ends)), st.none() | st.floats(-9e4, 3e6)),
    st.builds(
        lambda value: lambda s: replace(s, host=(MergedReading("telemetry_host_load1", "", value, "host"),)), ANY_VALUE
    ),
)


@given(st.lists(CHANGES, min_size=1, max_size=12))
@settings(max_examples=40)
def test_any_sequence_of_snapshots_gives_the_pages_of_a_new_renderer(changes):
    extra = {ACME.key: ACME}
    renderer, snapshot = Renderer(extra), START
    for change in changes:
        snapshot = change(snapshot)
        assert renderer.text(snapshot) == text_page(snapshot, extra)
        assert renderer.page(snapshot, Syntax.OPENMETRICS) + EOF == openmetrics_page(snapshot, extra)
    assert renderer.text(snapshot) == page_oracle.text(snapshot, extra)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_number_that_becomes_invalid_is_left_out_until_it_is_valid(value):
    renderer, fit, unfit = Renderer(), START, with_value(START, 1, 0, value)
    before = renderer.text(fit)
    page = renderer.text(unfit).decode()
    assert page.count("accelerator_power_watts{") == 2
    assert 'telemetry_source_problems{source="nvml"} 4.0\n' in page
    assert renderer.text(fit) == before
