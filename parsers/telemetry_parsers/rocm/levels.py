"""Performance levels of AMD's and Hygon's cards: the words of the driver and of each tool, and the catalogue's."""

from __future__ import annotations

from telemetry_parsers import units
from telemetry_parsers.metrics import PERFORMANCE_LEVELS
from telemetry_parsers.model import Absent

_LIBRARY = "amdsmi_dev_perf_level_"
# `stable_peak` is what the library calls the driver's `profile_peak`.
_PROFILES = ("profile", "stable_")
_DETERMINISM = "perf_determinism"


def level_of(text: str) -> str | Absent:
    """The catalogue's word for a level: `auto`, `profile_peak`, `AMDSMI_DEV_PERF_LEVEL_AUTO`."""
    word = text.strip().lower().removeprefix(_LIBRARY)
    if word in PERFORMANCE_LEVELS:
        return word
    if word.startswith(_PROFILES):
        return "profile"
    return "determinism" if word == _DETERMINISM else units.placeholder(word) or Absent.NOT_UNDERSTOOD
