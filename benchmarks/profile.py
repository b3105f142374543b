"""Measure the cost of reading a Chrome trace: `telemetry profile` and Python's json on the same files, each in a new process.

python benchmarks/profile.py [--quick]
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from side_by_side import tables
from side_by_side.options import QUICK, parse_extent

_MB = 10**6
_BEGIN = 1_700_000_000_000_000
_LAUNCHES_PER_STEP = 5_000
_KERNEL_NAME = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, at::detail::Array<char*, {}> >(int, float, char*)"
_OPERATORS = ("mm", "add", "copy_", "empty", "view", "t")


def main() -> None:
    sizes = (20,) if parse_extent(__doc__ or "") == QUICK else (100, 500)
    tables.print_machine()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for size in sizes for row in _rows(Path(folder) / f"trace{size}.json", size)]
    tables.print_table(("trace", "read by", "CPU, s per 100 MB", "peak RSS, MiB", "CPU, times json"), rows)


def _rows(path: Path, size: int) -> Iterator[tuple[str, ...]]:
    with path.open("w") as stream:
        stream.writelines(_trace_pieces(size * _MB))
    packed = path.with_suffix(".json.gz")
    with path.open("rb") as plain, gzip.open(packed, "wb", compresslevel=1) as packing:
        shutil.copyfileobj(plain, packing)
    contestants: tuple[tuple[str, Path, Callable[[Path], object]], ...] = (
        ("json", path, _read_with_json),
        ("telemetry profile", path, _read_with_profile),
        ("telemetry profile", packed, _read_with_profile),
    )
    reference = 0.0
    for name, file, read in contestants:
        seconds, mebibytes = _in_child(partial(read, file))
        reference = reference or seconds
        speed = tables.number(seconds * 100 / size)
        yield (
            f"{size} MB{file.suffix.removesuffix('.json')}",
            name,
            speed,
            f"{mebibytes:.0f}",
            f"{seconds / reference:.2f}",
        )


def _in_child(read: Callable[[], object]) -> tuple[float, float]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measured, read).result()


def _measured(read: Callable[[], object]) -> tuple[float, float]:
    """Return CPU seconds with all imports, and the largest resident size in MiB."""
    before = time.process_time()
    read()
    status = Path("/proc/self/status").read_text()
    return time.process_time() - before, int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _read_with_json(path: Path) -> object:
    with path.open("rb") as stream:
        return json.load(stream)


def _read_with_profile(path: Path) -> object:
    from telemetry_profile.files.read_files import ProfileFile, installed_formats, read_file

    outcome = read_file(ProfileFile(str(path), str(path), is_named=True), installed_formats())
    if outcome.facts is None or outcome.facts.problems:
        sys.exit(f"{path} was not read: {outcome.error or outcome.facts}")
    return outcome


def _trace_pieces(size: int) -> Iterator[str]:
    """Yield the pieces of a trace in Kineto's format, of this many bytes. A tenth of the events are kernels on the device."""
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]}
    yield json.dumps(head)[:-1] + ',"traceEvents":['
    length, number = 0, 0
    while length < size:
        piece = ",\n".join(_launch_events(number)) + ",\n"
        length, number = length + len(piece), number + 1
        yield piece
    yield '{"ph":"M","name":"process_name","pid":0}]}'


def _launch_events(number: int) -> Iterator[str]:
    time_us = _BEGIN + 40 * number
    if number % _LAUNCHES_PER_STEP == 0:
        yield _event(
            "user_annotation", f"ProfilerStep#{number // _LAUNCHES_PER_STEP}", 99, f"{time_us}.000", 199_999.5, {}
        )
    for offset, name in enumerate(_OPERATORS):
        arguments = {
            "External id": number, "Concrete Inputs": ["", ""], "Input type": ["float", "float"],
            "Input Strides": [[128, 1], [1, 128]], "Input Dims": [[128, 64], [64, 128]], "Ev Idx": number,
        }  # fmt: skip
        yield _event("cpu_op", f"aten::{name}", 99, f"{time_us + offset}.125", 0.875, arguments)
    yield _event("cuda_runtime", "cudaLaunchKernel", 99, f"{time_us}.250", 0.5, {"cbid": 211, "correlation": number})
    for kind in "sf":
        yield json.dumps(
            {"ph": kind, "id": number, "pid": 99, "tid": 7, "ts": time_us, "cat": "ac2g", "name": "ac2g"}, indent=2
        )
    arguments = {
        "device": 0, "context": 1, "stream": 7, "correlation": number, "registers per thread": 16, "shared memory": 0,
        "blocks per SM": 0.125, "warps per SM": 1.5, "grid": [2048, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 40,
    }  # fmt: skip
    yield _event("kernel", _KERNEL_NAME.format(number % 200), 0, f"{time_us + 4}.375", 20.5, arguments)


def _event(category: str, name: str, pid: int, begin: str, length: float, arguments: dict[str, object]) -> str:
    """Return an event. Its times are texts with three decimals, which a Python number would not keep."""
    printed = json.dumps({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": 7, "args": arguments}, indent=2)
    return f'{printed[:-2]},\n  "ts": {begin}, "dur": {length:.3f}\n}}'


if __name__ == "__main__":
    main()
