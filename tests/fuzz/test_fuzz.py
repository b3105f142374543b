"""Every target of the fuzzer runs and finds planted mistakes; inputs that once failed are handled."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import strategies as st

from fuzz.damage import DAMAGES, damaged
from fuzz.run import fuzz, fuzz_for
from fuzz.targets import SITE, Target, targets
from kits.captures import own_cases, registered_parsers, text_capture
from kits.web_server import running_server
from telemetry_parsers.checks.suite import parse_violations
from telemetry_parsers.model import Absent, Output

TABLE = "GPU  Temp\n0    41C\n1    43C\n"


@pytest.mark.parametrize("examples", [12, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(1800)])])
def test_every_target_holds_for_a_few_examples(tmp_path: Path, examples: int) -> None:
    """`make fuzz` runs thousands; here the seed is fixed."""
    with running_server(SITE.respond) as server:
        found = {target.name: fuzz(target, 1, examples) for target in targets(tmp_path, server.port)}
    assert len(found) > 20
    assert {name: finding for name, finding in found.items() if finding} == {}


def _planted(text: str) -> None:
    lines = [line.split() for line in text.splitlines() if line[:1].isdigit()]
    assert all(float(words[1].rstrip("C")) < 1000 for words in lines)


@pytest.mark.parametrize(
    ("check", "error"),
    [
        pytest.param(_planted, "Error", id="a parser that trusts its table"),
        pytest.param(lambda text: text.encode("ascii"), "UnicodeEncodeError", id="one that knows ASCII only"),
        pytest.param(lambda text: [][len(text) > 10_000], "IndexError", id="one with a buffer"),
    ],
)
def test_planted_mistake_is_found_and_minimized(check: object, error: str) -> None:
    outcome = fuzz_for(Target("planted", damaged([TABLE]), check), 1, 120.0)  # type: ignore[arg-type]  # any callable
    assert error in outcome.finding
    assert "seed" in outcome.finding


def test_an_example_is_the_same_for_the_same_seed() -> None:
    seen: list[list[object]] = []
    for _ in range(2):
        given: list[object] = []
        fuzz(Target("kept", damaged([TABLE, TABLE * 2]), given.append), 5, 30)
        seen.append(given)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 15


def test_each_damage_takes_any_text() -> None:
    strategy = st.tuples(st.text(), st.randoms(use_true_random=False))
    for damage in DAMAGES:
        target = Target("damage", strategy, lambda given, damage=damage: damage(*given, [given[0], ""]))  # type: ignore[misc]  # bound now
        assert fuzz(target, 1, 40) == "", damage.__name__


HEAD = "Timestamp, DeviceId, GPU Power (W)"
XPU_SMI = registered_parsers()["xpu-smi"]


def readings(text: str) -> dict[tuple[int | None, str], float]:
    report = XPU_SMI.parse(text_capture(XPU_SMI, text))
    return {
        (None if reading.device is None else report.devices[reading.device].index, reading.metric): reading.value
        for reading in report.readings
        if not isinstance(reading.value, Absent)
    }


@pytest.mark.parametrize(
    ("row", "watts"),
    [
        pytest.param("06:14:46.000,    0, 114.60", 114.6, id="whole"),
        pytest.param("06:14:46.000,    0, 11\x004.60", None, id="a hole in the number"),
        pytest.param("06:14:46.000,    0, 114\x00", None, id="a hole behind it"),
        pytest.param("\x00" * 9 + "06:14:46.000,    0, 114.60", 114.6, id="a hole elsewhere"),
        pytest.param("06:14:46.000" + " " * 7980 + ", 0, 114.60", None, id="at the end of what is looked at"),
    ],
)
def test_damaged_number_is_not_read(row: str, watts: float | None) -> None:
    assert readings(f"{HEAD}\n{row}\n").get((0, "power_watts")) == watts


def test_a_row_is_read_under_the_headings_above_it() -> None:
    """Two outputs in one text: a card that only the first contains keeps the columns of the first."""
    first = "Timestamp, DeviceId, GPU Power (W)\n06:14:46.000,    0, 114.60\n06:14:46.000,    1, 115.70\n"
    second = "Timestamp, DeviceId, GPU Utilization (%), GPU Power (W)\n06:14:47.000,    0, 37.00, 116.80\n"
    assert readings(first + second) == {
        (0, "utilization_ratio"): 0.37,
        (0, "power_watts"): 116.8,
        (1, "power_watts"): 115.7,
    }


@pytest.mark.parametrize("name", sorted(registered_parsers()))
def test_text_may_end_in_a_cell_far_to_the_right(name: str) -> None:
    parser = registered_parsers()[name]
    for case in own_cases(name):
        for capture in case.captures(parser) if case.path.suffix == ".txt" else ():
            ends_far = replace(capture, outputs=(Output(text=f"{capture.outputs[0].text}|{' ' * 400}x"),))
            assert parse_violations(parser, ends_far) == [], case.id
