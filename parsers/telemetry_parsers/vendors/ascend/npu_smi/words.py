"""What Huawei's words mean, wherever npu-smi prints them: in its tables or behind its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping

from telemetry_parsers.model import Absent, Value
from telemetry_parsers.text.answers import ErrorText

TOOL = "npu-smi"
# The physical id of a chip, which is also the number of its /dev/davinci node and what hccn_tool takes.
PHYSICAL = "ascend-physical"

_UNIT = re.compile(r"\(([^()]{1,8})\)\Z")
# A temperature that could not be read prints as this word.
NO_NUMBERS: Mapping[str, Value] = {"failed": Absent.NOT_REPORTED}

ERRORS = (
    ErrorText("there is no npu card on this server", "no_devices", None, "check that lspci shows the cards"),
    ErrorText(
        "ret is -8020", "failed", "no_permission", "another container owns the card; ask there, or on the host itself"
    ),
    ErrorText("ret is -8002", "failed", "no_permission", "run it as root or as a member of the group HwHiAiUser"),
    ErrorText("ret is -8006", "failed", "timeout", "the driver did not answer in time"),
    ErrorText("ret is -8008", "no_devices", None, "check that lspci shows the cards"),
    ErrorText("ret is -8012", "failed", "driver_gone", "the device is not ready yet"),
    ErrorText("ret is -8255", "wrong_request"),
    ErrorText(
        "ret is -8005", "failed", "driver_gone", "load the driver, or join the group HwHiAiUser where it is loaded"
    ),
    ErrorText(
        "initialize failed", "failed", "driver_gone", "load the driver, or join the group HwHiAiUser where it is loaded"
    ),
    ErrorText(
        "initialized failed",
        "failed",
        "driver_gone",
        "load the driver, or join the group HwHiAiUser where it is loaded",
    ),
    ErrorText("drvmngget", "failed", "driver_gone", "load the driver, or join the group HwHiAiUser where it is loaded"),
    ErrorText("npu get board type failed", "failed", "driver_gone", "the driver does not know the card; look at dmesg"),
    ErrorText("invalid card id", "failed", "exit_status", "the card is not on the bus any more: compare with lspci"),
    ErrorText("libdcmi", "failed", "library_mismatch", "reinstall the driver package"),
    ErrorText("libdrvdsmi", "failed", "library_mismatch", "set LD_LIBRARY_PATH to the driver's lib64 folders"),
    ErrorText("does not support", "wrong_request", None, "this product cannot tell it"),
    ErrorText("there is no npu chip on this card", "failed", "driver_gone", "the card answers and its chips do not"),
    ErrorText("must input", "wrong_request", None, "this answer wants a card and a chip"),
    ErrorText("cannot be executed on a", "wrong_request", None, "ask on the host itself"),
    ErrorText("error parameter of", "wrong_request", None, "this version or product does not know it"),
    ErrorText("usage: npu-smi", "wrong_request", None, "this version or product does not know it"),
)
SILENT = "no output: npu-smi prints something whenever it ends by itself"


def split_key(key: str) -> tuple[str, str]:
    """A key in lower case with single blanks, and the unit in brackets at its end: `Temperature (C)`."""
    bare = " ".join(key.lower().split())
    match = _UNIT.search(bare)
    return (bare, "") if match is None else (bare[: match.start()].strip(), match[1].strip())
