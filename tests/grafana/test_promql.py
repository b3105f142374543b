"""A query for unknown metrics or labels does not build."""

import pytest

from telemetry_grafana.promql import QueryError, check_query

RECORDED = {"accelerator:temperature_celsius": frozenset({"job", "instance", "id"})}


@pytest.mark.parametrize(
    "query",
    [
        'sum by (job, instance) (accelerator_power_watts{vendor=~"$vendor", device!=""})',
        'accelerator_temperature_celsius{sensor!~"memory|board|hbm.*"}',
        'x * on (job, instance, id) group_left (driver, uuid) accelerator_info{parent=""}',
        'label_replace(accelerator_up, "card", "accelerator_$1", "id", "(.*)")',
        'telemetry_source_state{state=~"released|suspended"} == 1',
        "up == 0 and on (job, instance) telemetry_build_info",
    ],
)
def test_valid_query_is_returned(query: str) -> None:
    assert check_query(query, RECORDED) == query


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("accelerator_powr_watts", "unknown metric 'accelerator_powr_watts'"),
        ('accelerator_power_watts{gpu="0"}', "no label 'gpu'"),
        ("sum by (hostname) (accelerator_power_watts)", "'hostname'"),
        ("x * on (job, instance, gpu) accelerator_info", "'gpu'"),
        ('telemetry_source_state{state="broken"}', "no state broken"),
        ("accelerator_power_watts{vendor}", "invalid matchers"),
        ('accelerator:temperature_celsius{sensor="core"}', "no label 'sensor'"),
    ],
)
def test_query_for_an_unknown_metric_is_refused(query: str, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        check_query(query, RECORDED)
