"""The fake's interface is the library's: structures as pynvml has them, symbols as each driver branch has them."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pynvml
import pytest

from kits.fake_nvml.build import LEVELS, SOURCES, build, build_once, level_of, symbols

pytestmark = pytest.mark.needs("cc", "nm")

# pynvml's names of structures that are not ours with `c_` before them.
NAMES_IN_PYNVML = {
    "nvmlPciInfo_t": "nvmlPciInfo_t",
    "nvmlPciInfoExt_v1_t": "nvmlPciInfoExt_v1_t",
    "nvmlProcessInfo_t": "c_nvmlProcessInfo_v2_t",
    "nvmlFanSpeedInfo_v1_t": "c_nvmlFanSpeedInfo_t",
    "nvmlRepairStatus_v1_t": "c_nvmlRepairStatus_t",
    "nvmlDeviceAddressingMode_v1_t": "c_nvmlDeviceAddressingMode_t",
    "nvmlRowRemapperHistogramValues_t": "c_nvmlRowRemapperHistogramValues",
    "nvmlDeviceAttributes_t": "c_nvmlDeviceAttributes",
}
# Calls that a driver branch is known to lack, and the first that has them.
FIRST_OF = {
    "nvmlDeviceGetMemoryInfo_v2": 515,
    "nvmlDeviceGetComputeRunningProcesses_v3": 515,
    "nvmlGpmMetricsGet": 525,
    "nvmlDeviceGetCurrentClocksEventReasons": 535,
    "nvmlDeviceGetGpuFabricInfoV": 550,
    "nvmlDeviceGetTemperatureV": 570,
    "nvmlDeviceGetAddressingMode": 580,
    "nvmlDeviceGetDriverModel_v2": 595,
}


def layout(library: Path) -> list[tuple[str, str, int, int]]:
    """Structure, member ("" for the whole), offset and size as the C compiler has them."""
    tell = ctypes.CDLL(str(library)).fakeNvmlLayout
    structure, member, offset, size = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_size_t(), ctypes.c_size_t()
    places = [ctypes.byref(each) for each in (structure, member, offset, size)]
    rows = []
    while tell(len(rows), *places):
        assert structure.value is not None
        assert member.value is not None
        rows.append((structure.value.decode(), member.value.decode(), offset.value, size.value))
    return rows


def in_pynvml(structure: str) -> type[ctypes.Structure]:
    found: type[ctypes.Structure] = getattr(pynvml, NAMES_IN_PYNVML.get(structure, f"c_{structure}"))
    return found


def test_structures_are_as_pynvml_has_them() -> None:
    told = layout(build_once(580))
    # As many metrics as the caller says: the C structure has one.
    members = [row for row in told if row[1] not in ("", "metrics")]
    fields = [getattr(in_pynvml(structure), member) for structure, member, *_ in members]
    assert [row[2:] for row in members] == [(field.offset, field.size) for field in fields], members
    assert ("nvmlGpmMetricsGet_t", "metrics", pynvml.c_nvmlGpmMetricsGet_t.metrics.offset) in [row[:3] for row in told]
    wholes = {structure: size for structure, member, _, size in told if not member}
    assert wholes == {structure: ctypes.sizeof(in_pynvml(structure)) for structure in wholes}
    assert len(wholes) > 30


def test_every_structure_in_the_header_is_compared() -> None:
    header = (SOURCES / "nvml_types.h").read_text()
    # One is not in the list: pynvml has it wrong. Of another only the beginning is, its list has as many as it has.
    except_for = {"nvmlUnrepairableMemoryStatus_v1_t"}
    defined = set(re.findall(r"^\} (nvml\w+_t);", header, re.MULTILINE))
    assert {structure for structure, *_ in layout(build_once(580))} == defined - except_for


def test_all_that_is_written_is_listed_as_symbol(tmp_path: Path) -> None:
    build(tmp_path, LEVELS[-1])
    objects = [str(each) for each in tmp_path.glob("*.o")]
    table = subprocess.run(["nm", "-g", "--defined-only", *objects], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r" T (nvml\w+)", table)) == set(symbols(LEVELS[-1]))


@pytest.mark.parametrize("level", [450, 470, 535, 550, 570, 580, 595])
def test_a_driver_branch_lacks_what_came_later(level: int) -> None:
    library = ctypes.CDLL(str(build_once(level)))
    assert {name for name in symbols(LEVELS[-1]) if hasattr(library, name)} == set(symbols(level))
    assert {name: hasattr(library, name) for name in FIRST_OF} == {
        name: level >= first for name, first in FIRST_OF.items()
    }


@pytest.mark.parametrize(
    ("driver", "level"), [("450.51.05", 450), ("530.30.02", 525), ("580.105.08", 580), ("999.1", 610)]
)
def test_a_driver_version_belongs_to_the_newest_branch_not_above_it(driver: str, level: int) -> None:
    assert level_of(driver) == level


def test_error_texts_are_there_before_anything_else() -> None:
    library = ctypes.CDLL(str(build_once(580)))
    library.nvmlErrorString.restype = ctypes.c_char_p
    assert [library.nvmlErrorString(code) for code in (0, 15, 25, 999)] == [
        b"Success", b"GPU is lost", b"Unknown Error", b"Unknown Error",
    ]  # fmt: skip
