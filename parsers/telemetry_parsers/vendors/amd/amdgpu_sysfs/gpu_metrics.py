"""Reads the binary file gpu_metrics, whose versions are described by tables."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.model import Absent, Value

# A field in gpu_metrics: (offset, struct type, value count).
Field = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class _PartitionTable:
    """The offsets and the size of the partitions in one gpu_metrics version."""

    count_offset: int
    first_offset: int
    size: int
    fields: Mapping[str, Field]


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of one gpu_metrics version: its size and the fields that are read."""

    size: int
    fields: Mapping[str, Field]
    partitions: _PartitionTable | None = None


def _read_only(fields: Mapping[str, Field]) -> Mapping[str, Field]:
    return MappingProxyType(dict(fields))


def _clock_fields(offset: int) -> dict[str, Field]:
    """Return the fields of four consecutive clocks, starting at this offset."""
    return {name: (offset + 2 * index, "H", 1) for index, name in enumerate(("graphics", "soc", "uclk", "video"))}


# The offsets are those of AMD's compiled structs. `centi` and `milli` mean 0.01 °C and 0.001 W.
_CARD_1_0: Mapping[str, Field] = _read_only(
    {
        "edge": (16, "H", 1), "junction": (18, "H", 1), "memory": (20, "H", 1), "gfx": (28, "H", 1), "umc": (30, "H", 1),
        "multimedia": (32, "H", 1), "average_power": (34, "H", 1), "energy": (36, "I", 1), **_clock_fields(54),
    }
)  # fmt: skip
_CARD_1_1: Mapping[str, Field] = _read_only(
    {
        "edge": (4, "H", 1), "junction": (6, "H", 1), "memory": (8, "H", 1), "gfx": (16, "H", 1), "umc": (18, "H", 1),
        "multimedia": (20, "H", 1), "average_power": (22, "H", 1), "energy": (24, "Q", 1), **_clock_fields(54),
        "hbm": (88, "H", 4),
    }
)  # fmt: skip
_CARD_1_4: Mapping[str, Field] = _read_only(
    {
        "junction": (4, "H", 1),
        "memory": (6, "H", 1),
        "instant_power": (10, "H", 1),
        "gfx": (12, "H", 1),
        "umc": (14, "H", 1),
    }
)
_PARTITION: Mapping[str, Field] = _read_only({"gfx": (0, "I", 8), "jpeg": (32, "H", 32), "vcn": (96, "H", 4)})
_PARTITION_1_8: Mapping[str, Field] = _read_only({"gfx": (0, "I", 8), "jpeg": (32, "H", 40), "vcn": (112, "H", 4)})


def _instinct_layout(
    size: int, energy: int, clocks: int, other_fields: Mapping[str, Field], partitions: _PartitionTable | None = None
) -> _Layout:
    """Return the layout of version 1.4 or a later 1.x version. `energy` and `clocks` are offsets."""
    fields = {
        "energy": (energy, "Q", 1), "graphics": (clocks, "H", 8), "soc": (clocks + 16, "H", 4),
        "video": (clocks + 24, "H", 4), "uclk": (clocks + 40, "H", 1),
    }  # fmt: skip
    return _Layout(size, _read_only({**_CARD_1_4, **fields, **other_fields}), partitions)


# Power and activity of 2.0 to 2.3 are not read, because the units differ between chips and firmwares.
_APU_2_1: Mapping[str, Field] = _read_only(
    {
        "edge_centi": (4, "H", 1), "soc_centi": (6, "H", 1), "graphics": (76, "H", 1), "soc": (78, "H", 1),
        "uclk": (80, "H", 1), "fabric": (82, "H", 1), "video": (84, "H", 1),
    }
)  # fmt: skip
_APU_2_0: Mapping[str, Field] = _read_only(
    {
        "edge_centi": (16, "H", 1), "soc_centi": (18, "H", 1), "graphics": (80, "H", 1), "soc": (82, "H", 1),
        "uclk": (84, "H", 1), "fabric": (86, "H", 1), "video": (88, "H", 1),
    }
)  # fmt: skip
_THROTTLE_2_2: Mapping[str, Field] = _read_only({"throttle": (120, "Q", 1)})
_APU_3_0: Mapping[str, Field] = _read_only(
    {
        "edge_centi": (4, "H", 1), "soc_centi": (6, "H", 1), "gfx": (42, "H", 1), "vcn": (44, "H", 1),
        "average_power_milli": (112, "I", 1), "graphics": (174, "H", 1), "soc": (176, "H", 1), "fabric": (182, "H", 1),
        "video": (184, "H", 1), "uclk": (186, "H", 1),
    }
)  # fmt: skip

