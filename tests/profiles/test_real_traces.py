"""The real Chrome traces where they lie, each with what is expected of it."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from kits.traces import profile_captures
from profiles.test_traces import one, read

# Of each real trace: format, clock, ranks, rank, index, span, compute, communication, exposed, copies, idle, data,
# launches, steps, kernels, FLOPs.
REAL: dict[str, tuple[Any, ...] | None] = {
    "ascend_pytorch/trace_view.json.gz": ("ascend-trace", "unix", None, None, None, 11269917, 1790457, 0, 0, 0, 9479460, 16571, 276, 1, 93, None),
    "hipprof/results_hiptrace/vector_add_grouped_stream.json": ("hipprof-trace", "unix", None, None, 0, 4608380, 20799, 0, 0, 1333698, 3253883, None, 1, 0, 4, None),
    "hipprof/results_hiptrace/vector_add_trace.json": ("hipprof-trace", "unix", None, None, 0, 4608380, 20799, 0, 0, 1333698, 3253883, None, 1, 0, 4, None),
    "hipprof/results_mpi_wrap_preload/mpi_wrap_preload.json": None,
    "mindspore/base/gpu_timeline_display_0.json": ("mindspore-timeline", "unix", None, 0, None, 5792, 5792, 0, 0, 0, 0, None, 1, 0, 1, None),
    "mindspore/run_2/ascend_timeline_display_1.json": ("mindspore-timeline", "none", None, 1, 1, 24074810, 23137320, 0, 0, None, 937490, None, 107, 0, 105, None),
    "msprof/PROF_000001_20230818142704322_COJGGGCANRMICFBC/device_0/timeline/hccl_0_2_1.json.gz": ("ascend-collectives", "boot", None, None, 0, 41534300, None, 41534300, None, None, None, None, None, 0, 1, None),
    "msprof/PROF_000001_20230818142704322_COJGGGCANRMICFBC/device_0/timeline/msprof_0_2_1.json.gz": ("ascend-trace", "boot", None, None, 0, 47562510, 5914580, 41534300, 41534300, 0, 113630, None, 140, 1, 140, None),
    "msprof/PROF_000001_20230818142704322_COJGGGCANRMICFBC/device_0/timeline/step_trace_0_2_1.json.gz": ("ascend-iterations", "boot", None, None, 0, None, None, None, None, None, None, None, None, 10, 0, None),
    "msprof/PROF_000001_20230818142704322_COJGGGCANRMICFBC/device_0/timeline/task_time_0_2_1.json.gz": ("ascend-tasks", "boot", None, None, 0, 47562510, 5914580, None, None, None, None, None, None, 0, 139, None),
    "rocprof/batched_gemm/results.json.gz": ("rocprof-trace", "boot", None, None, 2, 331659369650, 331634184678, 0, 0, 26128545, 4971, None, 1, 0, 3, None),
    "torch/a100-alexnet.json.gz": ("torch-trace", "unix", None, 0, 0, 12920244000, 10630000, 0, 0, 55511000, 12854103000, None, 79, 0, 18, None),
    "torch/a100-cupti-ranges.json.gz": None,
    "torch/a100-event-sync.json.gz": ("torch-trace", "unix", None, 0, 0, 263000, 49000, 0, 0, 2000, 212000, None, 4, 1, 5, None),
    "torch/backward-thread.json": ("torch-trace", "unix", None, 0, 0, 45000, 45000, 0, 0, 0, 0, None, 1, 1, 1, 2147483648.0),
    "torch/gloo-rank34-cpu-only.json.gz": None,
    "torch/mi250-rocm6.2-minitoy.json.gz": ("torch-trace", "unix", None, None, 2, 8911887, 110881, 0, 0, 38161, 8762845, None, 14, 2, 13, 327680.0),
    "torch/old-shape-base.json.gz": ("torch-trace", "unix", None, 1, 1, 274498000, 432000, 0, 0, 1262000, 272804000, None, 6, 2, 6, None),
    "torch/pair128/rank-0.json.gz": ("torch-trace", "unix", 128, 0, 0, 1222847000, 210320000, 396199000, 336983000, 1325000, 675191000, None, 1154, 2, 199, 1650322923520.0),
    "torch/pair128/rank-1.json.gz": ("torch-trace", "unix", 128, 1, 1, 1231186000, 271973000, 379053000, 303523000, 16504000, 651136000, None, 1104, 2, 188, 1696520011776.0),
    "torch/v100-resnet50-workers0-one-step.json.gz": ("torch-trace", "unix", None, None, 0, 174082000, 97505000, 0, 0, 2036000, 74541000, 68735000, 1455, 1, 69, 261969936384.0),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_real_traces(name: str) -> None:
    folder = profile_captures()
    if folder is None:
        return
    path = folder / name
    data = path.read_bytes()
    facts = read(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, name.removesuffix(".gz"))
    expected = REAL[name]
    assert not facts.problems
    if expected is None:
        assert not facts.devices
        return
    device, split = one(facts), one(facts).split
    assert expected == (
        facts.format, facts.clock, facts.ranks, device.rank, device.card.index, split.span_ns, split.compute_ns, split.communication_ns,
        split.exposed_communication_ns, split.copy_ns, split.idle_ns, split.data_wait_ns, split.launches, len(device.steps),
        len(device.kernels), device.flops and device.flops.total,
    )  # fmt: skip


# What HolisticTraceAnalysis 0.5.0 says of the first step, or of the whole of one (microseconds): computation, and what else of the card ran without computation beside it.
# It drops fractions, and counts a step from the first kernel to the last: its idle time is shorter by what lies before and behind.
HOLISTIC = {
    "torch/pair128/rank-0.json.gz": (106_252, 172_428),
    "torch/pair128/rank-1.json.gz": (135_548, 136_455),
    "torch/v100-resnet50-workers0-one-step.json.gz": (97_505, 2_036),
}


@pytest.mark.parametrize("name", HOLISTIC)
def test_the_split_is_that_of_another_analysis(name: str) -> None:
    folder = profile_captures()
    if folder is None:
        return
    device = one(read(gzip.decompress((folder / name).read_bytes()), name.removesuffix(".gz")))
    # Of a trace with one step it takes the whole.
    first = device.steps[0].split if len(device.steps) > 1 else device.split
    exposed = (first.exposed_communication_ns or 0) + (first.exposed_copy_ns or 0)
    assert ((first.compute_ns or 0) // 1000, exposed // 1000) == HOLISTIC[name]
