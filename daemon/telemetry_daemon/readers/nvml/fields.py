"""The NVML fields that each tier reads."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

from telemetry_daemon.readers.binding import UNREADABLE, error_result
from telemetry_daemon.readers.nvml import codes
from telemetry_daemon.readers.nvml.library import FieldValue
from telemetry_parsers.typing_names import TYPE_CHECKING

if TYPE_CHECKING:
    from telemetry_parsers.model import Plain

# A call with more fields would hold the driver's lock for too long.
MAX_FIELDS_PER_CALL = 24
ALL_LINKS = 0xFFFFFFFF

_DOUBLE, _UNSIGNED_INT, _UNSIGNED_LONG_LONG = 0, 1, 3
# Formats for the `struct` module, in the order of nvmlValueType_t.
_VALUE_STRUCTS = tuple(map(struct.Struct, "dILQqiH"))
# Drivers before 300 do not have this library.
_FIRST_BRANCH = (300, 0)
_VERSION = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,6}))?")


class Field:
    """A field of NVML. If `wraps` is set, 32-bit values are ignored because they overflow."""

    def __init__(
        self, name: str, number: int, scope: int = 0, *, is_counter: bool = False, wraps: bool = False
    ) -> None:
        self.name, self.number, self.scope = name, number, scope
        self.is_counter, self.wraps = is_counter, wraps


def _error_counters(*rows: tuple[str, int]) -> tuple[Field, ...]:
    return tuple(Field(name, number, is_counter=True) for name, number in rows)


# The scope `_MODULE` is the GPU with its CPU (Grace).
_MODULE, _MEMORY = 1, 2
POWER = (Field("power_average", 185), Field("power_instant", 186))
FAST = (
    *POWER,
    Field("power_module", 185, scope=_MODULE),
    Field("power_memory", 185, scope=_MEMORY),
    Field("memory_temp", 82),
)
# These fields are expensive: on an H200, the energy took 3.5 ms, and the others took 1.2 ms.
_COUNTERS = (
    Field("total_energy_consumption", 83),
    Field("perf_policy_power", 74),
    Field("perf_policy_thermal", 75),
    Field("perf_policy_sync_boost", 76),
    Field("perf_policy_board_limit", 77),
    Field("perf_policy_reliability", 79),
)
LIMITS = (
    Field("power_min_limit", 187),
    Field("power_max_limit", 188),
    Field("power_default_limit", 189),
    Field("power_current_limit", 190),
)
# Older cards report temperatures instead of these margins (T.Limit).
_MARGIN_LIMITS = (
    Field("margin_shutdown", 193),
    Field("margin_slowdown", 194),
    Field("margin_memory", 195),
    Field("margin_operation", 196),
)
_LIFETIME_ERROR_COUNTERS = _error_counters(
    ("ecc_sbe_agg_total", 5),
    ("ecc_dbe_agg_total", 6),
    ("ecc_sbe_agg_l1", 18),
    ("ecc_dbe_agg_l1", 19),
    ("ecc_sbe_agg_l2", 20),
    ("ecc_dbe_agg_l2", 21),
    ("ecc_sbe_agg_dev", 22),
    ("ecc_dbe_agg_dev", 23),
    ("ecc_sbe_agg_reg", 24),
    ("ecc_dbe_agg_reg", 25),
    ("ecc_sbe_agg_tex", 26),
    ("ecc_dbe_agg_tex", 27),
    ("ecc_dbe_agg_cbu", 28),
)
_ERROR_COUNTERS = _error_counters(
    ("ecc_sbe_vol_total", 3),
    ("ecc_dbe_vol_total", 4),
    ("ecc_sbe_vol_l1", 7),
    ("ecc_dbe_vol_l1", 8),
    ("ecc_sbe_vol_l2", 9),
    ("ecc_dbe_vol_l2", 10),
    ("ecc_sbe_vol_dev", 11),
    ("ecc_dbe_vol_dev", 12),
    ("ecc_sbe_vol_reg", 13),
    ("ecc_dbe_vol_reg", 14),
    ("ecc_sbe_vol_tex", 15),
    ("ecc_dbe_vol_tex", 16),
    ("ecc_dbe_vol_cbu", 17),
    ("retired_sbe", 29),
    ("retired_dbe", 30),
    ("retired_pending", 31),
    ("remapped_cor", 142),
    ("remapped_unc", 143),
    ("remapped_pending", 144),
    ("remapped_failure", 145),
    ("pcie_replay_rollover", 95),
    ("pcie_l0_to_recovery", 169),
    ("pcie_correctable", 173),
    ("pcie_nak_received", 174),
    ("pcie_nak_sent", 177),
    ("pcie_non_fatal", 179),
    ("pcie_fatal", 180),
    ("pcie_unsupported_request", 181),
)
SLOW = (
    *_ERROR_COUNTERS,
    Field("pcie_replay_counter", 94),
    Field("pcie_count_tx_bytes", 197, wraps=True),
    Field("pcie_count_rx_bytes", 198, wraps=True),
    Field("gpu_recovery_action", 230),
    *LIMITS,
)
# These fields are constants, or counters over the board's lifetime.
INVENTORY = (*LIMITS, *_MARGIN_LIMITS, *_LIFETIME_ERROR_COUNTERS)
LINK_COUNT = Field("nvlink_link_count", 91)
# NVML calls fields 138 and 139 throughput, but they count KiB. Fields 202 and 204 count bytes.
LINK_FIELDS = (
    ("state", 165),
    ("data_tx_kib", 138),
    ("data_rx_kib", 139),
    ("tx_bytes", 202),
    ("rx_bytes", 204),
    ("replay", 161),
    ("recovery", 162),
    ("crc", 163),
    ("recovery_events", 215),
    ("receive_errors", 208),
    ("transmit_discards", 212),
)
TRAFFIC_NAMES = ("data_tx_kib", "data_rx_kib", "tx_bytes", "rx_bytes")
# Some drivers report these fields only as sums over all links.
SUM_NAMES = (*TRAFFIC_NAMES, "recovery_events", "receive_errors", "transmit_discards")
# Maps a driver version to the number of its first slowdown field. Before 575, these numbers had another meaning.
_FIRST_REASON_FIELDS: Mapping[tuple[int, int], int] = {(575, 0): 251, (580, 82): 269}
_REASONS = ("sw_therm_slowdown", "hw_therm_slowdown", "hw_power_brake_slowdown")


def driver_version(text: str) -> tuple[int, int]:
    """Return the first two numbers of a driver version, or (0, 0) if the text is not a version."""
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2] or 0)) if match else (0, 0)


def branch_version(library: str, driver: str) -> str:
    """Return the version of the driver's branch, which decides the numbers of fields and the layout of structures."""
    _, _, version = library.partition(".")
    return version if driver_version(version) >= _FIRST_BRANCH else driver