LAYOUTS: Mapping[tuple[int, int], _Layout] = {
    (1, 0): _Layout(80, _CARD_1_0),
    (1, 1): _Layout(96, _CARD_1_1),
    (1, 2): _Layout(104, _CARD_1_1),
    (1, 3): _Layout(120, _read_only({**_CARD_1_1, "throttle": (112, "Q", 1)})),
    (1, 4): _instinct_layout(288, 24, 240, {"vcn": (16, "H", 4)}),
    (1, 5): _instinct_layout(360, 88, 312, {"vcn": (16, "H", 4), "jpeg": (24, "H", 32)}),
    (1, 6): _instinct_layout(1664, 16, 264, {}, _PartitionTable(306, 312, 168, _PARTITION)),
    (1, 7): _instinct_layout(2208, 24, 296, {}, _PartitionTable(338, 344, 232, _PARTITION)),
    (1, 8): _instinct_layout(3872, 24, 296, {}, _PartitionTable(338, 344, 440, _PARTITION_1_8)),
    (2, 0): _Layout(120, _APU_2_0),
    (2, 1): _Layout(120, _APU_2_1),
    (2, 2): _Layout(128, _read_only({**_APU_2_1, **_THROTTLE_2_2})),
    (2, 3): _Layout(152, _read_only({**_APU_2_1, **_THROTTLE_2_2})),
    (2, 4): _Layout(168, _read_only({**_APU_2_1, **_THROTTLE_2_2, "average_power_milli": (40, "H", 1)})),
    (3, 0): _Layout(264, _APU_3_0),
}
# Version 1.9 is a list of attributes. Each attribute has an id, which replaces the offset.
_FIELDS_BY_ATTRIBUTE_ID: Mapping[int, str] = {
    0: "junction", 1: "memory", 3: "instant_power", 4: "gfx", 5: "umc", 7: "energy", 33: "graphics", 34: "soc",
    35: "video", 37: "uclk", 41: "jpeg", 42: "vcn", 48: "hbm",
}  # fmt: skip
_ATTRIBUTE_TYPES = ("B", "b", "H", "h", "I", "i", "Q", "q")
_MAX_PARTITIONS = 8

_MAX_ATTRIBUTES = 512
_WHOLE_CARD = 0

# Maps each field's name to the field's numbers.
Numbers = Mapping[str, Sequence[int | None]]

# Maps each field's name to (metric, label, factor, divisor).
_CONVERSIONS: Mapping[str, tuple[str, str, int, int]] = {
    "edge": ("temperature_celsius", "edge", 1, 1),
    "edge_centi": ("temperature_celsius", "edge", 1, 100),
    "soc_centi": ("temperature_celsius", "soc", 1, 100),
    "junction": ("temperature_celsius", "junction", 1, 1),
    "memory": ("temperature_celsius", "memory", 1, 1),
    "gfx": ("utilization_ratio", "", 1, 100),
    "umc": ("memory_activity_ratio", "", 1, 100),
    "multimedia": ("engine_utilization_ratio", "multimedia", 1, 100),
    "vcn": ("engine_utilization_ratio", "vcn", 1, 100),
    "jpeg": ("engine_utilization_ratio", "jpeg", 1, 100),
    "average_power": ("power_average_watts", "", 1, 1),
    "average_power_milli": ("power_average_watts", "", 1, 1000),
    "instant_power": ("power_instant_watts", "", 1, 1),
    # The accumulator counts in 2^-16 J, which AMD's documents round to 15.259 µJ.
    "energy": ("energy_joules_total", "", 1, 65_536),
    "graphics": ("clock_hertz", "graphics", 1_000_000, 1),
    "soc": ("clock_hertz", "soc", 1_000_000, 1),
    "uclk": ("clock_hertz", "memory", 1_000_000, 1),
    "fabric": ("clock_hertz", "fabric", 1_000_000, 1),
    "video": ("clock_hertz", "video", 1_000_000, 1),
}
# A 0 in these fields means an unsupported counter: on Radeon cards and the second die of an MI200.
_NEVER_ZERO = frozenset({"energy"})
# Maps each reason to its bits in the chip-independent throttle status (enum smu_throttler).
_THROTTLE_REASONS: Mapping[str, range] = {
    "power_limit": range(16),
    "current_limit": range(16, 32),
    "thermal": range(32, 48),
    "other": range(48, 64),
}


@dataclass(frozen=True, slots=True)
class BlobReading:
    """A value in gpu_metrics as a metric, of the whole card or of a partition."""

    metric: str
    label: str
    value: Value
    partition: int = _WHOLE_CARD


class UnreadableBlobError(ValueError):
    """The content of gpu_metrics is missing or broken, or its version is unknown."""


def decode_content(data: object) -> bytes:
    """Return the content of a captured binary file. Raise UnreadableBlobError if it is missing or broken."""
    text = data.get("base64") if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise UnreadableBlobError("no bytes")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:  # characters outside base64's alphabet or outside ASCII
        raise UnreadableBlobError(f"broken bytes: {error}") from None


