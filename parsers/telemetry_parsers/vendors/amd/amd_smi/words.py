"""amd-smi's names, its error texts, and what its words mean."""

from __future__ import annotations

import re
from collections.abc import Mapping

from telemetry_parsers import units
from telemetry_parsers.model import Absent, Value
from telemetry_parsers.text.answers import ErrorText

TOOL = "amd-smi"
# What amd-smi lists besides cards: processors, their cores, network cards and switches.
OTHER_KINDS = frozenset({"cpu", "core", "nic", "ainic", "brcm_nic", "switch", "brcm_switch"})

_NO_GROUPS = "add the user to the groups render and video"
_LOAD = "load the module amdgpu"
_NO_GPU = "ask for a GPU that amd-smi list shows"
_ASK_OTHERWISE = "this version does not know the command line"
_REINSTALL = "reinstall amd-smi-lib of the same ROCm version"
ERRORS = (
    ErrorText("missing the following required groups", "failed", "no_permission", _NO_GROUPS),
    ErrorText("requires elevation", "failed", "no_permission", "run it as root"),
    ErrorText("can not find a device", "wrong_request", None, _NO_GPU),
    ErrorText("cannot be found on the system", "wrong_request", None, _NO_GPU),
    ErrorText("devicenotfoundexception", "wrong_request", None, _NO_GPU),
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
    ErrorText("libamd_smi", "failed", "library_mismatch", _REINSTALL),
    ErrorText("no module named", "failed", "library_mismatch", _REINSTALL),
    ErrorText("amdsmi_cli_exceptions", "failed", "exit_status"),
    ErrorText("amdsmi has returned error", "failed", "exit_status"),
)
SILENT = "no output: amd-smi prints nothing where its driver is not loaded; load the module amdgpu"

# What somebody put in place of a value that is nobody else's business, as in `<redacted>`.
_MASK = re.compile(r"<.{0,100}>\Z|(?:0x)?[xX*?-]{4,}\Z")
ACTIVE: Mapping[str, float] = {"active": 1.0, "not active": 0.0, "true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
THROTTLED: Mapping[str, float] = {"throttled": 1.0, "unthrottled": 0.0}
ENABLED: Mapping[str, float] = {"enabled": 1.0, "disabled": 0.0}
_LINKS: Mapping[str, float] = {**ENABLED, "u": 1.0, "d": 0.0, "up": 1.0, "down": 0.0}
_DISABLED_LINK = "X"


def known(text: str | None) -> str | None:
    """A text as printed, None for a placeholder, a mask or nothing."""
    printed = units.text_or_none(text)
    return None if printed is None or _MASK.match(printed) else printed


def pcie_speed(text: str, _unit: str = "") -> Value:
    """The generation of a link at `32 GT/s`."""
    if not text.endswith("GT/s"):
        return units.placeholder(text) or Absent.NOT_UNDERSTOOD
    return units.pcie_generation(text.removesuffix("GT/s"))


def megabits(text: str, _unit: str = "") -> Value:
    """A rate such as `18 Mb/s` in bytes; one of another unit is not understood."""
    bare = text.removesuffix("Mb/s")
    value = units.number(bare) if bare != text else Absent.NOT_UNDERSTOOD
    return units.placeholder(bare) or value if isinstance(value, Absent) else value * 125_000


def above_zero(text: str, _unit: str = "") -> Value:
    """A share of time in which the clocks were held down: the header calls more than 0 % a violation."""
    value = units.quantity(text, units.RATIO, "%")
    return value if isinstance(value, Absent) else float(value > 0.0)


def link_up(text: str, _unit: str = "") -> Value:
    """1 for a link that is enabled or up; one that was disabled on purpose (`X`) is no link.

    Of several between the same two devices, as in `U/D`, 1 when none is down.
    """
    absent = units.placeholder(text)
    if absent is not None:
        return absent
    states = [state.strip().lower() for state in text.split("/") if state.strip().upper() != _DISABLED_LINK]
    ups = [_LINKS[state] for state in states if state in _LINKS]
    return Absent.NOT_UNDERSTOOD if len(ups) < len(states) else min(ups, default=Absent.NOT_SUPPORTED)
