"""NVML as its answers are read: how many GPUs at most, and what its error numbers mean."""

from __future__ import annotations

from types import MappingProxyType

from telemetry_parsers.library_answers.answers import RecordedLibrary
from telemetry_parsers.model import Absent
from telemetry_parsers.vendors.nvidia import VENDOR

NOT_SUPPORTED_CODE = 3
# Some drivers give 2 for a field or a link that does not exist, 25 and 26 of calls of other times.
_REASONS = MappingProxyType(
    {
        -1: Absent.NOT_UNDERSTOOD,  # the reader's own: the library's text was none
        2: Absent.NOT_SUPPORTED,
        3: Absent.NOT_SUPPORTED,
        4: Absent.NOT_PERMITTED,
        6: Absent.NOT_REPORTED,
        13: Absent.NOT_SUPPORTED,
        17: Absent.NOT_PERMITTED,
        21: Absent.NOT_REPORTED,
        25: Absent.NOT_SUPPORTED,
        26: Absent.NOT_SUPPORTED,
        27: Absent.NOT_REPORTED,
    }
)
NVML = RecordedLibrary("NVML", "nvml", VENDOR.word, devices="GPUs", most=256, reasons=_REASONS)
