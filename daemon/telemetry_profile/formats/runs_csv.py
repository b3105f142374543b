"""The runs in csv that rocprofv3 and rocpd write: one row for each kernel, copy or call, in nanoseconds of the boot clock.

rocprof's results.csv has one row for each dispatch, with counters. Columns grow with versions, and capitals vary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from telemetry_parsers.model import Problem
from telemetry_profile.contract import HEAD_BYTES, Clue, TextFormat
from telemetry_profile.facts.csv_tables import Row, Table, columns_of, tables
from telemetry_profile.facts.file_facts import Card, Device, Facts, Split
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.facts.timeline import Timeline

_ROLES = ("name", "begin", "end")
# What the host does of a device's memory: it names the device, too.
_HOST_KIND = re.compile(r"MEMORY_ALLOC|SCRATCH|PAGE_MIGRATION|\w*_API")
_ONLY_KERNELS = "copies are in another file, so that idle time is not told"


def _first(clue: Clue) -> Table:
    line = next((line for line in clue.text[:HEAD_BYTES].splitlines() if line.strip()), "")
    return Table(columns_of(line), ())


def _recognises(clue: Clue) -> bool:
    table = _first(clue)
    marks = {"starttimestamp", "kernelname", "dispatchid", "dispatchns"}
    return table.has(*_ROLES) and bool(table.headings() & marks)


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    timeline = Timeline()
    seen: set[int] = set()
    works: set[str] = set()
    bad = 0
    for table in tables(lines, (_ROLES,)):
        for row in table.rows:
            begin, end = _time(row, "begin"), _time(row, "end")
            if begin is None or end is None:
                bad += 1
            elif _is_new(row, seen):
                works.add(_add(row, begin, end - begin, timeline))
    devices = tuple(_honest(device, works) for device in timeline.devices())
    problems = (Problem("rows", f"{bad} have no times, and are left out"),) if bad else ()
    return Facts(
        # Copies are in a file of their own, beside that of the kernels.
        "runs-csv" if works != {"copy"} else "runs-csv-of-copies",
        "rocprof" if "gpuid" in _first(clue).headings() else "rocprofv3",
        "boot",
        devices=devices,
        calls=timeline.calls(),
        remarks=(_ONLY_KERNELS,) if devices and works.isdisjoint({"copy"}) else (),
        problems=(*timeline.problems(), *problems),
    )


def _time(row: Row, role: str) -> int | None:
    told = row.text(role).strip()
    return int(told) if told.isascii() and told.isdigit() and len(told) < 20 else None


def _is_new(row: Row, seen: set[int]) -> bool:
    """Counters make a row each of the same dispatch."""
    dispatch = row.text("dispatch")
    if not dispatch:
        return True
    key = hash((row.text("guid"), row.text("process"), row.text("device"), dispatch, row.text("begin")))
    if key in seen:
        return False
    seen.add(key)
    return True


def _add(row: Row, begin: int, length: int, timeline: Timeline) -> str:
    """Put a run where it belongs; the kind of work it was, "host" for what the host did."""
    name, kind = row.text("name"), row.text("kind").upper()
    if "COPY" in kind or row.text("source") or row.text("target"):
        timeline.add(_card(_gpu_side(row), timeline), "copy", begin, length, name)
        return "copy"
    if "KERNEL" in kind or (row.text("device") and not _HOST_KIND.match(kind)):
        work = work_of(name)
        timeline.add(
            _card(row.text("device"), timeline), work, begin, length, name, row.shape("grid"), row.shape("block")
        )
        return work
    if not timeline.marked(name, begin, length):
        timeline.call(name, length)
    return "host"


def _gpu_side(row: Row) -> str:
    """Of a copy's two agents the one that is a card: agents of the host come first."""
    ends = (row.text("target"), row.text("source"))
    return ends[1] if row.text("name").upper().endswith(("DEVICE_TO_HOST", "DTOH")) else ends[0]


def _card(agent: str, timeline: Timeline) -> str:
    """The card's key. Agents are numbered with those of the host among them: the number is not the card's own, but tells cards apart."""
    number = agent.strip().removeprefix("Agent ").strip()
    timeline.card(number, Card(int(number) if number.isascii() and number.isdigit() and len(number) < 9 else None))
    return number


def _honest(device: Device, works: set[str]) -> Device:
    """Without copies in the file neither they nor idle time are known; with copies alone nothing of kernels is."""
    split = device.split
    if "copy" not in works:
        split = replace(split, copy_ns=None, exposed_copy_ns=None, idle_ns=None)
    elif works.isdisjoint({"compute", "communication"}):
        split = Split(span_ns=split.span_ns, copy_ns=split.copy_ns)
    return replace(
        device,
        split=split,
        steps=tuple(replace(step, split=_honest(Device(split=step.split), works).split) for step in device.steps),
    )


FORMAT = TextFormat("runs-csv", "rocprofv3", _recognises, _read)
