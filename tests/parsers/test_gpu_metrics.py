"""The binary gpu_metrics of each known version, built byte by byte; what is unknown is counted, not guessed."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysfs_kit import Sysfs, blob
from telemetry_parsers.amdgpu_sysfs.blob import LAYOUTS, UnknownBlobError, read_blob
from telemetry_parsers.model import Absent

OLD = {4: ("H", 41), 6: ("H", 44), 8: ("H", 52), 16: ("H", 37), 18: ("H", 12), 22: ("H", 92), 24: ("Q", 65536), 54: ("H", 800), 58: ("H", 1600), 74: ("H", 16), 76: ("H", 160), 88: ("H", 50), 90: ("H", 51)}  # fmt: skip
NEW = {4: ("H", 47), 6: ("H", 39), 10: ("H", 141), 12: ("H", 3), 14: ("H", 1)}
# Where the energy, the first clock and the memory clock of each newer version stand.
PLACES = {
    (1, 4): (24, 240, 280),
    (1, 5): (88, 312, 352),
    (1, 6): (16, 264, 304),
    (1, 7): (24, 296, 336),
    (1, 8): (24, 296, 336),
}


def told(content: bytes) -> dict[str, object]:
    return {f"{item.metric} {item.label}".strip(): item.value for item in read_blob(content)}


@pytest.mark.parametrize(("revision", "size"), [(1, 96), (2, 104), (3, 120)])
def test_the_older_versions(revision: int, size: int) -> None:
    found = told(blob(1, revision, size, OLD))
    assert found["temperature_celsius edge"] == 41.0
    assert found["temperature_celsius junction"] == 44.0
    assert found["temperature_celsius hbm1"] == 51.0
    assert "temperature_celsius hbm2" not in found
    assert (found["utilization_ratio"], found["memory_activity_ratio"]) == (0.37, 0.12)
    assert (found["power_average_watts"], found["energy_joules_total"]) == (92.0, 1.0)
    assert (found["clock_hertz graphics"], found["clock_hertz memory"]) == (800e6, 1600e6)
    assert (found["pcie_link_generation"], found["pcie_link_width"]) == (4.0, 16.0)
    assert found["clock_hertz soc"] is Absent.NOT_SUPPORTED


@pytest.mark.parametrize("version", sorted(PLACES), ids=lambda version: f"{version[0]}.{version[1]}")
def test_the_newer_versions(version: tuple[int, int]) -> None:
    energy, clock, memory = PLACES[version]
    places = {**NEW, energy: ("Q", 655360), clock: ("H", 132), clock + 2: ("H", 2100), memory: ("H", 900)}
    found = told(blob(*version, LAYOUTS[version].size, places))
    assert (found["temperature_celsius junction"], found["temperature_celsius memory"]) == (47.0, 39.0)
    assert (found["power_instant_watts"], found["energy_joules_total"]) == (141.0, 10.0)
    assert (found["clock_hertz graphics"], found["clock_hertz memory"]) == (2100e6, 900e6)


@pytest.mark.parametrize(
    ("status", "reasons"),
    [
        (0, set()),
        (1, {"power_limit"}),
        (1 << 22, {"current_limit"}),
        (1 << 36 | 1, {"thermal", "power_limit"}),
        (1 << 56, {"other"}),
    ],
)
def test_why_the_clocks_are_held_down(status: int, reasons: set[str]) -> None:
    found = told(blob(1, 3, 120, {**OLD, 112: ("Q", status)}))
    assert {
        name.split()[1] for name, value in found.items() if name.startswith("throttled") and value == 1.0
    } == reasons


def test_a_list_of_attributes() -> None:
    def attribute(identity: int, kind: int, code: str, *numbers: int) -> bytes:
        return struct.pack("<Q", kind << 20 | identity << 10 | len(numbers)) + struct.pack(
            f"<{len(numbers)}{code}", *numbers
        )

    body = (
        attribute(0, 2, "H", 51)
        + attribute(900, 6, "Q", 7)
        + attribute(3, 4, "I", 300)
        + attribute(33, 2, "H", 100, 2000)
    )
    content = struct.pack("<HBBi", 8 + len(body), 1, 9, 4) + body
    assert told(content) == {
        "temperature_celsius junction": 51.0,
        "power_instant_watts": 300.0,
        "clock_hertz graphics": 2000e6,
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "shorter than its header"),
        (blob(2, 3, 120, {}), "version 2.3"),
        (blob(1, 3, 96, {}), "version 1.3 in 96 bytes that say 96"),
        (blob(1, 3, 120, {})[:100], "in 100 bytes"),
        (struct.pack("<HBBi", 8, 1, 9, 3), "ends inside an attribute"),
        (struct.pack("<HBBi", 8, 1, 9, -1), "-1 attributes"),
    ],
)
def test_what_is_unknown_is_named(content: bytes, words: str) -> None:
    with pytest.raises(UnknownBlobError, match=words):
        read_blob(content)


def test_an_unknown_version_is_counted_as_a_field(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path)
    sysfs.card("0000:05:00.0", {"vendor": "0x1002", "gpu_busy_percent": "5", "gpu_metrics": blob(3, 0, 264, {})})
    report = sysfs.report()
    assert report.unknown_fields == ("gpu_metrics version 3.0",)
    assert [item.value for item in report.readings if item.metric == "utilization_ratio"] == [0.05]


@given(st.binary(max_size=400), st.sampled_from([*LAYOUTS, (1, 9)]))
def test_whatever_the_bytes_are_it_tells_or_says_why_not(content: bytes, version: tuple[int, int]) -> None:
    with suppress(UnknownBlobError):
        assert all(item.metric for item in read_blob(struct.pack("<HBB", len(content) + 4, *version) + content))
