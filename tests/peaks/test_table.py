"""The table of peaks: every figure has a source and agrees with units and clock; measured peaks are accepted."""

import math
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits.captures import ROOT
from telemetry_parsers.card_peaks import DTYPES, OPERATIONS_PER_UNIT, ROWS, peak_of

sys.path.insert(0, str(ROOT / ".ci"))

from pathlib import Path

from peak_sources import SOURCES

from telemetry_daemon.cli import main
from telemetry_daemon.config.file import load
from telemetry_daemon.config.inputs import ConfigInputs
from telemetry_daemon.state.peaks import configured_peaks
from telemetry_daemon.terminal import exits
from telemetry_parsers.roofline import NoRooflineError, measured_peak

NAMES = [name for row in ROWS for name in row.names]
TERA = 1e12


def test_units_times_clock_agree_with_what_the_source_quotes() -> None:
    for row in ROWS:
        assert row.quoted
        for dtype, quote in row.quoted:
            computed = row.units * OPERATIONS_PER_UNIT[row.architecture][dtype] * quote.megahertz * 1e6
            assert computed == pytest.approx(quote.teraflops * TERA, rel=0.02), dtype


def test_every_row_names_a_vendors_document_or_two_pages() -> None:
    for row in ROWS:
        assert all(re.match(r"https://\S+", SOURCES[source]) for source in row.sources)
        vendor_sources = [source for source in row.sources if source.startswith(("nvidia-", "amd-", "rocm-"))]
        assert vendor_sources or len(set(row.sources)) >= 2


