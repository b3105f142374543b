"""Outputs of mthreads-gmi on a node with one card, for tests of everything behind the parser.

`TABLE` is the output of a version that ignores all flags; `install` writes a tool that accepts only some flags.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kits.fake_tools import Answer, ToolFolder

TOOL = "mthreads-gmi"

TABLE = """\
Fri May  2 10:11:12 2025
---------------------------------------------------------------
    mthreads-gmi:1.14.0          Driver Version:2.7.0
---------------------------------------------------------------
ID   Name           |PCIe                |%GPU  Mem
     Device Type    |Pcie Lane Width     |Temp  MPC Capable
                                         |      ECC Mode
+-------------------------------------------------------------+
0    MTT S80        |00000000:1a:00.0    |37%   2048MiB(16384MiB)
     Physical       |8x(16x)             |58C   YES
                                         |      N/A
---------------------------------------------------------------

---------------------------------------------------------------
Processes:
ID   PID       Process name                         GPU Memory
                                                         Usage
+-------------------------------------------------------------+
   No running processes found
---------------------------------------------------------------
"""
BUSY_TABLE = TABLE.replace(
    "   No running processes found\n",
    "0    4711      python3                              2000MiB\n0    4712      .../bin/worker                       N/A\n",
)
CARD: Mapping[str, Any] = {
    "Index": "0",
    "Product Name": "MTT S80",
    "GPU UUID": "6b1f0c2d-91aa-4c0e-8d17-30f2a4b5c6d7",
    "Serial Number": "MY18VG021C800777",
    "MTBios Version": "29358.1.60",
    "PCI": {
        "Bus ID": "00000000:1a:00.0",
        "GPU Link Info": {
            "PCIe Generation": {"Max": "5", "Current": "4"},
            "Link Width": {"Max": "16x", "Current": "8x"},
        },
    },
    "FB Memory Usage": {"Total": "16384MiB", "Used": "2048MiB", "Free": "14336MiB"},
    "Utilization": {"Gpu": "37%", "Encoder": "5%", "Decoder": "0%"},
    "Temperature": {"GPU Current Temp": "58C"},
    "Power Readings": {"Power Draw ": "121.50W", "Current Power Limit": "255.00W"},
    "Fan": {"Channel": "1", "Speed": {"Fan0": "61%"}},
    "Clocks": {"Graphics": "1600MHz", "Memory": "1750MHz", "Video": "1100MHz"},
    "Ecc Mode": {"Current": "N/A", "Pending": "N/A"},
    "Performance State": "P0",
}
REFUSAL = Answer(stderr="mthreads-gmi: unrecognized option\nTry 'mthreads-gmi --help'\n", status=2)


def query_json(cards: Sequence[Mapping[str, Any]] = (CARD,)) -> str:
    head = {"Timestamp": "Fri May  2 10:11:12 2025", "Driver Version": "2.7.0", "Attached GPUs": str(len(cards))}
    return json.dumps({**head, "GPU": list(cards)}, indent=4) + "\n"


def query_text(cards: Sequence[Mapping[str, Any]] = (CARD,)) -> str:
    head = _lines({"Driver Version": "2.7.0", "Attached GPUs": str(len(cards))}, 0)
    return head + "".join(f"\nGPU{card['Index']} {card['PCI']['Bus ID']}\n{_lines(card, 1)}" for card in cards)


def _lines(values: Mapping[str, Any], depth: int) -> str:
    indent, text = "    " * depth, ""
    for key, value in values.items():
        if isinstance(value, Mapping):
            text += f"{indent}{key}\n{_lines(value, depth + 1)}"
        elif key not in ("Index", "Bus ID"):
            text += f"{indent}{key:<{50 - len(indent)}}:  {value}\n"
    return text


def install(
    tools: ToolFolder, knows: Sequence[str] = ("-q --json", "-q"), table: str = TABLE, refusal: Answer = REFUSAL
) -> None:
    """Install a fake mthreads-gmi that accepts only these flags. Without flags it prints the table."""
    answers = {"-q --json": Answer(query_json()), "-q": Answer(query_text())}
    accepted = {words: answer for words, answer in answers.items() if words in knows}
    tools.answers(TOOL, {"": Answer(table), **accepted}, refusal)