def read_blob(content: bytes) -> list[BlobReading]:
    """Return the readings in the content of gpu_metrics. Raise UnreadableBlobError if it cannot be read."""
    if len(content) < 4:
        raise UnreadableBlobError("cut off inside its header")
    size, version = struct.unpack_from("<H", content)[0], (content[2], content[3])
    if version == (1, 9):
        return list(_convert_numbers(_unpack_attributes(content)))
    layout = LAYOUTS.get(version)
    if layout is None:
        raise UnreadableBlobError(f"version {version[0]}.{version[1]}")
    if size != layout.size or len(content) < size:
        raise UnreadableBlobError(f"version {version[0]}.{version[1]} with {len(content)} bytes (header: {size})")
    readings = list(_convert_numbers(_unpack_fields(content, layout.fields)))
    if layout.partitions is not None:
        readings += _partition_readings(content, layout.partitions)
    return readings


def _unpack_fields(content: bytes, fields: Mapping[str, Field], start: int = 0) -> Numbers:
    return {name: _unpack(content, field, start) for name, field in fields.items()}


def _unpack(content: bytes, field: Field, start: int = 0) -> list[int | None]:
    """Return the numbers of a field, with None for each unknown number (all bits set)."""
    offset, code, count = field
    # No number of a signed type, as in version 1.9, equals this value: -1 is a valid number.
    unknown_number = (1 << 8 * struct.calcsize(code)) - 1
    numbers = struct.unpack_from(f"<{count}{code}", content, start + offset)
    return [None if number == unknown_number else number for number in numbers]


def _unpack_attributes(content: bytes) -> Numbers:
    """Return the values in gpu_metrics 1.9, by field name."""
    numbers_by_field: dict[str, Sequence[int | None]] = {}
    if len(content) < 8:
        raise UnreadableBlobError("version 1.9 without attributes")
    count, offset = struct.unpack_from("<i", content, 4)[0], 8
    if not 0 <= count <= _MAX_ATTRIBUTES:
        raise UnreadableBlobError(f"version 1.9 with {count} attributes")
    for _ in range(count):
        if offset + 8 > len(content):
            raise UnreadableBlobError("version 1.9, cut off inside an attribute")
        encoding = struct.unpack_from("<Q", content, offset)[0]
        type_index, attribute_id, value_count = encoding >> 20 & 0xF, encoding >> 10 & 0x3FF, encoding & 0x3FF
        if type_index >= len(_ATTRIBUTE_TYPES):
            raise UnreadableBlobError(f"version 1.9 with the unknown attribute type {type_index}")
        field = (offset + 8, _ATTRIBUTE_TYPES[type_index], value_count)
        offset += 8 + value_count * struct.calcsize(_ATTRIBUTE_TYPES[type_index])
        if offset > len(content):
            raise UnreadableBlobError("version 1.9, cut off inside an attribute")
        if attribute_id in _FIELDS_BY_ATTRIBUTE_ID:
            numbers_by_field[_FIELDS_BY_ATTRIBUTE_ID[attribute_id]] = _unpack(content, field)
    return numbers_by_field


def _partition_readings(content: bytes, table: _PartitionTable) -> Iterator[BlobReading]:
    count = struct.unpack_from("<H", content, table.count_offset)[0]
    for partition in range(count if 1 <= count <= _MAX_PARTITIONS else 0):
        numbers_by_field = _unpack_fields(content, table.fields, table.first_offset + partition * table.size)
        if count == 1:
            yield from _convert_numbers({name: numbers_by_field[name] for name in ("vcn", "jpeg")})
        elif partition > 0:  # the card itself stands for the first partition
            yield from _convert_numbers(numbers_by_field, partition)


def _convert_numbers(numbers_by_field: Numbers, partition: int = _WHOLE_CARD) -> Iterator[BlobReading]:
    for name, (metric, label, factor, divisor) in _CONVERSIONS.items():
        if name in numbers_by_field:
            # A field with several numbers has one for each engine. The highest number is used.
            known_numbers = [number for number in numbers_by_field[name] if number is not None]
            highest = max(known_numbers, default=0)
            is_reported = known_numbers and (highest or name not in _NEVER_ZERO)
            value = highest * factor / divisor if is_reported else Absent.NOT_SUPPORTED
            yield BlobReading(metric, label, value, partition)
    for stack_index, number in enumerate(numbers_by_field.get("hbm", ())):
        if number is not None:
            yield BlobReading("temperature_celsius", f"hbm{stack_index}", float(number), partition)
    yield from _throttle_readings(numbers_by_field)


def _throttle_readings(numbers_by_field: Numbers) -> Iterator[BlobReading]:
    for status in numbers_by_field.get("throttle", ()):
        if status is not None:
            for reason, bits in _THROTTLE_REASONS.items():
                yield BlobReading("throttled", reason, float(any(status >> bit & 1 for bit in bits)))