def test_names_are_unique_and_every_source_is_used() -> None:
    assert {source for row in ROWS for source in row.sources} == SOURCES.keys()
    assert len(NAMES) == len(set(NAMES))
    assert {row.architecture for row in ROWS} == OPERATIONS_PER_UNIT.keys()
    assert all(dtype in DTYPES for row in ROWS for dtype, _ in row.quoted)
    assert all(re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{4}", pci_id) for row in ROWS for pci_id in row.pci_ids)


@pytest.mark.parametrize(
    ("model", "bf16", "memory"),
    [
        ("NVIDIA A100-SXM4-40GB", 312.0, 1555.0),
        ("NVIDIA H100 80GB HBM3", 989.4, 3350.0),
        ("NVIDIA H100 PCIe", 756.0, 2000.0),
        ("NVIDIA H200", 989.4, 4800.0),
        ("AMD Instinct MI300X", 1307.4, 5300.0),
        # A die of two.
        ("AMD Instinct MI250X", 191.5, 1638.4),
    ],
)
def test_well_known_peaks_are_in_the_table(model: str, bf16: float, memory: float) -> None:
    peak = peak_of(model)
    assert peak is not None
    assert peak.flops("bf16") == pytest.approx(bf16 * TERA)
    assert peak.memory_bytes_per_second == pytest.approx(memory * 1e9)
    assert (peak.origin, peak.main_dtype) == ("vendor", "bf16")


def test_a_card_without_bf16_has_fp16() -> None:
    peak = peak_of("Tesla V100-SXM2-32GB")
    assert peak is not None
    assert (peak.main_dtype, peak.flops("bf16"), peak.flops_per_cycle("fp16")) == ("fp16", None, 80 * 1024)


def test_unknown_and_similar_names_have_no_peak() -> None:
    for model in [
        *("", " ", "H100", "NVIDIA H100", "nvidia h100 pcie", "NVIDIA H100 80GB HBM3 ", "NVIDIA H100 80GB HBM2e"),
        *("NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "NVIDIA GH200", "NVIDIA GH200 144G HBM3e"),
        *("NVIDIA H20", "NVIDIA H800", "NVIDIA A800-SXM4-80GB", "NVIDIA A10G", "GRID A100D-40C", "NVIDIA B200"),
        *("AMD Instinct MI300X VF", "AMD Instinct MI300X HF", "AMD Instinct MI308X", "Instinct", "AMD Radeon Graphics"),
        *("910B3", "Ascend910", "MTT S5000", "K100_AI", "BW", "MXC500", "Iluvatar BI-V150", "MLU370-X8"),
    ]:
        assert peak_of(model) is None


@given(st.sampled_from(NAMES), st.integers(0, 40), st.characters())
def test_a_name_that_differs_in_one_character_is_another_card(name: str, at: int, character: str) -> None:
    for other in (name[:at] + character + name[at:], name[:at] + character + name[at + 1 :], name[:at]):
        assert peak_of(other) is None or other in NAMES


def test_a_pci_id_finds_a_card_whose_name_is_not_known() -> None:
    assert peak_of("0x0c34", "1002:74a1") == peak_of("AMD Instinct MI300X")


def test_a_pci_id_that_contradicts_or_is_shared_gives_nothing() -> None:
    for model, pci_id in [
        ("AMD Instinct MI300X", "1002:74b5"),  # a virtual function
        ("AMD Instinct MI300X", "1002:74a5"),  # another card
        ("a new name", "1002:740c"),  # two cards have it
        ("a new name", "1d94:74a1"),
        ("a new name", ""),
    ]:
        assert peak_of(model, pci_id) is None


def test_every_peak_is_finite_and_above_zero() -> None:
    for name in NAMES:
        peak = peak_of(name)
        assert peak is not None
        numbers = [number for rate in peak.rates for number in (rate.flops, rate.flops_per_cycle)]
        numbers += [peak.memory_bytes_per_second] if peak.memory_bytes_per_second is not None else []
        assert all(number is not None and math.isfinite(number) and number > 0 for number in numbers)


HEAD = "device,HBMBw,HBMBwLow,hbmBwHigh,MFMABF16Flops,MFMABF16FlopsLow,MFMAF4Flops,FP32Flops,SomethingNew"
TWO_CARDS = f"{HEAD}\n0,4200.5,4100,4300,500000,1,0,130000,7\n1,4100.5,4100,9999,520000,1,0,120000,7\n"


def test_measured_peak_is_the_best_of_the_cards() -> None:
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
        with pytest.raises(NoRooflineError, match=r"not a roofline\.csv"):
            measured_peak(text.splitlines())


@given(st.text() | st.lists(st.text(), max_size=4).map(lambda cells: f"{HEAD}\n" + ",".join(cells)))
def test_any_text_gives_numbers_above_zero_or_is_refused(text: str) -> None:
    try:
        peak = measured_peak(text.splitlines())
    except NoRooflineError:  # the other permitted outcome
        return
    numbers = [rate.flops for rate in peak.rates] + [peak.memory_bytes_per_second]
    assert all(number is None or 0 <= number < math.inf for number in numbers)


def test_printed_section_loads_to_the_measured_peak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roofline, file = tmp_path / "roofline.csv", tmp_path / "telemetry.toml"
    roofline.write_text(TWO_CARDS)
    assert main(["config", "peaks", str(roofline), "--model", "AMD Instinct MI300X"]) == exits.OK
    file.write_text(capsys.readouterr().out)
    settings = load(ConfigInputs(str(file), {}))
    assert settings.peaks["AMD Instinct MI300X"].origin == "measured"
    assert configured_peaks(settings).configured["AMD Instinct MI300X"] == measured_peak(TWO_CARDS.splitlines())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["peaks"], "needs a file and a model"),
        (["peaks", "{}"], "needs a file and a model"),
        (["peaks", "{}", "--model", " "], "must be the name of a model"),
        (["peaks", "{}", "--model", "MI300X"], "not a roofline.csv"),
        (["peaks", "{}/none", "--model", "MI300X"], "cannot read"),
        (["show", "{}"], "only for 'telemetry config peaks'"),
    ],
)
def test_errors_of_the_command_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    file = tmp_path / "empty.csv"
    file.write_text("")
    assert main(["config", *(part.format(file) for part in arguments)]) != exits.OK
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line
