"""What Moore Threads' words mean, wherever mthreads-gmi prints them: in its table, its list or its JSON."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.text.answers import ErrorText

TOOL = "mthreads-gmi"

# "On-die, EDC" names the two protections of HBM cards: on-die ECC and error detection on the bus.
ECC: Mapping[str, float] = {"on-die, edc": 1.0, "on": 1.0, "enabled": 1.0, "off": 0.0, "disabled": 0.0}
YES_NO: Mapping[str, float] = {"yes": 1.0, "no": 0.0}

_REFUSALS = (
    "usage:",
    "invalid argument",
    "invalid parameter",
    "unknown argument",
    "unknown command",
    "unsupported option",
)

ERRORS = (
    # Exit status 0; the vendor's own checker names a switched-off IOMMU as the usual cause.
    ErrorText("no mt gpu device found", "no_devices", None, "check that lspci shows the card and that the IOMMU is on"),
    ErrorText("failed to load driver", "failed", "driver_gone", "load the module mtgpu or reinstall the driver"),
    ErrorText(
        "failed to initialize mtml",
        "failed",
        "driver_gone",
        "wait a moment after a driver reload; otherwise load mtgpu and join the groups render and video",
    ),
    # How a version that does not know a flag says so is nowhere documented: these are what such tools say.
    *(ErrorText(words, "wrong_request", None, "this version wants other flags") for words in _REFUSALS),
)
SILENT = (
    "no output: inside a container mthreads-gmi needs Moore Threads' container toolkit (run it with --runtime mthreads)"
)
