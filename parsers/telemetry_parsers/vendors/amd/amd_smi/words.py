"""amd-smi's names, its error texts, and what its words mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Value
from telemetry_parsers.text.answers import ErrorText

VENDOR = "amd"
TOOL = "amd-smi"
INDEX_SPACE = "amd-smi"
# A text that lists more is none of this tool's: 8 cards of 8 partitions are 64.
MOST_DEVICES = 1024
# What amd-smi lists besides cards: processors, their cores, network cards and switches.
OTHER_KINDS = frozenset({"cpu", "core", "nic", "ainic", "brcm_nic", "switch", "brcm_switch"})

GROUPS = "add the user to the groups render and video"
_LOAD = "load the module amdgpu"
_ASK_OTHERWISE = "this version does not know the command line"
ERRORS = (
    ErrorText("missing the following required groups", "failed", "no_permission", GROUPS),
    ErrorText("requires elevation", "failed", "no_permission", "run it as root"),
    ErrorText("can not find a device", "wrong_request", None, "ask for a GPU that amd-smi list shows"),
    ErrorText("cannot be found on the system", "wrong_request", None, "ask for a GPU that amd-smi list shows"),
    ErrorText("devicenotfoundexception", "wrong_request", None, "ask for a GPU that amd-smi list shows"),
    ErrorText("unable to detect any gpu", "failed", "driver_gone", _LOAD),
    ErrorText("unable to get devices", "failed", "driver_gone", _LOAD),
    ErrorText("not found in modules", "failed", "driver_gone", _LOAD),
    ErrorText("driver_not_loaded", "failed", "driver_gone", _LOAD),
    ErrorText("drivernotloaded", "failed", "driver_gone", _LOAD),
    ErrorText("amdsmi_status_init_error", "failed", "driver_gone", _LOAD),
    ErrorText("initialization error", "failed", "driver_gone", _LOAD),
    ErrorText("is invalid. run", "wrong_request", None, _ASK_OTHERWISE),
    ErrorText("invalid choice", "wrong_request", None, _ASK_OTHERWISE),
    ErrorText("is not supported on the system", "wrong_request", None, _ASK_OTHERWISE),
    ErrorText("is not of valid type or format", "wrong_request", None, _ASK_OTHERWISE),
    ErrorText("requires a value", "wrong_request", None, _ASK_OTHERWISE),
    ErrorText("invalidcommandexception", "wrong_request", None, _ASK_OTHERWISE),
    ErrorText("invalidparameter", "wrong_request", None, _ASK_OTHERWISE),
    ErrorText("parameternotsupportedexception", "wrong_request", None, _ASK_OTHERWISE),
    ErrorText("amd-smi: no such file or directory", "failed", "exit_status", "install the tool or give its path"),
    ErrorText("libamd_smi", "failed", "library_mismatch", "reinstall amd-smi-lib of the same ROCm version"),
    ErrorText("no module named", "failed", "library_mismatch", "reinstall amd-smi-lib of the same ROCm version"),
    ErrorText("amdsmi_cli_exceptions", "failed", "exit_status"),
    ErrorText("amdsmi has returned error", "failed", "exit_status"),
)
SILENT = "no output: amd-smi prints nothing where its driver is not loaded; load the module amdgpu"

# What somebody put in place of a value that is nobody else's business, as in `<redacted>`.
_MASK = re.compile(r"<.{0,100}>\Z|(?:0x)?[xX*?-]{4,}\Z")
_STATES: Mapping[str, float] = MappingProxyType(
    {"active": 1.0, "not active": 0.0, "true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
)
_THROTTLED: Mapping[str, float] = MappingProxyType({"throttled": 1.0, "unthrottled": 0.0})
_ENABLED: Mapping[str, float] = MappingProxyType({"enabled": 1.0, "disabled": 0.0})
_LINKS: Mapping[str, float] = MappingProxyType({**_ENABLED, "u": 1.0, "d": 0.0, "up": 1.0, "down": 0.0})
_DISABLED_LINK = "X"
_GENERATION = re.compile(r"(?:PCIe )?Gen ?([0-9]{1,2})\Z", re.IGNORECASE)
_LEVEL_PREFIX = "amdsmi_dev_perf_level_"
LEVELS: Mapping[str, str] = MappingProxyType(
    {
        "auto": "auto",
        "low": "low",
        "high": "high",
        "manual": "manual",
        "determinism": "determinism",
        "perf_determinism": "determinism",
        "stable_std": "profile",
        "stable_peak": "profile",
        "stable_min_mclk": "profile",
        "stable_min_sclk": "profile",
        "unknown": "unknown",
    }
)


def known(text: str | None) -> str | None:
    """A text as printed, None for a placeholder, a mask or nothing."""
    if text is None or units.placeholder(text) is not None or _MASK.match(text.strip()):
        return None
    return text.strip()


def active(text: str) -> Value:
    """1 for ACTIVE, 0 for NOT ACTIVE."""
    return _word(text, _STATES)


def throttled(text: str) -> Value:
    """1 for THROTTLED, 0 for UNTHROTTLED."""
    return _word(text, _THROTTLED)


def enabled(text: str) -> Value:
    """1 for ENABLED, 0 for DISABLED."""
    return _word(text, _ENABLED)


def link_up(text: str) -> Value:
    """1 for a link that is enabled or up; one that was disabled on purpose (`X`) is no link.

    Of several between the same two devices, as in `U/D`, 1 when none is down.
    """
    absent = units.placeholder(text)
    if absent is not None:
        return absent
    states = [_word(state, _LINKS) for state in text.strip().split("/") if state.upper() != _DISABLED_LINK]
    ups = [state for state in states if not isinstance(state, Absent)]
    return Absent.NOT_UNDERSTOOD if len(ups) < len(states) else min(ups, default=Absent.NOT_SUPPORTED)


def generation(text: str) -> Value:
    """The number of `Gen 5`."""
    match = _GENERATION.match(text.strip())
    return units.number(match[1] if match else text)


def level(text: str) -> str | None:
    """The word of the catalogue for a performance level such as `AMDSMI_DEV_PERF_LEVEL_AUTO`, None for others."""
    return LEVELS.get(text.strip().lower().removeprefix(_LEVEL_PREFIX))


def _word(text: str, meanings: Mapping[str, float]) -> Value:
    value = meanings.get(" ".join(text.lower().split()))
    if value is not None:
        return value
    return units.placeholder(text) or Absent.NOT_UNDERSTOOD
