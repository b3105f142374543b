"""Floating-point operations from the shapes of PyTorch's matrix operators: a lower bound of the work of a device."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from telemetry_profile.facts.intervals import Interval, ascending
from telemetry_profile.format_contract import Flops

_MOST_FLOPS = 10**21  # of an operator: an hour of a thousand of the fastest cards
_LATEST_NS = 2**62
_NUMBER = re.compile(r"-?\d{1,9}")
_DTYPES = {
    "c10::Half": "fp16",
    "c10::BFloat16": "bf16",
    "double": "fp64",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
    "signed char": "int8",
    "float": "float",  # multiplied as fp32 or as tf32, which the trace does not show
}
_Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs of one operator: the shapes of tensors, and the printed values of other inputs."""

    shapes: Sequence[_Shape | None]
    printed: Sequence[str]

    def shape(self, index: int, least: int) -> _Shape | None:
        found = self.shapes[index] if index < len(self.shapes) else None
        return found if found is not None and len(found) >= least else None

    def text(self, index: int) -> str:
        return self.printed[index] if index < len(self.printed) else ""

    def numbers(self, index: int) -> _Shape:
        return tuple(int(number) for number in _NUMBER.findall(self.text(index)[:200]))


def _product(left: int) -> Callable[[_Inputs], int | None]:
    def count(inputs: _Inputs) -> int | None:
        a, b = inputs.shape(left, 2), inputs.shape(left + 1, 2)
        if a is None or b is None or len(a) != len(b) or a[-1] != b[-2] or a[:-2] != b[:-2]:
            return None
        return 2 * prod(a) * b[-1]

    return count


def _convolution(inputs: _Inputs) -> int | None:
    """Return the FLOPs; None without the printed stride and padding, which determine the size of the output."""
    data, weight = inputs.shape(0, 3), inputs.shape(1, 3)
    if data is None or weight is None or len(data) != len(weight):
        return None
    if inputs.text(6) == "True":
        return 2 * prod(data) * prod(weight[1:])
    stride, padding, dilation = inputs.numbers(3), inputs.numbers(4), inputs.numbers(5)
    sides = len(data) - 2
    if inputs.text(6) != "False" or {len(stride), len(padding), len(dilation)} != {sides} or 0 in stride:
        return None
    output = [
        (data[side + 2] + 2 * padding[side] - dilation[side] * (weight[side + 2] - 1) - 1) // stride[side] + 1
        for side in range(sides)
    ]
    return 2 * data[0] * prod(output) * prod(weight) if min(output) > 0 else None


def _backward(gradient: int, data: int) -> Callable[[_Inputs], int | None]:
    """Count a forward pass for each requested gradient of data and weight; one if the file does not show the request."""

    def count(inputs: _Inputs) -> int | None:
        out, given, weight = inputs.shape(gradient, 3), inputs.shape(data, 3), inputs.shape(2, 3)
        if out is None or given is None or weight is None or not len(out) == len(given) == len(weight):
            return None
        requested = inputs.text(len(inputs.printed) - 1) if inputs.printed else ""
        times = min(2, requested.split(",")[:2].count("[True") + requested.count(", True", 0, 12)) or 1
        if inputs.text(7) == "True":
            return 2 * times * prod(given) * prod(weight[1:])
        return 2 * times * out[0] * prod(out[2:]) * prod(weight) if out[1] == weight[0] else None

    return count


_COUNTS: Mapping[str, Callable[[_Inputs], int | None]] = {
    "aten::mm": _product(0),
    "aten::_scaled_mm": _product(0),
    "aten::addmm": _product(1),
    "aten::_addmm_activation": _product(1),
    "aten::addmm_": _product(1),
    "aten::bmm": _product(0),
    "aten::baddbmm": _product(1),
    "aten::baddbmm_": _product(1),
    "aten::convolution": _convolution,
    "aten::convolution_backward": _backward(0, 1),
    "aten::cudnn_convolution_backward": _backward(1, 0),
    "aten::miopen_convolution_backward": _backward(1, 0),
}
MATRIX_OPERATORS = frozenset(_COUNTS)


def _flops_of(name: str, arguments: Mapping[str, Any]) -> int | None:
    """Return the operations of an operator; None if its shapes are unknown or do not fit."""
    shapes, printed = arguments.get("Input Dims"), arguments.get("Concrete Inputs")
    if not isinstance(shapes, list):
        return None
    texts = [str(text) for text in printed] if isinstance(printed, list) else []
    found = _COUNTS[name](_Inputs([_shape(shape) for shape in shapes], texts))
    return found if found is not None and 0 < found < _MOST_FLOPS else None


def _shape(printed: object) -> _Shape | None:
    if not isinstance(printed, list) or len(printed) > 8:
        return None
    sizes = tuple(size for size in printed if isinstance(size, int) and 0 <= size < 2**40)
    return sizes if len(sizes) == len(printed) else None


@dataclass(slots=True)
class _Thread:
    begins: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    flops: array[float] = field(default_factory=lambda: array("d"))
    launches: array[int] = field(default_factory=lambda: array("q"))

    def counted(self) -> Iterator[tuple[int, float]]:
        """Yield begin and FLOPs of the outermost operators that launched work; operators on the CPU launch none."""
        launches, until = array("q", (self.launches[index] for index in ascending(self.launches))), -(2**63)
        indices = ascending(self.begins)
        if not isinstance(indices, range):  # of operators with the same begin, the longest is the outermost
            indices = sorted(indices, key=lambda index: (self.begins[index], -self.ends[index]))
        for index in indices:
            begin, end = self.begins[index], self.ends[index]
            launch = bisect_left(launches, begin)
            if begin >= until and launch < len(launches) and launches[launch] <= end:
                yield begin, self.flops[index]
                until = end


class MatrixWork:
    """Collects the matrix operators and the launches of one file."""

    def __init__(self) -> None:
        self._threads: dict[Hashable, _Thread] = {}
        self._dtypes: Counter[str] = Counter()

    def add_operator(self, thread: Hashable, name: str, span: Interval, arguments: Mapping[str, Any]) -> None:
        """Add an operator of MATRIX_OPERATORS that ran on the host."""
        flops = _flops_of(name, arguments) if 0 <= span[0] <= span[1] < _LATEST_NS else None
        if flops is None:
            return
        lane = self._threads.setdefault(thread, _Thread())
        lane.begins.append(span[0])
        lane.ends.append(span[1])
        lane.flops.append(flops)
        types = arguments.get("Input type")
        if isinstance(types, list) and types and isinstance(types[-1 if "_scaled" in name else 0], str):
            self._dtypes[types[0]] += flops

    def launch(self, thread: Hashable, begin: int) -> None:
        """Add a launch of the host."""
        if 0 <= begin < _LATEST_NS:
            self._threads.setdefault(thread, _Thread()).launches.append(begin)

    def flops(self, steps: Sequence[Interval]) -> Flops | None:
        """Return the FLOPs of the file and the mean of its steps; None if there are none."""
        ordered = sorted(steps)
        begins, total, inside = [begin for begin, _ in ordered], 0.0, 0.0
        for thread in self._threads.values():
            for begin, flops in thread.counted():
                total += flops
                step = bisect_right(begins, begin) - 1
                if step >= 0 and begin < ordered[step][1]:
                    inside += flops
        return Flops("shapes", total, inside / len(steps) if inside else None) if total else None

    def dtype(self) -> str:
        """Return the data type of most of the work, "" if it is unknown."""
        return _DTYPES.get(self._dtypes.most_common(1)[0][0], "") if self._dtypes else ""
