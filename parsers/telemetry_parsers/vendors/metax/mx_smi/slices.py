"""The table of the slices of GPUs, between that of the GPUs and that of the processes: each a part of its GPU."""

from __future__ import annotations

from collections.abc import Sequence

from telemetry_parsers import units
from telemetry_parsers.boxed.columns import CellReader, cell_reader
from telemetry_parsers.boxed.processes import is_process_title
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.framed import headings_in, is_rule
from telemetry_parsers.text.lines import Line, quote
from telemetry_parsers.vendors.metax.mx_smi.keys import SLICE_COLUMNS, SLICES

_LONGEST = 400


def read_slices(lines: Sequence[Line], draft: Draft) -> None:
    """Put the slices into the draft as parts of their GPUs."""
    start = next((at for at, line in enumerate(lines) if line.text.strip("| \t").lower() == SLICES), len(lines))
    readers: list[CellReader] = []
    for line in lines[start + 1 :]:
        text = line.text.strip()[:_LONGEST]
        if is_process_title(line):
            break
        if is_rule(text) or not text.startswith("|") or not text.endswith("|"):
            continue
        cells = text.strip("|").split("|")
        if readers:
            _take(readers, cells, line, draft)
        else:
            names = [headings_in(cell, frozenset(SLICE_COLUMNS)) for cell in cells]
            draft.name_unknown(*(name for each in names for name in each if name not in SLICE_COLUMNS))
            readers = [cell_reader(each, SLICE_COLUMNS) for each in names]


def _take(readers: Sequence[CellReader], cells: Sequence[str], line: Line, draft: Draft) -> None:
    read_cells = [reader.read(cell) for reader, cell in zip(readers, cells, strict=False)]
    read = [each for cell in read_cells for each in cell or ()]
    names = {target.key: units.whole(text) for targets, text in read for target in targets if target.kind == "identity"}
    gpu, slice_ = names.get("index"), names.get("partition")
    parent = draft.positions().get(gpu) if gpu is not None else None
    if parent is None or slice_ is None or None in read_cells or len(cells) != len(readers):
        draft.complain(line.where, f"no slice of a GPU that is listed: {quote(line.text)}")
        return
    part = draft.device((gpu, slice_))
    draft.partition(part, parent, str(slice_))
    for targets, text in read:
        draft.take(part, [target for target in targets if target.kind == "metric"], text, line.where)
