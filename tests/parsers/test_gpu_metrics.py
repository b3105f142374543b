"""AMD's driver files: gpu_metrics of each known version, built byte by byte, and files with a single value."""

import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kits.fake_sysfs import Sysfs, blob, sensors, values
from telemetry_parsers.model import Absent
from telemetry_parsers.vendors.amd.amdgpu_sysfs.gpu_metrics import (
    LAYOUTS,
    UnreadableBlobError,
    decode_content,
    read_blob,
)

Version = tuple[int, int]
ValuesByOffset = Mapping[int, tuple[str, int]]

# Fields by the offsets of AMD's structs, not by the parser's tables.
CARD: ValuesByOffset = {4: ("H", 41), 6: ("H", 44), 8: ("H", 52), 16: ("H", 37), 18: ("H", 12), 20: ("H", 5), 22: ("H", 92), 24: ("Q", 65536), 54: ("H", 800), 58: ("H", 1600), 88: ("H", 50), 90: ("H", 51)}  # fmt: skip
UNALIGNED: ValuesByOffset = {16: ("H", 41), 18: ("H", 44), 20: ("H", 52), 28: ("H", 37), 30: ("H", 12), 32: ("H", 5), 34: ("H", 92), 36: ("I", 65536), 54: ("H", 800), 58: ("H", 1600)}  # fmt: skip
SIZES = {
    (1, 0): 80, (1, 1): 96, (1, 2): 104, (1, 3): 120, (1, 4): 288, (1, 5): 360, (1, 6): 1664, (1, 7): 2208, (1, 8): 3872,
    (2, 0): 120, (2, 1): 120, (2, 2): 128, (2, 3): 152, (2, 4): 168, (3, 0): 264,
}  # fmt: skip
# The offsets of the energy, the first graphics, SoC and video clocks and the memory clock of each newer version.
INSTINCT = {
    (1, 4): (24, 240, 256, 264, 280),
    (1, 5): (88, 312, 328, 336, 352),
    (1, 6): (16, 264, 280, 288, 304),
    (1, 7): (24, 296, 312, 320, 336),
    (1, 8): (24, 296, 312, 320, 336),
}
# For versions with partitions: offset of their number, of the first one, size of each, and its video engines.
PARTITIONED = {(1, 6): (306, 312, 168, 96), (1, 7): (338, 344, 232, 96), (1, 8): (338, 344, 440, 112)}