def counter_fields(driver: str) -> tuple[Field, ...]:
    """Return the fields for energy and throttling times that this driver version supports."""
    version = driver_version(driver)
    first_number = max((number for since, number in _FIRST_REASON_FIELDS.items() if version >= since), default=None)
    if first_number is None:
        return _COUNTERS
    reason_fields = (Field(f"clocks_event_reason_{name}", number) for number, name in enumerate(_REASONS, first_number))
    return (*_COUNTERS, *reason_fields)


def plain_value(raw: FieldValue, field: Field) -> Plain:
    """Return a field's value or error, or None if the driver did not set the value."""
    _, _, timestamp, _, value_type, code, payload = raw
    if code:
        return error_result(code)
    # While ECC is off, the timestamp and type of a counter are 0 (DCGM bug 2009232).
    if timestamp == 0 and value_type == _DOUBLE:
        return None
    if field.wraps and value_type == _UNSIGNED_INT:
        return error_result(codes.NOT_SUPPORTED)
    if field.is_counter and value_type == _DOUBLE:  # some counters have a wrong type (DCGM bug 2032468)
        value_type = _UNSIGNED_LONG_LONG
    if value_type >= len(_VALUE_STRUCTS):
        return error_result(UNREADABLE)
    value = _VALUE_STRUCTS[value_type].unpack_from(payload)[0]
    return finite_or_none(value) if value_type == _DOUBLE else value


def finite_or_none(value: float) -> Plain:
    """Return a finite number unchanged. For NaN and infinity, return None."""
    return value if value - value == 0.0 else None
