"""A query that asks for what is not there does not build."""

from __future__ import annotations

import pytest

from telemetry_grafana.promql import QueryError, checked

RECORDED = {"accelerator:temperature_celsius": frozenset({"job", "instance", "id"})}


@pytest.mark.parametrize(
    "query",
    [
        "accelerator_power_watts",
        'sum by (job, instance) (accelerator_power_watts{vendor=~"$vendor", device!=""})',
        'accelerator_temperature_celsius{sensor!~"memory|board|hbm.*"}',
        'accelerator_clock_hertz{domain="graphics"} / accelerator_clock_max_hertz{domain="graphics"}',
        'x * on (job, instance, id) group_left (driver, uuid) accelerator_info{parent=""}',
        'label_replace(accelerator_up, "card", "accelerator_$1", "id", "(.*)")',
        "accelerator:temperature_celsius > 3",
        'telemetry_source_state{state=~"released|suspended"} == 1',
        "rate(accelerator_busy_seconds_total[5m])",
        "up == 0 and on (job, instance) telemetry_build_info",
        'telemetry_devices{vendor="amd"} unless on (job, instance) up',
    ],
)
def test_a_good_query_is_given_back(query: str) -> None:
    assert checked(query, RECORDED) == query


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("accelerator_powr_watts", "no such metric: 'accelerator_powr_watts'"),
        ("sum(rate(telemetry_nonsense_total[5m]))", "telemetry_nonsense_total"),
        ('accelerator_power_watts{gpu="0"}', "no label 'gpu'"),
        ('accelerator_power_watts{sensor="core"}', "no label 'sensor'"),
        ("sum by (hostname) (accelerator_power_watts)", "'hostname'"),
        ("x * on (job, instance, gpu) accelerator_info", "'gpu'"),
        ('telemetry_source_state{state="broken"}', "no state broken"),
        ('accelerator_clock_hertz{domain="core"}', "no domain core"),
        ("accelerator_power_watts{vendor}", "no list of matchers"),
        ('accelerator:temperature_celsius{sensor="core"}', "no label 'sensor'"),
        ("accelerator:heat", "no such metric"),
    ],
)
def test_a_query_for_what_is_not_there_is_refused(query: str, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        checked(query, RECORDED)
