"""Single files of a card: what each gives, by its name and its label."""

from __future__ import annotations

from pathlib import Path

import pytest

from kits.fake_sysfs import Sysfs, sensors, values
from telemetry_parsers.model import Absent

BUS = "0000:c1:00.0"


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


@pytest.mark.parametrize(
    ("files", "ratio"),
    [
        ({"fan1_input": "660", "fan1_max": "3300", "pwm1": "128", "pwm1_max": "255"}, 0.2),
        ({"pwm1": "51", "pwm1_max": "255"}, 0.2),
        ({"fan1_input": "0", "fan1_max": "3300"}, 0.0),
        ({"fan1_input": "660", "fan1_max": "0"}, None),
        ({"fan1_input": "", "fan1_max": "3300"}, None),
        ({"fan1_input": "660"}, None),
    ],
)
def test_a_fan_is_told_as_a_share_of_its_maximum(sysfs: Sysfs, files: dict[str, str], ratio: float | None) -> None:
    sysfs.card(BUS, {"vendor": "0x1002", "gpu_busy_percent": "0", **sensors(**files)})
    assert values(sysfs.report()).get("fan_ratio") == ratio


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"in0_input": "731", "in0_label": "vddgfx"}, {"voltage_volts graphics": 0.731}),
        ({"in1_input": "894", "in1_label": "vddnb"}, {"voltage_volts soc": 0.894}),
        ({"in2_input": "12050", "in2_label": "vddboard"}, {"voltage_volts board": 12.05}),
        ({"in0_input": "4294967295", "in0_label": "vddgfx"}, {"voltage_volts graphics": Absent.IMPLAUSIBLE}),
        ({"in0_input": "731"}, {}),
        ({"fan1_input": "1660"}, {"fan_rpm": 1660.0}),
        ({"fan1_input": "65535"}, {"fan_rpm": Absent.IMPLAUSIBLE}),
    ],
)
def test_voltages_by_their_labels_and_the_fan_by_its_speed(
    sysfs: Sysfs, files: dict[str, str], found: dict[str, float]
) -> None:
    sysfs.card(BUS, {"vendor": "0x1002", "gpu_busy_percent": "0", **sensors(**files)})
    told = values(sysfs.report())
    assert {key: value for key, value in told.items() if key.startswith(("voltage", "fan_rpm"))} == found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("ras/features", "feature mask: 0x1", {"ecc_enabled": 1.0}),
        ("ras/features", "feature mask: 0x7ffe\numc: DISABLED", {"ecc_enabled": 0.0}),
        ("ras/features", "no mask", {"ecc_enabled": Absent.NOT_UNDERSTOOD}),
        (
            "ras/umc_err_count",
            "ue: 2\nce: 0\nde: 7",
            {"ecc_uncorrected_total umc": 2.0, "ecc_corrected_total umc": 0.0, "ecc_deferred_total umc": 7.0},
        ),
        (
            "ras/gpu_vram_bad_pages",
            "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P\n0x00000003 : 0x00001000 : R",
            {"retired_pages all": 2.0, "retired_pages_pending": 1.0},
        ),
        (
            "ras/gpu_vram_bad_pages",
            "0x0000abcd : 0x00001000 : R",
            {"retired_pages all": 1.0, "retired_pages_pending": 0.0},
        ),
        ("ras/gpu_vram_bad_pages", "", {}),
        ("ras/gpu_vram_bad_pages", "0x00000001 : 0x0000", {"retired_pages all": Absent.NOT_UNDERSTOOD}),
        ("current_link_speed", "Unknown", {"pcie_link_generation": Absent.NOT_REPORTED}),
        ("current_link_speed", "Unknown speed", {"pcie_link_generation": Absent.NOT_REPORTED}),
        ("current_link_speed", "64.0 GT/s PCIe", {"pcie_link_generation": 6.0}),
        ("max_link_speed", "2.5 GT/s", {"pcie_link_generation_max": 1.0}),
        ("current_link_width", "0", {"pcie_link_width": Absent.NOT_SUPPORTED}),
        ("max_link_width", "255", {"pcie_link_width_max": Absent.NOT_SUPPORTED}),
    ],
)
def test_slow_files(sysfs: Sysfs, name: str, text: str, found: dict[str, object]) -> None:
    sysfs.card(BUS, {"vendor": "0x1002", name: text})
    assert values(sysfs.report(1)) == found
