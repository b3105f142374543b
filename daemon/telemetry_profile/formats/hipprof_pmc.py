"""hipprof's performance counters: a block for each dispatch, with the name of the kernel, its launch and its time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.file_facts import Card, Device, Facts, Kernel
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.printed_times import MS, NS, US, S, nanoseconds
from telemetry_profile.facts.timeline import LONGEST_NS

_KERNEL = re.compile(r'\s*kernel-name\s*:\s*"(?P<name>.*)"')
_VALUE = re.compile(r"\s*(?P<words>[A-Za-z][\w -]*?)\s{2,}(?P<value>\S+?)(?:\((?P<unit>[\w%]+)\))?\s*\Z")
_UNITS = {"ns": NS, "us": US, "ms": MS, "s": S}
_REMARK = "counters run each kernel by itself: its times say nothing of a step"


def _recognises(clue: Clue) -> bool:
    lines = clue.text.splitlines()
    return any(_KERNEL.match(line) for line in lines) and any("kernel dispatch index" in line for line in lines)


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue
    cards: dict[int | None, dict[str, Kernel]] = {}
    for block in _blocks(lines):
        length = nanoseconds(block.get("kernel time", ""), _UNITS.get(block.get("unit of kernel time", ""), 0) or S)
        if length is not None and 0 <= length < LONGEST_NS and "kernel time" in block:
            number = block.get("gpu id", "")
            kernels = cards.setdefault(int(number) if number.isdecimal() and len(number) < 9 else None, {})
            _count(kernels, block, length)
    devices = tuple(
        Device(Card(index), kernels=tuple(sorted(each.values(), key=lambda one: -one.total_ns)))
        for index, each in cards.items()
    )
    return Facts("hipprof-pmc", "hipprof", devices=devices, remarks=(_REMARK,) if devices else ())


def _blocks(lines: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """The values below each kernel's name, with its units."""
    block: dict[str, str] = {}
    for line in lines:
        if found := _KERNEL.match(line):
            if block:
                yield block
            block = {"name": found["name"]}
        elif block and (told := _VALUE.match(line)):
            block[told["words"]] = told["value"]
            block[f"unit of {told['words']}"] = told["unit"] or ""
    if block:
        yield block


def _count(kernels: dict[str, Kernel], block: Mapping[str, str], length: int) -> None:
    name = block["name"]
    known = kernels.get(name) or Kernel(name, work_of(name), 0, 0)
    if length > (known.longest_ns if known.longest_ns is not None else -1):
        known = replace(
            known, longest_ns=length, grid=block.get("grid size", ""), block=block.get("work group size", "")
        )
    kernels[name] = replace(known, calls=known.calls + 1, total_ns=known.total_ns + length)


FORMAT = TextFormat("hipprof-pmc", "hipprof", _recognises, _read)