def named(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def values_of(content: bytes, partition: int = 0) -> dict[str, object]:
    found = [item for item in read_blob(content) if item.partition == partition]
    assert len({(item.metric, item.label) for item in found}) == len(found)
    return {f"{item.metric} {item.label}".strip(): item.value for item in found}


def test_every_version_with_a_table_is_tested() -> None:
    assert {version: layout.size for version, layout in LAYOUTS.items()} == SIZES


@pytest.mark.parametrize(("version", "fields"), [((1, 0), UNALIGNED), *(((1, n), CARD) for n in (1, 2, 3))], ids=str)
def test_cards_before_the_mi300(version: Version, fields: ValuesByOffset) -> None:
    found = values_of(blob(*version, SIZES[version], fields))
    assert found["temperature_celsius edge"] == 41.0
    assert found["temperature_celsius junction"] == 44.0
    assert found["temperature_celsius memory"] == 52.0
    assert found.get("temperature_celsius hbm1") == (51.0 if 88 in fields else None)
    assert "temperature_celsius hbm2" not in found
    assert (found["utilization_ratio"], found["memory_activity_ratio"]) == (0.37, 0.12)
    assert found["engine_utilization_ratio multimedia"] == 0.05
    assert (found["power_average_watts"], found["energy_joules_total"]) == (92.0, 1.0)
    assert (found["clock_hertz graphics"], found["clock_hertz memory"]) == (800e6, 1600e6)
    assert found["clock_hertz soc"] is Absent.NOT_SUPPORTED


@pytest.mark.parametrize("version", sorted(INSTINCT), ids=named)
def test_cards_from_the_mi300_on(version: Version) -> None:
    energy, graphics, soc, video, memory = INSTINCT[version]
    fields = {
        4: ("H", 47), 6: ("H", 39), 10: ("H", 141), 12: ("H", 3), 14: ("H", 1), energy: ("Q", 655360),
        graphics: ("H", 132), graphics + 14: ("H", 2100), soc + 6: ("H", 29), video: ("H", 31), memory: ("H", 900),
    }  # fmt: skip
    found = values_of(blob(*version, SIZES[version], fields))
    assert (found["temperature_celsius junction"], found["temperature_celsius memory"]) == (47.0, 39.0)
    assert (found["utilization_ratio"], found["memory_activity_ratio"]) == (0.03, 0.01)
    assert (found["power_instant_watts"], found["energy_joules_total"]) == (141.0, 10.0)
    # The highest of several clocks of a kind.
    assert (found["clock_hertz graphics"], found["clock_hertz memory"]) == (2100e6, 900e6)
    assert (found["clock_hertz soc"], found["clock_hertz video"]) == (29e6, 31e6)
    assert "power_average_watts" not in found


@pytest.mark.parametrize(("version", "engines"), [((1, 4), {"vcn": 20}), ((1, 5), {"vcn": 20, "jpeg": 70})], ids=str)
def test_the_busiest_engine_of_a_kind(version: Version, engines: Mapping[str, int]) -> None:
    fields = dict.fromkeys((16, 24), ("H", 9)) | dict.fromkeys(engines.values(), ("H", 64))
    found = values_of(blob(*version, SIZES[version], fields))
    assert {name: found[f"engine_utilization_ratio {name}"] for name in engines} == dict.fromkeys(engines, 0.64)


@pytest.mark.parametrize("version", sorted(PARTITIONED), ids=named)
def test_partitions_have_their_own_utilization(version: Version) -> None:
    count, first, size, video = PARTITIONED[version]
    second = first + size
    fields = {
        12: ("H", 50), count: ("H", 2), first: ("I", 10), second: ("I", 90), second + 4: ("I", 80), second + video: ("H", 4),
    }  # fmt: skip
    content = blob(*version, SIZES[version], fields)
    assert values_of(content)["utilization_ratio"] == 0.5
    assert "engine_utilization_ratio vcn" not in values_of(content)
    assert values_of(content, 1) == {
        "utilization_ratio": 0.9,
        "engine_utilization_ratio vcn": 0.04,
        "engine_utilization_ratio jpeg": Absent.NOT_SUPPORTED,
    }
    assert values_of(content, 2) == {}


@pytest.mark.parametrize("count", [0, 9, 0xFFFF])
def test_impossible_number_of_partitions_is_ignored(count: int) -> None:
    content = blob(1, 6, 1664, {306: ("H", count), 312: ("I", 10), 480: ("I", 20)})
    assert {item.partition for item in read_blob(content)} == {0}


def test_engines_of_the_only_partition_belong_to_the_card() -> None:
    found = values_of(
        blob(1, 6, 1664, {12: ("H", 50), 306: ("H", 1), 312: ("I", 10), 312 + 32: ("H", 8), 312 + 96: ("H", 4)})
    )
    assert (found["engine_utilization_ratio vcn"], found["engine_utilization_ratio jpeg"]) == (0.04, 0.08)
    assert found["utilization_ratio"] == 0.5


@pytest.mark.parametrize("version", [(2, minor) for minor in range(5)], ids=named)
def test_graphics_of_processors(version: Version) -> None:
    start, clocks = (16, 80) if version == (2, 0) else (4, 76)
    fields = {start: ("H", 4152), start + 2: ("H", 3940), **{clocks + 2 * n: ("H", 400 + n) for n in range(5)}}
    found = values_of(blob(*version, SIZES[version], fields))
    assert (found["temperature_celsius edge"], found["temperature_celsius soc"]) == (41.52, 39.4)
    domains = ("graphics", "soc", "memory", "fabric", "video")
    assert [found[f"clock_hertz {domain}"] for domain in domains] == [(400 + n) * 1e6 for n in range(5)]
    # The unit of the field depends on the chip and its firmware.
    assert "utilization_ratio" not in found
    assert ("power_average_watts" in found) == (version == (2, 4))


def test_the_power_of_a_processor_is_in_milliwatts() -> None:
    assert values_of(blob(2, 4, 168, {40: ("H", 15250)}))["power_average_watts"] == 15.25
    assert values_of(blob(3, 0, 264, {112: ("I", 115250)}))["power_average_watts"] == 115.25


def test_newer_processors() -> None:
    fields = {
        4: ("H", 4152),
        6: ("H", 3940),
        42: ("H", 7),
        44: ("H", 2),
        174: ("H", 612),
        182: ("H", 1800),
        186: ("H", 937),
    }
    found = values_of(blob(3, 0, 264, fields))
    assert (found["temperature_celsius edge"], found["temperature_celsius soc"]) == (41.52, 39.4)
    assert (found["utilization_ratio"], found["engine_utilization_ratio vcn"]) == (0.07, 0.02)
    assert [found[f"clock_hertz {domain}"] for domain in ("graphics", "fabric", "memory")] == [612e6, 1800e6, 937e6]


@pytest.mark.parametrize("version", [(1, 3), (1, 7)], ids=named)
def test_energy_counter_of_0_is_not_supported(version: Version) -> None:
    assert values_of(blob(*version, SIZES[version], {24: ("Q", 0)}))["energy_joules_total"] is Absent.NOT_SUPPORTED


def test_throttle_status_has_its_reasons() -> None:
    for status, reasons in [
        (0, set()),
        (1, {"power_limit"}),
        (1 << 22, {"current_limit"}),
        (1 << 36 | 1, {"thermal", "power_limit"}),
        (1 << 56, {"other"}),
    ]:
        for version, offset in [((1, 3), 112), ((2, 2), 120), ((2, 4), 120)]:
            found = values_of(blob(*version, SIZES[version], {offset: ("Q", status)}))
            throttled = {name.split()[1]: value for name, value in found.items() if name.startswith("throttled")}
            assert set(throttled) == {"power_limit", "current_limit", "thermal", "other"}
            assert {reason for reason, value in throttled.items() if value == 1.0} == reasons


def attribute(identity: int, kind: int, code: str, *numbers: int) -> bytes:
    encoding = kind << 20 | identity << 10 | len(numbers)
    return struct.pack("<Q", encoding) + struct.pack(f"<{len(numbers)}{code}", *numbers)


def attributes(*encoded: bytes) -> bytes:
    body = b"".join(encoded)
    return struct.pack("<HBBi", 8 + len(body), 1, 9, len(encoded)) + body


def test_a_list_of_attributes() -> None:
    content = attributes(
        attribute(0, 2, "H", 51), attribute(900, 6, "Q", 7), attribute(3, 4, "I", 300), attribute(33, 2, "H", 100, 2000),
        attribute(42, 2, "H", 3, 0xFFFF, 40), attribute(48, 2, "H", 45, 0xFFFF, 47), attribute(1, 3, "h", -1),
    )  # fmt: skip
    assert values_of(content) == {
        "temperature_celsius junction": 51.0,
        "temperature_celsius memory": -1.0,
        "temperature_celsius hbm0": 45.0,
        "temperature_celsius hbm2": 47.0,
        "power_instant_watts": 300.0,
        "clock_hertz graphics": 2000e6,
        "engine_utilization_ratio vcn": 0.4,
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cut off inside its header"),
        (blob(2, 9, 120, {}), "version 2.9"),
        (blob(1, 3, 96, {}), r"version 1.3 with 96 bytes \(header: 96\)"),
        (blob(1, 3, 120, {})[:100], r"with 100 bytes \(header: 120\)"),
        (struct.pack("<HBBi", 8, 1, 9, 3), "cut off inside an attribute"),
        (struct.pack("<HBBi", 8, 1, 9, -1), "-1 attributes"),
        (attributes(attribute(0, 9, "H", 51)), "unknown attribute type 9"),
        (attributes(attribute(0, 2, "H", 51))[:-1], "cut off inside an attribute"),
    ],
)
def test_unknown_blob_is_refused_with_its_reason(content: bytes, words: str) -> None:
    with pytest.raises(UnreadableBlobError, match=words):
        read_blob(content)


