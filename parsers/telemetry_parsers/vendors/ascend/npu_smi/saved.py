"""Reads saved output of npu-smi commands that the daemon never runs, such as `info watch`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.model import Device
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, metric
from telemetry_parsers.text.answers import not_a_row
from telemetry_parsers.text.echoes import Run
from telemetry_parsers.text.framed import is_rule
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.ascend.npu_smi import blocks, readings
from telemetry_parsers.vendors.ascend.npu_smi.keys import split_key
from telemetry_parsers.vendors.ascend.npu_smi.readings import Slot, ensure_chip

_CARD_HEADING, _CHIP_HEADING = "npuid(idx)", "chipid(idx)"
# Maps each column of `watch` to its metrics.
_WATCH_TARGETS: Mapping[str, tuple[Target, ...]] = {
    "pwr(w)": (metric("power_watts"),),
    "pwr(mw)": (metric("power_watts"),),
    "temp(c)": (metric("temperature_celsius", "core"),),
    "npu util(%)": (metric("utilization_ratio"), metric("engine_utilization_ratio", "npu")),
    "ai core(%)": (metric("utilization_ratio"), metric("engine_utilization_ratio", "aicore")),
    "ai cpu(%)": (metric("engine_utilization_ratio", "aicpu"),),
    "ctrl cpu(%)": (metric("engine_utilization_ratio", "ctrlcpu"),),
    "ai vector(%)": (metric("engine_utilization_ratio", "vector"),),
    "ai cube(%)": (metric("engine_utilization_ratio", "cube"),),
    "memory(%)": (metric("memory_used_ratio"),),
    "memory bw(%)": (metric("memory_bandwidth_ratio"),),
}
_CHIP_UTILIZATION_HEADING = "npu util(%)"  # read last, because the utilization of the AI cores has priority
_WATCH_HEADINGS = frozenset({_CARD_HEADING, _CHIP_HEADING, *_WATCH_TARGETS})
_DEVICE_NAME = re.compile(r"(NPU|Phy-ID)([0-9]{1,6})\Z", re.IGNORECASE)
_LINK_TYPE = re.compile(r"(?:X|SYS|PHB|PIX|PXB|SIO|UB|NA|HCCS(?:_SW)?|XLink(?:_SW)?|PCIE?)\Z", re.IGNORECASE)
_MAX_COLUMNS = 200


def read_watch(lines: Sequence[Line], draft: Draft) -> None:
    """Add the readings of `info watch` in each chip's last row, which is the newest."""
    headings: tuple[str, ...] = ()
    last_rows: dict[Slot, tuple[Line, dict[str, str]]] = {}
    for line in lines:
        headings = watch_headings(line) or headings
        words = line.text.split()
        if not words or watch_headings(line) or not line.ended:
            continue
        cells = dict(zip(headings, words, strict=False))
        card = units.integer(cells.get(_CARD_HEADING, ""))
        if card is None or len(words) != len(headings):
            draft.add_problem(line.where, not_a_row(line.text, "watch"))
        else:
            last_rows[Slot(card, units.integer(cells.get(_CHIP_HEADING, "")))] = line, cells
    if not last_rows:
        draft.add_problem(lines[-1].where, "the output of `npu-smi info watch` does not name a chip")
    for slot, (line, cells) in last_rows.items():
        _store_row(draft, slot, line, cells)


def watch_headings(line: Line) -> tuple[str, ...]:
    """Return the headings of `npu-smi info watch`, or () for any other line."""
    if not line.ended or "(idx)" not in line.text.lower():
        return ()
    # Headings may be separated by a single blank, so the line is split after the brackets.
    names = [" ".join(f"{part})".lower().split()) for part in line.text.split(")", _MAX_COLUMNS) if part.strip()]
    return tuple(names) if names[:1] == [_CARD_HEADING] else ()


def _store_row(draft: Draft, slot: Slot, line: Line, cells: Mapping[str, str]) -> None:
    device = ensure_chip(draft, slot)
    for heading in sorted(cells, key=lambda name: name == _CHIP_UTILIZATION_HEADING):
        if heading not in _WATCH_HEADINGS:
            draft.add_unknown(heading)
        draft.store(device, _WATCH_TARGETS.get(heading, ()), cells[heading], line.where, split_key(heading)[1])


def read_topology(lines: Sequence[Line], draft: Draft) -> None:
    """Add the devices of the matrix and their nearest processors to the draft."""
    column_names: set[str] = set()
    row_names: set[str] = set()
    for line in lines:
        row = topology_row(line)
        words = line.text.split(maxsplit=_MAX_COLUMNS)
        if row is not None:
            slot, processors = row
            row_names.add(words[0])
            device = ensure_chip(draft, slot)
            draft.set_index(device, slot.physical_id)
            draft.describe(device, Device(draft.vendor), {"cpu_affinity": processors})
        elif len(words) > 1 and all(map(_LINK_TYPE.match, words[:2])) and words[1] != "=":
            draft.add_problem(line.where, not_a_row(line.text, "the matrix"))
        if row is None:
            column_names.update(filter(_DEVICE_NAME.match, words))
    if missing_names := sorted(column_names - row_names):
        draft.add_problem(lines[-1].where, f"the matrix has no row for {quote(' '.join(missing_names))}")


def topology_row(line: Line) -> tuple[Slot, str | None] | None:
    """Return (device, its nearest processors or None) for a row of `topo`, or None for any other line."""
    words = line.text.split(maxsplit=_MAX_COLUMNS)
    name_match = _DEVICE_NAME.match(words[0]) if line.ended and len(words) > 1 else None
    if name_match is None or not _LINK_TYPE.match(words[1]):
        return None
    last_word, number = words[-1], int(name_match[2])
    slot = Slot(number) if name_match[1].upper() == "NPU" else Slot(physical_id=number)
    return slot, None if _LINK_TYPE.match(last_word) or _DEVICE_NAME.match(last_word) else units.text_or_none(last_word)


# Maps each shape to a function that recognises its lines. A line of no shape continues the previous shape.
_PREDICATES_BY_SHAPE: Mapping[str, Callable[[Line], object]] = {
    "table": lambda line: line.text.lstrip().startswith("|") or is_rule(line.text),
    "mapping": readings.mapping_headings,
    "watch": watch_headings,
    "topology": topology_row,
    "blocks": blocks.is_block_line,
}


def answers_in(run: Run) -> list[Run]:
    """Split the output of a command into answers. A new answer begins when the shape of the output changes."""
    answers: list[list[Line]] = [[]]
    shape = ""
    for line in run.lines:
        shapes = (name for name, is_of_shape in _PREDICATES_BY_SHAPE.items() if line.text.strip() and is_of_shape(line))
        next_shape = next(shapes, shape)
        if shape and next_shape != shape:
            answers.append([])
        shape = next_shape
        answers[-1].append(line)
    return [Run(run.arguments, tuple(answer)) for answer in answers]
