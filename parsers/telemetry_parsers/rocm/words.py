"""What rocm-smi and hy-smi say besides data: notices that mean nothing, errors, the commands that they echo."""

from __future__ import annotations

import re

from telemetry_parsers.text.answers import ErrorText

# Said around good data, by the C library or for cards that sleep; they change nothing of what is printed.
_NOTICES = (
    "low-power state",
    "check power control/runtime_status",
    "expected integer value from monitor",
    "detected dead process",
    "warning: no json data to report",
)
_UNSUPPORTED = ("not supported", "unsupported", "is not available", "not applicable")
_ECHO = re.compile(
    r"\s{0,8}(?:\S{1,80}[#$%>] ?|\$ ?)?(?:sudo )?\S{0,80}(?:rocm-smi|hy-smi)(?: -\S{1,40}| [a-z0-9_]{1,20})*\s{0,8}\Z"
)

ERRORS = (
    ErrorText("driver not initialized", "failed", "driver_gone", "load the kernel module amdgpu"),
    ErrorText("initstate: no such file", "failed", "driver_gone", "load the kernel module amdgpu"),
    ErrorText("no hydcu driver loaded", "failed", "driver_gone", "load Hygon's kernel module hydcu or hycu"),
    ErrorText("no hycu driver loaded", "failed", "driver_gone", "load Hygon's kernel module hydcu or hycu"),
    ErrorText("open mkfd failed", "failed", "driver_gone", "load Hygon's driver; in a container pass /dev/mkfd in"),
    ErrorText("connect server failed", "failed", "driver_gone", "start hymgr.service"),
    ErrorText("rsmi_init", "failed", "driver_gone", "see dmesg; the driver did not answer"),
    ErrorText(
        "smi returned 8", "failed", "driver_gone", "the library could not start: check driver, /dev/kfd and groups"
    ),
    ErrorText(
        "no drm devices available", "no_devices", None, "check that lspci shows the card and the driver is loaded"
    ),
    ErrorText("no device available", "no_devices", None, "check that lspci shows the card and the driver is loaded"),
    ErrorText("no such device", "no_devices"),
    ErrorText(
        "device mutex after 5 seconds", "failed", "timeout", "a killed process held it: remove /dev/shm/rocm_smi*"
    ),
    ErrorText("cannot print json/csv output for concise", "wrong_request"),
    ErrorText("unrecognized arguments", "wrong_request"),
    ErrorText("usage: rocm-smi", "wrong_request"),
    ErrorText("usage: rocm_smi", "wrong_request"),
    ErrorText("exit code 127", "failed", "exit_status", "install rocm-smi or give its path"),
    ErrorText("data is inaccessible", "failed", "driver_gone", "the cards sleep or the driver does not answer"),
)


def is_notice(text: str) -> bool:
    """Whether a line says nothing of what was read."""
    lower = text.lower()
    return any(words in lower for words in _NOTICES)


def is_unsupported(text: str) -> bool:
    """Whether a message says that the card does not have something, which is no trouble."""
    lower = text.lower()
    return any(words in lower for words in _UNSUPPORTED)


def is_echo(text: str) -> bool:
    """Whether a line is the command, as a terminal shows it before its output."""
    return _ECHO.match(text) is not None
