"""No number of a list is truncated: its column is wide enough or left out."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporters.frames.seen import lines_of
from kits import looked_at
from kits import snapshots as kit
from telemetry_exporters import human
from telemetry_exporters.judgement.overview import rows
from telemetry_exporters.terminal.columns import DEVICE_COLUMNS
from telemetry_exporters.terminal.frames.keys import press, with_nodes
from telemetry_exporters.terminal.frames.model import Key, NodeState, Size, State, View
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Process

NUMBER = re.compile(r"[0-9]+(?:[.,:][0-9]+)*")
NUMBERS = {column.heading for column in DEVICE_COLUMNS if not column.is_text}
HEADINGS = re.compile("|".join(sorted({column.heading for column in DEVICE_COLUMNS}, key=len, reverse=True)))
few = settings(max_examples=20)
roomy = st.builds(Size, st.integers(40, 260), st.integers(10, 60))


def cells(row):
    return {(column.heading, number): column.cell(row).text for number, column in enumerate(DEVICE_COLUMNS)}


def shown_rows(lines):
    (top,) = [number for number, line in enumerate(lines) if re.match(r" (VENDOR|DEV)", line)]
    return lines[top], [line for line in lines[top + 1 : -1] if line.strip()]


@few
@given(st.integers(1, 20), st.integers(0, 10_000), roomy)
def test_no_number_of_a_card_is_truncated(cards, seed, size):
    snapshot = kit.big_snapshot(cards, 90, seed)
    heading, shown = shown_rows(lines_of(State(nodes=(NodeState("", snapshot),)), size))
    by_label = {row.device.device: cells(row) for row in rows(snapshot)}
    headings = NUMBERS.intersection(HEADINGS.findall(re.sub(r"[A-Z]+ 30 MIN", "", heading)))
    assert shown
    for line in shown:
        label = re.match(r"[▸ ](?:[a-z]+ +)?(\d+) ", line)[1]
        whole = " ".join(by_label[label].values())
        assert set(NUMBER.findall(line)) <= set(NUMBER.findall(whole))
        for heading in headings:
            texts = [text for (name, _), text in by_label[label].items() if name == heading]
            assert any(text in line for text in texts), (heading, texts, line)


@few
@given(st.integers(1, 12), roomy)
def test_rows_that_do_not_fit_are_counted(nodes, size):
    state = State(nodes=tuple(looked_at.node(4, f"node{number}") for number in range(nodes)), view=View.NODES)
    lines = lines_of(state, size)
    names = sum(bool(re.match(r"[▸ ]node\d", line)) for line in lines)
    below = re.search(r"▼ (\d+) more$", lines[-1])
    assert names + (int(below[1]) if below else 0) == nodes


def every_line(state, size):
    found = lines_of(state, size)
    for _ in range(200):
        if "▼" not in found[-1]:
            break
        state = press(state, Key.PAGE_DOWN, size)
        found += lines_of(state, size)
    return found


@few
@given(st.integers(0, 10_000), roomy)
def test_each_reading_of_a_card_is_shown_untruncated(seed, size):
    snapshot = kit.big_snapshot(2, 40, seed)
    state = State(nodes=(NodeState("", snapshot, looked_at.past(2)),), view=View.CARD, card="GPU-00000001")
    text = "\n".join(every_line(state, size))
    for reading in snapshot.devices[1].readings:
        metric = BY_KEY[reading.metric]
        if reading.value and (metric.unit or metric.high != 1.0):
            words = human.value_text(reading.value, metric)
            assert re.search(rf"(?<!\S){re.escape(words)}(?!\S)", text), (reading, words)
        else:  # it is `yes` or `no`, or is named among those of 0
            assert all(word in text for word in human.metric_name(metric).split()), reading


# The values of a counter every 10 seconds, whether its readings have times, and the last shown rate.
GROWTH = [
    ("pcie_receive_bytes_total", (5e9,), True, "5 GB|4.66 GiB"),
    ("pcie_receive_bytes_total", (5e9, 25e9), True, "2 GB/s"),
    ("pcie_receive_bytes_total", (5e9, 25e9, 25e9), True, "0  pcie receive"),
    ("pcie_receive_bytes_total", (25e9, 5e9), True, "4.66 GiB"),
    ("pcie_receive_bytes_total", (25e9, 5e9, 6e9), True, "100 MB/s"),
    ("energy_joules_total", (1e6, 1e6 + 7000), True, "700 W"),
    ("throttled_seconds_total", (40.0, 45.0), True, "50 %"),
    ("throttled_seconds_total", (40.0, 50.2), True, "100 %"),
    ("ecc_corrected_total", (3.0,) * 9, True, "3"),
    ("ecc_corrected_total", (0.0,) * 9, True, "errors: none"),
    ("ecc_corrected_total", (3.0, 4.0, *(4.0,) * 5, 5.0, 5.0), True, "5, 90 per hour"),
    ("retired_pages", (3.0, 4.0, *(4.0,) * 5, 5.0, 5.0), True, "5"),
    # Documents have no times of readings: the first change may have been at any earlier time.
    ("pcie_receive_bytes_total", (5e9, 25e9), False, "23.3 GiB"),
    ("pcie_receive_bytes_total", (5e9, 25e9, 45e9), False, "2 GB/s"),
    ("pcie_receive_bytes_total", (5e9, 25e9, 45e9, 45e9, 45e9, 45e9), False, "0  pcie receive"),
]


LABELS = {"throttled_seconds_total": "sw_thermal", "ecc_corrected_total": "dram", "retired_pages": "double_bit_ecc"}


@pytest.mark.parametrize(("metric", "values", "has_times", "words"), GROWTH)
def test_counters_are_shown_as_rates_where_a_rate_makes_sense(metric, values, has_times, words):
    state = State(view=View.CARD, card="GPU-00000000")
    for number, value in enumerate(values):
        now = kit.NOW + 10.0 * number
        reading = replace(kit.reading(metric, value, LABELS.get(metric, "")), taken=now - 1.0 if has_times else 0.0)
        snapshot = kit.snapshot(kit.device(0, reading), monotonic_time=now, valid_until=now + 8.0)
        state = with_nodes(state, [NodeState("", snapshot)])
    text = "\n".join(lines_of(state, Size(120, 40)))
    assert re.search(rf"(?<!\S)({words})(?!\S)", text), text


def test_a_counter_that_changes_twice_at_one_time_has_no_rate():
    state = State(view=View.CARD, card="GPU-00000000")
    for now, value in ((kit.NOW, 5e9), (kit.NOW + 1.0, 25e9), (kit.NOW + 1.0, 45e9)):
        reading = replace(kit.reading("pcie_receive_bytes_total", value, ""), taken=0.0)
        snapshot = kit.snapshot(kit.device(0, reading), monotonic_time=now, valid_until=now + 8.0)
        state = with_nodes(state, [NodeState("", snapshot)])
    assert "41.9 GiB" in "\n".join(lines_of(state, Size(120, 40)))


@few
@given(st.integers(1, 60), roomy)
def test_each_process_is_shown_untruncated(count, size):
    processes = tuple(Process(0, 10**9 + 7 * number, "卡" * 90, number * 1e9) for number in range(count))
    snapshot = kit.snapshot(kit.device(0, processes=processes))
    text = "\n".join(every_line(State(nodes=(NodeState("", snapshot),), view=View.PROCESSES), size))
    for process in processes:
        assert re.search(rf"(?<!\S){process.pid} .*{re.escape(human.byte_size(process.memory_used_bytes))}(?!\S)", text)


def test_long_reason_does_not_displace_the_numbers():
    past = looked_at.past(3)
    evil = replace(
        past.devices["GPU-00000002"]["power_watts"], gaps=(replace(looked_at.GAP, reason="x\x1b[2J" * 2000),)
    )
    devices = {"GPU-00000002": past.devices["GPU-00000002"] | {"power_watts": evil}}
    at = looked_at.START + (looked_at.GAP.first + 1) * 5.0
    node = replace(looked_at.node(3), past=replace(past, devices=devices))
    state = State(nodes=(node,), view=View.CARD, card="GPU-00000002", past_time=at)
    lines = every_line(state, Size(40, 10))
    assert any(re.match(r"  temperature +nvml: timeout$", line.rstrip()) for line in lines)
