"""Where one answer of npu-smi ends and one of another shape begins, in a text that keeps no command lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from telemetry_parsers.text.echoes import Run
from telemetry_parsers.text.framed import is_rule
from telemetry_parsers.text.lines import Line
from telemetry_parsers.vendors.ascend.npu_smi import blocks, mapping
from telemetry_parsers.vendors.ascend.npu_smi.saved import rows

# One of these in a line shows its shape; most lines go on with the shape of the line before.
_SHAPES: Mapping[str, Callable[[Sequence[Line]], bool]] = {
    "table": lambda found: found[0].text.lstrip().startswith("|") or is_rule(found[0].text),
    "mapping": mapping.is_mapping,
    "watch": rows.is_watch,
    "topology": rows.is_topology,
    "blocks": blocks.is_blocks,
}


def segments(run: Run) -> list[Run]:
    """The answers in a run, one for each change of shape."""
    parts: list[list[Line]] = [[]]
    shape = ""
    for line in run.lines:
        next_shape = _shape_of(line) or shape
        if shape and next_shape != shape:
            parts.append([])
        shape = next_shape
        parts[-1].append(line)
    return [Run(run.arguments, tuple(part)) for part in parts]


def _shape_of(line: Line) -> str:
    return next((shape for shape, is_shape in _SHAPES.items() if line.text.strip() and is_shape([line])), "")
