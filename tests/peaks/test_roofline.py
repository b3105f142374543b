"""What rocprofiler-compute measured becomes a peak, and a section of the configuration that gives it again."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_daemon.cli import main
from telemetry_daemon.config.file import load
from telemetry_daemon.config.inputs import ConfigInputs
from telemetry_daemon.state.peaks import known_peaks
from telemetry_daemon.terminal import exits
from telemetry_parsers.roofline import NoRooflineError, measured_peak

HEAD = "device,HBMBw,HBMBwLow,hbmBwHigh,MFMABF16Flops,MFMABF16FlopsLow,MFMAF4Flops,FP32Flops,SomethingNew"
TWO_CARDS = f"{HEAD}\n0,4200.5,4100,4300,500000,1,0,130000,7\n1,4100.5,4100,9999,520000,1,0,120000,7\n"


def test_the_best_of_the_cards_counts_and_what_was_not_measured_is_left_out() -> None:
    peak = measured_peak(TWO_CARDS.splitlines())
    assert (peak.flops("bf16"), peak.flops("fp32"), peak.memory_bytes_per_second) == (5.2e14, 1.3e14, 4.2005e12)
    assert (peak.flops("fp4"), peak.flops_per_cycle("bf16"), peak.origin) == (None, None, "measured")


def test_a_row_that_is_cut_off_gives_nothing() -> None:
    assert measured_peak([*TWO_CARDS.splitlines(), "2,9999,9"]) == measured_peak(TWO_CARDS.splitlines())


def test_a_file_without_a_measurement_is_refused() -> None:
    for text in [
        "",
        "\n",
        HEAD,
        f"{HEAD}\n0,0,0,0,0,0,0,0,0",
        "a,b\n1,2",
        f"{HEAD}\n0,nan,0,0,inf,0,-1,x,0",
        f"{HEAD}\n0,1",
        "\0,\0\n",
    ]:
        with pytest.raises(NoRooflineError, match=r"no roofline\.csv"):
            measured_peak(text.splitlines())


@given(st.text() | st.lists(st.text(), max_size=4).map(lambda cells: f"{HEAD}\n" + ",".join(cells)))
def test_any_text_gives_numbers_above_zero_or_is_refused(text: str) -> None:
    try:
        peak = measured_peak(text.splitlines())
    except NoRooflineError:  # the other permitted outcome
        return
    numbers = [rate.flops for rate in peak.rates] + [peak.memory_bytes_per_second]
    assert all(number is None or 0 <= number < math.inf for number in numbers)


def test_the_section_gives_the_measured_peak_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roofline, file = tmp_path / "roofline.csv", tmp_path / "telemetry.toml"
    roofline.write_text(TWO_CARDS)
    assert main(["config", "peaks", str(roofline), "--model", "AMD Instinct MI300X"]) == exits.OK
    file.write_text(capsys.readouterr().out)
    settings = load(ConfigInputs(str(file), {}))
    assert settings.peaks["AMD Instinct MI300X"].origin == "measured"
    assert known_peaks(settings).configured["AMD Instinct MI300X"] == measured_peak(TWO_CARDS.splitlines())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["peaks"], "needs a file and a model"),
        (["peaks", "{}"], "needs a file and a model"),
        (["peaks", "{}", "--model", " "], "must be the name of a model"),
        (["peaks", "{}", "--model", "MI300X"], "no roofline.csv"),
        (["peaks", "{}/none", "--model", "MI300X"], "cannot read"),
        (["show", "{}"], "belong to peaks"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    file = tmp_path / "empty.csv"
    file.write_text("")
    assert main(["config", *(part.format(file) for part in arguments)]) != exits.OK
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
