"""Whose tool printed it: AMD's rocm-smi and Hygon's bear one name, and each is left to its own source."""

from __future__ import annotations

import pytest

from kits.captures import own_cases
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Output
from telemetry_parsers.vendors.amd import rocm_smi
from telemetry_parsers.vendors.hygon import hy_smi


def outcome(parser: Parser, stdout: str, stderr: str = "", status: int | None = 0) -> str:
    poll = parser.polls[0]
    output = Output(text=stdout, stderr=stderr, status=status)
    return parser.parse(Capture(parser.name, poll.name, poll.request, (output,))).outcome


@pytest.mark.parametrize(
    ("stdout", "stderr"),
    [
        ("", "ERROR:root:Driver not initialized (amdgpu not found in modules)\n"),
        ("", "usage: rocm-smi [-h]\nrocm-smi: error: unrecognized arguments: --showhcuutil\n"),
        ("ROCM-SMI version: 3.0.0\n", ""),
        ("GPU[0]\t\t: Temperature (Sensor edge) (C): 37.0\n", ""),
    ],
)
def test_amds_tool_is_not_hygons(stdout: str, stderr: str) -> None:
    assert outcome(hy_smi.PARSER, stdout, stderr) == "not_mine"
    assert outcome(rocm_smi.PARSER, stdout, stderr) != "not_mine"


@pytest.mark.parametrize(
    "stdout",
    [
        "No hydcu Driver loaded, exiting.\n",
        "No hcu Driver loaded, exiting.\n",
        "Hfm Link Status: WAIT GLOBAL TOPO\n",
        "Open mkfd failed\n",
        "HCU[0]\t\t: Card Series:\t\t K100_AI\n",
        "DCU     Temp     AvgPwr     Perf\n0       51.0C    97.0W      auto\n",
        '{"card0": {"vram Total Memory (MiB)": "65520"}}\n',
        '{"card0": {"PCI Bus": "0000:09:00.0 --> SN: N/A"}}\n',
        "device,PCI Bus\ncard0,0000:09:00.0 --> SN: 25002386\n",
        '{"card0": {"Device ID": "0x6210", "Temperature (Sensor edge) (C)": "40.0"}}\n',
    ],
)
def test_hygons_tool_is_not_amds(stdout: str) -> None:
    assert outcome(rocm_smi.PARSER, stdout) == "not_mine"
    assert outcome(hy_smi.PARSER, stdout) != "not_mine"


@pytest.mark.parametrize("case", own_cases("hy-smi"), ids=lambda case: case.name)
def test_no_output_of_hygons_is_read_as_amds(case) -> None:
    for capture in case.captures(rocm_smi.PARSER):
        assert rocm_smi.PARSER.parse(capture).outcome != "ok"
