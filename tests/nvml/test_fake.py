"""The fake NVML has pynvml's structures and each driver branch's symbols, and returns its profiles' values."""

import ctypes
import re
import time
from typing import Any

import pynvml
import pytest

from kits.fake_nvml.build import LEVELS, SOURCES, library, symbols
from kits.fake_nvml.reader import Bench

pytestmark = pytest.mark.needs("cc")
# Structures whose name in pynvml is not the C name with the prefix `c_`.
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


def layout() -> list[tuple[str, str, int, int]]:
    """Return structure, member ("" for the whole), offset and size according to the C compiler."""
    layout_row = ctypes.CDLL(str(library(580))).fakeNvmlLayout
    structure, member, offset, size = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_size_t(), ctypes.c_size_t()
    pointers = [ctypes.byref(value) for value in (structure, member, offset, size)]
    rows = []
    while layout_row(len(rows), *pointers):
        rows.append(((structure.value or b"").decode(), (member.value or b"").decode(), offset.value, size.value))
    return rows


def in_pynvml(structure: str) -> Any:
    return getattr(pynvml, NAMES_IN_PYNVML.get(structure, f"c_{structure}"))


def test_structures_are_as_pynvml_has_them() -> None:
    rows = layout()
    # The number of metrics depends on the caller; the C structure has one.
    members = [row for row in rows if row[1] not in ("", "metrics")]
    fields = [getattr(in_pynvml(structure), member) for structure, member, *_ in members]
    assert [row[2:] for row in members] == [(field.offset, field.size) for field in fields], members
    assert ("nvmlGpmMetricsGet_t", "metrics", pynvml.c_nvmlGpmMetricsGet_t.metrics.offset) in [row[:3] for row in rows]
    wholes = {structure: size for structure, member, _, size in rows if not member}
    assert wholes == {structure: ctypes.sizeof(in_pynvml(structure)) for structure in wholes}
    defined = set(re.findall(r"^\} (nvml\w+_t);", (SOURCES / "nvml_types.h").read_text(), re.MULTILINE))
    # This structure is wrong in pynvml.
    assert {structure for structure, *_ in rows} == defined - {"nvmlUnrepairableMemoryStatus_v1_t"}


@pytest.mark.parametrize("level", [450, 535, 595])
def test_driver_branch_lacks_functions_of_later_branches(level: int) -> None:
    built = ctypes.CDLL(str(library(level)))
    assert {name for name in symbols(LEVELS[-1]) if hasattr(built, name)} == set(symbols(level))


def test_calls_use_the_cpu_time_of_the_given_card(bench: Bench) -> None:
    fake = bench.fake
    for poll in ("fast", "counters"):
        bench.data(poll)
    assert fake.driver_seconds() == 0.0
    fake.cost("h200")
    spent = []
    for poll, least, most in (("fast", 0.0003, 0.001), ("counters", 0.0046, 0.0048)):
        before, cpu = fake.driver_seconds(), time.thread_time()
        bench.data(poll)
        spent.append((fake.driver_seconds() - before) / len(bench.data(poll)["gpus"]))
        assert least <= spent[-1] <= most, poll
        assert time.thread_time() - cpu >= 8 * spent[-1]
