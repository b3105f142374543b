"""Messages that rocm-smi and hy-smi print besides data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import MappingProxyType

from telemetry_parsers.model import Absent
from telemetry_parsers.text.answers import ErrorText, error_report
from telemetry_parsers.text.lines import Line

# Messages that do not affect the data.
_NOTICES = (
    "low-power state",
    "check power control/runtime_status",
    "detected dead process",
    "warning: no json data to report",
    "using lib from",
    ". trying /opt/rocm",
)
# Printed if a sensor's file is empty because the card sleeps. The zeros in the card's row are not readings.
_EMPTY_FILE_ERRORS = ("expected integer value from monitor",)
_UNSUPPORTED = ("not supported", "unsupported", "is not available", "not applicable", "not been implemented")
# Messages that explain why a card does not answer: it is suspended.
_SLEEP_MESSAGES = ("low-power state", "data is inaccessible")
# Headings and expected messages. They are problems only if rocm-smi marks them as errors.
_HARMLESS = (
    "unable to detect fan speed",
    "powerplay not enabled",
    "incompatible device",
    "unable to get",
    "unable to display",
    "supported ",
    "ras info",
    "pages info",
    "not found",
)
# (part of a message, key of the value that the message replaces)
_KEYS_BY_MESSAGE = (
    ("gpu use unsupported", "GPU use (%)"),
    ("unable to get gpu use", "GPU use (%)"),
    ("unable to get gpu memory use", "GPU memory use (%)"),
    ("unable to get average", "Average Graphics Package Power (W)"),
    ("cannot get gpu power consumption", "Average Graphics Package Power (W)"),
    ("unable to get maximum graphics package power", "Max Graphics Package Power (W)"),
    ("unable to get performance level", "Performance Level"),
    ("unable to display temperature", "Temperature (Sensor edge) (C)"),
    ("unable to display current fan speed", "Fan speed (%)"),
    ("cannot display fan speed", "Fan speed (%)"),
    ("cannot display clocks", "sclk clock speed:"),
    ("unable to determine current clocks", "sclk clock speed:"),
    ("gpu utilization", "GPU use (%)"),
    ("get_gpu_busy", "GPU use (%)"),
    ("max graphics package power unsupported", "Max Graphics Package Power (W)"),
    ("get_power_cap", "Max Graphics Package Power (W)"),
    ("get_power_avg", "Average Graphics Package Power (W)"),
    ("performance level unsupported", "Performance Level"),
    ("get_perf_level", "Performance Level"),
    ("% memory use", "GPU memory use (%)"),
    ("unable to detect fan speed", "Fan speed (%)"),
    ("sclk clock is unsupported", "sclk clock speed:"),
    ("mclk clock is unsupported", "mclk clock speed:"),
    ("sclk current clock frequency not found", "sclk clock speed:"),
    ("mclk current clock frequency not found", "mclk clock speed:"),
    ("pcie replay count", "PCIe Replay Count"),
)
_BANNER = re.compile(
    r"\s{0,8}={0,200}[ =]{0,80}(?:(?:ROCm )?System Management Interface|End of (?:ROCm )?SMI Log)[ =]{0,200}\Z"
)
_FRAME = re.compile(r"\s{0,8}[=_\-]{2,200}(?: {0,2}\S[^=]{0,80})?[=_\-]{0,200}\s{0,8}\Z")
# ROCm 1.x prints dots instead of equal signs in the closing line.
_END_LINE = re.compile(r"[ =.]{0,200}End of (?:ROCm )?SMI Log[ =.]{0,200}\Z")

# Exit statuses for "not supported" and "not yet implemented". Up to ROCm 5.5, a single failed query sets the exit
# status of the tool, although the output is complete.
QUIET_STATUSES = frozenset({2, 9})
# The tool prints the package's power for the primary die, and this text for the other die.
PLACEHOLDERS = MappingProxyType({"n/a (secondary die)": Absent.NOT_REPORTED})

ERRORS = (
    ErrorText("driver not initialized", "failed", "driver_gone", "load the amdgpu kernel module"),
    ErrorText("initstate: no such file", "failed", "driver_gone", "load the amdgpu kernel module"),
    ErrorText("no hydcu driver loaded", "failed", "driver_gone", "load Hygon's kernel module hydcu or hycu"),
    ErrorText("no hycu driver loaded", "failed", "driver_gone", "load Hygon's kernel module hydcu or hycu"),
    ErrorText("no hcu driver loaded", "failed", "driver_gone", "load Hygon's kernel module hydcu or hycu"),
    ErrorText("open mkfd failed", "failed", "driver_gone", "load Hygon's driver; a container needs /dev/mkfd"),
    ErrorText("connect server failed", "failed", "driver_gone", "start hymgr.service"),
    # Hygon's daemon reports the state of the links between cards.
    ErrorText(
        "hfm link status: wait", "failed", "driver_gone", "the links between the cards are not up: see hymgr.service"
    ),
    ErrorText("hfm link status: link failed", "failed", "driver_gone", "the links between the cards failed: see dmesg"),
    ErrorText("rsmi_init", "failed", "driver_gone", "the driver did not answer: see dmesg"),
    ErrorText(
        "smi returned 8", "failed", "driver_gone", "the library failed: check the driver, /dev/kfd and user groups"
    ),
    ErrorText(
        "no drm devices available", "no_devices", None, "check that lspci shows the card and the driver is loaded"
    ),
    ErrorText("no device available", "no_devices", None, "check that lspci shows the card and the driver is loaded"),
    ErrorText("no such device", "no_devices"),
    ErrorText("no amd gpus specified", "no_devices"),
    ErrorText("unable to load the rocm_smi library", "failed", "library_mismatch", "reinstall rocm-smi-lib"),
    ErrorText("unable to find librocm_smi64", "failed", "library_mismatch", "reinstall rocm-smi-lib"),
    ErrorText("core dumped", "failed", "killed", "the library aborted the tool"),
    ErrorText(
        "device mutex after 5 seconds", "failed", "timeout", "a killed process left a lock: remove /dev/shm/rocm_smi*"
    ),
    ErrorText("cannot print json/csv output for concise", "wrong_request"),
    ErrorText("unrecognized arguments", "wrong_request"),
    ErrorText("does not support to set print format", "wrong_request"),
    ErrorText("usage: rocm-smi", "wrong_request"),
    ErrorText("usage: rocm_smi", "wrong_request"),
    ErrorText("exit code 127", "failed", "exit_status", "install rocm-smi or give its path"),
    ErrorText("-smi: no such file or directory", "failed", "exit_status", "install the tool or give its path"),
    ErrorText("in a low-power state", "failed", "driver_gone", "the cards are asleep: see power/runtime_status"),
    ErrorText("data is inaccessible", "failed", "driver_gone", "the cards are asleep, or the driver does not answer"),
)


def is_notice(text: str) -> bool:
    """Return whether a line is a notice that does not affect the readings."""
    return _contains_any(text, _NOTICES)


def is_unsupported(text: str) -> bool:
    """Return whether a message reports a feature that the card does not support."""
    return _contains_any(text, _UNSUPPORTED)


def is_harmless(text: str) -> bool:
    """Return whether a message about a card is expected and need not be reported."""
    return _contains_any(text, _HARMLESS)


def is_error(line: Line) -> bool:
    """Return whether a line is an error that concerns all cards."""
    if is_notice(line.text) or is_unsupported(line.text):
        return False
    return _contains_any(line.text, _EMPTY_FILE_ERRORS) or error_report([line], None, ERRORS) is not None


def is_complaint(text: str) -> bool:
    """Return whether a line without data must be reported as a problem."""
    if not text.strip() or is_notice(text) or is_unsupported(text) or is_banner(text):
        return False
    return not text.lstrip().lower().startswith("warning") and set(text.strip()) != {"="}


def is_banner(text: str) -> bool:
    """Return whether a line is the banner that opens or closes the tool's output."""
    return _BANNER.match(text) is not None


def is_end_line(text: str) -> bool:
    """Return whether a line closes the tool's output: `End of ROCm SMI Log`."""
    return _END_LINE.match(text) is not None


def is_sleep_message(text: str) -> bool:
    """Return whether a line reports that cards sleep or cannot be reached."""
    return _contains_any(text, _SLEEP_MESSAGES)


def is_frame(text: str) -> bool:
    """Return whether a line is blank, a rule, or a title within a rule."""
    return not text.strip() or _FRAME.match(text) is not None


def key_and_placeholder(message: str) -> tuple[str, str] | None:
    """Return (key, placeholder) for a message that is printed in place of a value, or None for any other message."""
    lower = message.lower()
    key = next((key for phrase, key in _KEYS_BY_MESSAGE if phrase in lower), None)
    return None if key is None else (key, "Not Supported" if is_unsupported(message) else "N/A")


def _contains_any(text: str, phrases: Iterable[str]) -> bool:
    lower = text.lower()
    return any(phrase in lower for phrase in phrases)
