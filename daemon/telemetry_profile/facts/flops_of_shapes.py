"""Computes the FLOPs of PyTorch's matrix operators from their shapes."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from telemetry_profile.facts.intervals import Interval, sorted_indices
from telemetry_profile.format_contract import Flops

_MAX_FLOPS = 10**21  # an operator with more FLOPs would keep 1,000 of the fastest cards busy for minutes
_MAX_TIME_NS = 2**62
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
    "float": "float",  # fp32 or tf32: the trace does not show which one
}
_Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Inputs:
    shapes: Sequence[_Shape | None]
    texts: Sequence[str]

    def shape(self, index: int, min_dimensions: int) -> _Shape | None:
        shape = self.shapes[index] if index < len(self.shapes) else None
        return shape if shape is not None and len(shape) >= min_dimensions else None

    def text(self, index: int) -> str:
        return self.texts[index] if index < len(self.texts) else ""

    def numbers(self, index: int) -> _Shape:
        return tuple(int(number) for number in _NUMBER.findall(self.text(index)[:200]))


def _matrix_product_counter(first_index: int) -> Callable[[_Inputs], int | None]:
    def count_flops(inputs: _Inputs) -> int | None:
        left, right = inputs.shape(first_index, 2), inputs.shape(first_index + 1, 2)
        if left is None or right is None or len(left) != len(right) or left[-1] != right[-2] or left[:-2] != right[:-2]:
            return None
        return 2 * prod(left) * right[-1]

    return count_flops


def _convolution_flops(inputs: _Inputs) -> int | None:
    """Return the FLOPs of a convolution, or None if the output size is unknown."""
    data, weight, transposed_text = inputs.shape(0, 3), inputs.shape(1, 3), inputs.text(6)
    if data is None or weight is None or len(data) != len(weight):
        return None
    if transposed_text == "True":
        return 2 * prod(data) * prod(weight[1:])
    stride, padding, dilation = inputs.numbers(3), inputs.numbers(4), inputs.numbers(5)
    spatial_count = len(data) - 2
    if transposed_text != "False" or {len(stride), len(padding), len(dilation)} != {spatial_count} or 0 in stride:
        return None
    output = [
        (data[axis + 2] + 2 * padding[axis] - dilation[axis] * (weight[axis + 2] - 1) - 1) // stride[axis] + 1
        for axis in range(spatial_count)
    ]
    return 2 * data[0] * prod(output) * prod(weight) if min(output) > 0 else None


def _convolution_backward_counter(gradient_index: int, data_index: int) -> Callable[[_Inputs], int | None]:
    """Return a function that counts the FLOPs of the gradients, each of which needs as many as the forward pass."""

    def count_flops(inputs: _Inputs) -> int | None:
        grad, data, weight = (inputs.shape(index, min_dimensions=3) for index in (gradient_index, data_index, 2))
        if grad is None or data is None or weight is None or not len(grad) == len(data) == len(weight):
            return None
        output_mask = inputs.texts[-1].strip("[]").split(", ") if inputs.texts else []  # for data, weight and bias
        gradient_count = output_mask[:2].count("True") or 1
        if inputs.text(7) == "True":  # the argument `transposed`
            return 2 * gradient_count * prod(data) * prod(weight[1:])
        return 2 * gradient_count * grad[0] * prod(grad[2:]) * prod(weight) if grad[1] == weight[0] else None

    return count_flops


_FLOP_COUNTERS: Mapping[str, Callable[[_Inputs], int | None]] = {
    "aten::mm": _matrix_product_counter(0),
    "aten::_scaled_mm": _matrix_product_counter(0),
    "aten::addmm": _matrix_product_counter(1),
    "aten::_addmm_activation": _matrix_product_counter(1),
    "aten::addmm_": _matrix_product_counter(1),
    "aten::bmm": _matrix_product_counter(0),
    "aten::baddbmm": _matrix_product_counter(1),
    "aten::baddbmm_": _matrix_product_counter(1),
    "aten::convolution": _convolution_flops,
    "aten::convolution_backward": _convolution_backward_counter(0, 1),
    "aten::cudnn_convolution_backward": _convolution_backward_counter(1, 0),
    "aten::miopen_convolution_backward": _convolution_backward_counter(1, 0),
}
MATRIX_OPERATORS = frozenset(_FLOP_COUNTERS)


def _flops_of(name: str, arguments: Mapping[str, Any]) -> int | None:
    """Return the FLOPs of an operator, or None if its shapes are unknown."""
    shapes, printed = arguments.get("Input Dims"), arguments.get("Concrete Inputs")
    if not isinstance(shapes, list):
        return None
    texts = [str(text) for text in printed] if isinstance(printed, list) else []
    flops = _FLOP_COUNTERS[name](_Inputs([_parse_shape(shape) for shape in shapes], texts))
    return flops if flops is not None and 0 < flops < _MAX_FLOPS else None


def _parse_shape(printed: object) -> _Shape | None:
    if not isinstance(printed, list) or len(printed) > 8:
        return None
    sizes = tuple(size for size in printed if isinstance(size, int) and 0 <= size < 2**40)
    return sizes if len(sizes) == len(printed) else None


@dataclass(slots=True)
class _ThreadWork:
    begins: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    flops: array[float] = field(default_factory=lambda: array("d"))
    launches: array[int] = field(default_factory=lambda: array("q"))

    def launching_operators(self) -> Iterator[tuple[int, float]]:
        """Yield (start, FLOPs) for each operator that launched work and is not part of another operator."""
        launches, last_end = array("q", (self.launches[index] for index in sorted_indices(self.launches))), -(2**63)
        indices = sorted_indices(self.begins)
        if not isinstance(indices, range):  # if operators have the same start, the longest is the outermost
            indices = sorted(indices, key=lambda index: (self.begins[index], -self.ends[index]))
        for index in indices:
            begin, end = self.begins[index], self.ends[index]
            launch_index = bisect_left(launches, begin)
            if begin >= last_end and launch_index < len(launches) and launches[launch_index] <= end:
                yield begin, self.flops[index]
                last_end = end


class MatrixWork:
    """The matrix operators and the launches in one file."""

    def __init__(self) -> None:
        self._threads: dict[Hashable, _ThreadWork] = {}
        self._dtypes: Counter[str] = Counter()

    def add_operator(self, thread: Hashable, name: str, span: Interval, arguments: Mapping[str, Any]) -> None:
        """Add an operator from MATRIX_OPERATORS, if its FLOPs are known."""
        flops = _flops_of(name, arguments) if 0 <= span[0] <= span[1] < _MAX_TIME_NS else None
        if flops is None:
            return
        thread_work = self._threads.setdefault(thread, _ThreadWork())
        thread_work.begins.append(span[0])
        thread_work.ends.append(span[1])
        thread_work.flops.append(flops)
        types = arguments.get("Input type")
        if isinstance(types, list) and types and isinstance(types[0], str):
            self._dtypes[types[0]] += flops

    def add_launch(self, thread: Hashable, begin: int) -> None:
        """Add a launch on the host. Only operators that launched work are counted."""
        if 0 <= begin < _MAX_TIME_NS:
            self._threads.setdefault(thread, _ThreadWork()).launches.append(begin)

    def flops(self, steps: Sequence[Interval]) -> Flops | None:
        """Return the FLOPs in total and per step, or None if no operator was counted."""
        sorted_steps = sorted(steps)
        begins, total, flops_in_steps = [begin for begin, _ in sorted_steps], 0.0, 0.0
        for thread in self._threads.values():
            for begin, flops in thread.launching_operators():
                total += flops
                step_index = bisect_right(begins, begin) - 1
                if step_index >= 0 and begin < sorted_steps[step_index][1]:
                    flops_in_steps += flops
        return Flops("shapes", total, flops_in_steps / len(steps) if flops_in_steps else None) if total else None

    def dtype(self) -> str:
        """Return the data type with the most FLOPs, or "" if unknown."""
        return _DTYPES.get(self._dtypes.most_common(1)[0][0], "") if self._dtypes else ""