def test_blob_without_values_has_no_number() -> None:
    for version in sorted(SIZES):
        assert {item.value for item in read_blob(blob(*version, SIZES[version], {}))} <= {Absent.NOT_SUPPORTED}


@given(st.binary(min_size=1, max_size=64), st.sampled_from(sorted(SIZES)))
def test_any_blob_has_each_metric_at_most_once(content: bytes, version: Version) -> None:
    size = SIZES[version]
    body = (content * size)[: size - 4]
    found = read_blob(struct.pack("<HBB", size, *version) + body)
    assert len({(item.metric, item.label, item.partition) for item in found}) == len(found)


@given(st.binary(max_size=400), st.integers(0, 20))
def test_any_list_of_attributes_is_read_or_refused(content: bytes, count: int) -> None:
    with suppress(UnreadableBlobError):  # a refusal is a good answer
        assert all(item.metric for item in read_blob(struct.pack("<HBBi", len(content) + 8, 1, 9, count) + content))


@pytest.mark.parametrize("data", [None, {}, {"base64": 7}, {"base64": "?"}, {"base64": "é"}, {"base64": "AA\n=="}])
def test_content_other_than_base64_is_refused(data: object) -> None:
    with pytest.raises(UnreadableBlobError, match="bytes"):
        decode_content(data)


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
def test_fan_ratio_is_a_share_of_the_maximum(sysfs: Sysfs, files: dict[str, str], ratio: float | None) -> None:
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
    readings = values(sysfs.report())
    assert {key: value for key, value in readings.items() if key.startswith(("voltage", "fan_rpm"))} == found


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
