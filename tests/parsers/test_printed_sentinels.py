"""What tools print where they know nothing: no reading, whatever it looks like, and told."""

from __future__ import annotations

import pytest

from kits.parsed.any_source import report_on, text_of
from telemetry_parsers.model import Absent


@pytest.mark.parametrize(
    ("source", "case", "printed", "blank", "metric"),
    [
        ("npu-smi", "temp-power", ": 44\n", ": -1\n", "temperature_celsius"),
        ("npu-smi", "temp-power", ": 44\n", ": 32765\n", "temperature_celsius"),
        ("npu-smi", "temp-power", ": 44\n", ": 65535\n", "temperature_celsius"),
        ("npu-smi", "temp-power", ": 92.0\n", ": -1\n", "power_watts"),
        ("npu-smi", "temp-power", ": 92.0\n", ": 4294967295\n", "power_watts"),
        ("npu-smi", "volt", ": 0.91\n", ": 655.35\n", "voltage_volts"),
        ("npu-smi", "table-910a-busy", "231.5       68", "231.5       -1", "temperature_celsius"),
        ("npu-smi", "usages-910b", ": 57\n", ": 255\n", "utilization_ratio"),
        ("npu-smi", "ecc-910a", ": 17\n", ": 4294967295\n", "ecc_corrected_total"),
        ("hccn-tool", "statistics", "roce_rx_err_pkt_num:3\n", "roce_rx_err_pkt_num:-1\n", "link_receive_errors_total"),
        ("mthreads-gmi", "table-old-busy", "71C", "-1C", "temperature_celsius"),
        ("mthreads-gmi", "query-two-cards", "160.25W", "-1W", "power_watts"),
        ("mthreads-gmi", "query-two-cards", "160.25W", "4294967.295W", "power_watts"),
        ("cnmon", "table-5.10-busy", "61C", "-1C", "temperature_celsius"),
        ("cnmon", "info", ": 41 C", ": -1 C", "temperature_celsius"),
        ("cnmon", "info", ": 107 W", ": 65535 W", "power_watts"),
    ],
)
def test_a_number_that_means_nothing_is_no_reading(
    source: str, case: str, printed: str, blank: str, metric: str
) -> None:
    text = text_of(source, case)
    assert printed in text
    whole, left = report_on(source, text), report_on(source, text.replace(printed, blank, 1))
    values = [item.value for item in left.readings if item.metric == metric]
    assert Absent.IMPLAUSIBLE in values
    assert Absent.IMPLAUSIBLE not in [item.value for item in whole.readings if item.metric == metric]
    assert any(metric in problem.text or "implausible" in problem.text for problem in left.problems)
