"""The facts of each format of Chrome traces: made traces with expected answers."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from profiles.facts_text import of_facts
from profiles.traces import event, read_as
from telemetry_profile.format_contract import Device, Facts, Flops
from telemetry_profile.formats import ascend_trace, hipprof, mindspore_trace, torch_trace

FORMATS = (torch_trace.FORMAT, ascend_trace.FORMAT, hipprof.HIPPROF, hipprof.ROCPROF, mindspore_trace.FORMAT)
NOW = 1_700_000_000_000_000  # a moment of 2023, in microseconds


def read(trace: object, name: str = "trace.json") -> Facts:
    facts = read_as(FORMATS, trace, name)
    assert facts is not None
    return facts


def only(facts: Facts) -> Device:
    assert len(facts.devices) == 1
    return facts.devices[0]


def named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def step_of_torch() -> list[dict[str, Any]]:
    """Return 10 ms: 3 ms of data, a copy of 1 ms half hidden by a kernel of 2 ms, a collective of 2 ms half hidden by another kernel."""
    return [
        event("user_annotation", "ProfilerStep#3", NOW, 10_000, pid=99, tid=99),
        event("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", NOW, 3000, pid=99, tid=99),
        event("cpu_op", "aten::mm", NOW + 3000, 500, pid=99, tid=99,
              args={"Input Dims": [[64, 32], [32, 16]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}),
        event("cuda_runtime", "cudaLaunchKernel", NOW + 3100, 10, pid=99, tid=99),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", NOW + 3000, 1000),
        event("kernel", "gemm", NOW + 3500, 2000, args={"grid": [4, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 25}),
        event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", NOW + 6000, 2000, tid=20),
        event("kernel", "gemm", NOW + 7000, 2000, args={"grid": [4, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 0}),
    ]  # fmt: skip


def kineto(events: list[dict[str, Any]], **keys: Any) -> dict[str, Any]:
    described = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}, {"id": 1, "name": "NVIDIA H100 80GB HBM3"}]
    trace = {"schemaVersion": 1, "deviceProperties": described, "distributedInfo": {"rank": 5, "world_size": 8}}
    return trace | {"traceEvents": events} | keys


RENAMED = {
    "2021": {
        "kernel": "Kernel",
        "gpu_memcpy": "Memcpy",
        "cpu_op": "Operator",
        "user_annotation": "Operator",
        "cuda_runtime": "Runtime",
    },
    "Moore Threads": {"cuda_runtime": "privateuse1_runtime"},
    "Intel": {"cuda_runtime": "xpu_runtime"},
}


@pytest.mark.parametrize("age", RENAMED)
def test_all_names_of_categories_mean_the_same(age: str) -> None:
    events = [entry | {"cat": RENAMED[age].get(entry["cat"], entry["cat"])} for entry in step_of_torch()]
    assert read(kineto(events)) == read(kineto(step_of_torch()))
    assert only(read(events)).split == only(read(kineto(step_of_torch()))).split


def test_a_base_of_time_is_added_before_or_after_the_events() -> None:
    events = [entry | {"ts": f"{entry['ts'] - NOW}.125"} for entry in step_of_torch()]
    after = read(kineto(events, baseTimeNanoseconds=NOW * 1000))
    before = read({"baseTimeNanoseconds": NOW * 1000} | kineto(events))
    assert after == before
    assert (after.clock, only(after).begin_ns, only(after).steps[0].begin_ns) == (
        "unix",
        NOW * 1000 + 3_000_125,
        NOW * 1000 + 125,
    )
    assert read(kineto(events)).clock == "none"


def test_a_rank_is_read_from_the_name_of_the_file_if_the_content_has_none() -> None:
    alone = {"traceEvents": step_of_torch()}
    names = {
        "rank-3.json": 3,
        "rank_12.Jul_15.pt.trace.json": 12,
        "worker0.1623.pt.trace.json": 0,
        "frank7.json": None,
        "t.json": None,
    }
    assert {name: only(read(alone, name)).rank for name in names} == names
    assert only(read(kineto(step_of_torch()), "rank-3.json")).rank == 5


def test_flops_count_what_launched_and_each_operator_once() -> None:
    shapes = {"Input Dims": [[8, 8], [8, 8]]}
    events = [
        event("kernel", "k", NOW, 1),
        event("cpu_op", "aten::mm", NOW + 10, 5, tid=1, args=shapes),  # nothing launched: it ran on the CPU
        event("cpu_op", "aten::addmm", NOW + 20, 9, tid=1, args={"Input Dims": [[8], [8, 8], [8, 8], [], []]}),
        event("cpu_op", "aten::mm", NOW + 21, 5, tid=1, args=shapes),  # inside the other
        event("cuda_runtime", "cuLaunchKernelEx", NOW + 22, 1, tid=1),
        event("cuda_runtime", "cudaLaunchKernel", NOW + 11, 1, tid=2),
    ]
    assert only(read(kineto(events))).flops == Flops("shapes", 1024.0)
    assert only(read(kineto(events[:2]))).flops is None


CONVOLUTION = {
    "Input Dims": [[2, 4, 10, 10], [6, 2, 3, 3], [6], [], [], [], [], [], []],
    "Concrete Inputs": ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"],
}
PASS = 2 * 2 * 6 * 5 * 5 * 2 * 3 * 3
GRADIENT = [[2, 6, 5, 5], [2, 4, 10, 10], [6, 2, 3, 3], [], [], [], [], [], [], [], []]
PRINTED = ["", "", "", "[6]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "2"]
OPERATORS: dict[str, tuple[str, dict[str, Any], float | None]] = {
    "batches": ("aten::bmm", {"Input Dims": [[3, 4, 5], [3, 5, 6]]}, 2.0 * 3 * 4 * 5 * 6),
    "sizes that do not fit": ("aten::mm", {"Input Dims": [[4, 5], [6, 7]]}, None),
    "no sizes": ("aten::mm", {}, None),
    "nonsense": ("aten::mm", {"Input Dims": [[4, -5], "x"]}, None),
    "numbers beyond all measure": ("aten::mm", {"Input Dims": [[2**39, 2**39], [2**39, 2**39]]}, None),
    "convolution": ("aten::convolution", CONVOLUTION, PASS),
    "convolution without its stride": ("aten::convolution", {"Input Dims": CONVOLUTION["Input Dims"]}, None),
    "stride 0": ("aten::convolution", CONVOLUTION | {"Concrete Inputs": ["", "", "", "[0, 0]", "[1, 1]", "[1, 1]", "False"]}, None),
    "both gradients": ("aten::convolution_backward", {"Input Dims": GRADIENT, "Concrete Inputs": [*PRINTED, "[True, True, False]"]}, 2.0 * PASS),
    "one gradient": ("aten::convolution_backward", {"Input Dims": GRADIENT, "Concrete Inputs": [*PRINTED, "[False, True, True]"]}, PASS),
    "untold gradients": ("aten::convolution_backward", {"Input Dims": GRADIENT}, PASS),
    "gradients of old": ("aten::cudnn_convolution_backward", {"Input Dims": [GRADIENT[1], GRADIENT[0], GRADIENT[2]]}, PASS),
}  # fmt: skip


@pytest.mark.parametrize("case", OPERATORS)
def test_flops_of_an_operator(case: str) -> None:
    name, arguments, expected = OPERATORS[case]
    events = [
        event("kernel", "k", NOW, 1),
        event("cpu_op", name, NOW, 9, args=arguments),
        event("cuda_runtime", "cudaLaunchKernel", NOW + 1, 1),
    ]
    flops = only(read(kineto(events))).flops
    assert (flops and flops.total) == expected


def test_trace_without_a_device_has_a_remark() -> None:
    facts = read(kineto([entry for entry in step_of_torch() if entry["pid"] == 99]))
    assert not facts.devices
    assert "no device work" in facts.remarks[0]


def ascend(*, is_whole: bool) -> list[dict[str, Any]]:
    """Return two tasks that compute, a task that signals, a collective with a plane and a copy, and a copy of the program."""
    return [
        named("process_name", 3, 0, "Ascend Hardware"),
        named("process_name", 11, 0, "HCCL"),
        *([named("process_name", 2, 0, "CANN")] if is_whole else []),
        named("thread_name", 11, 0, "Plane 0"),
        named("thread_name", 11, 9, "Communication Kernel"),
        event("", "MatMul", "1000.500", 100, pid=3, tid=2, args={"Task Type": "AI_CORE"}),
        event("", "MatMul", "1200.500", "100.250", pid=3, tid=2, args={"Task Type": "MIX_AIC"}),
        event("", "NOTIFY_WAIT", 1000, 900, pid=3, tid=2, args={"Task Type": "NOTIFY_WAIT"}),
        event("", "MEMCPY_ASYNC", 1500, 50, pid=3, tid=7, args={"Task Type": "MEMCPY_ASYNC"}),
        event("", "MEMCPY_ASYNC", 1900, 100, pid=3, tid=2, args={"Task Type": "MEMCPY_ASYNC"}),
        event("", "hcom_allReduce__1", 1250, 400, pid=11, tid=9),
        event("", "Memcpy", 1500, 50, pid=11, tid=0,
              args={"stream id": 7, "src rank": 0, "dst rank": 1, "size(Byte)": 4096, "transport type": "SDMA"}),
    ]  # fmt: skip


def test_calls_of_one_collective_are_added_up_without_their_group() -> None:
    more = [
        event("", f"hcom_allReduce__428_{call}_1@10.1.2.3%eth0_6000", 2000 + 100 * call, 50, pid=11, tid=9)
        for call in range(3)
    ]
    facts = read([*ascend(is_whole=True), *more])
    kernels = {kernel.name: (kernel.calls, kernel.total_ns) for kernel in only(facts).kernels}
    assert kernels["hcom_allReduce"] == (4, 550_000)
    assert "10.1.2.3" not in repr(facts)


def nanoseconds(name: str, pid: int, begin: int, end: int, **more: Any) -> dict[str, Any]:
    times = {"BeginNs": str(begin), "EndNs": str(end), "DurationNs": str(end - begin)}
    return (
        {"ph": "X", "name": name, "pid": pid, "tid": 1, "ts": str(begin // 1000), "dur": str((end - begin) // 1000)}
        | more
        | {"args": times | more.get("args", {})}
    )


def test_hipprof_and_rocprof_print_nanoseconds() -> None:
    begin = NOW * 1000 + 1
    hipprof = [
        named("process_name", 1, 0, "[1] Runtime API IP:192.0.2.1 pid:7"),
        nanoseconds("hipLaunchKernel", 1, begin, begin + 1499, cat="HIP"),
        nanoseconds("add(float*)", 3, begin + 2000, begin + 3001, cat="HIPOPS", args={"devId": 1}),
        nanoseconds("HostToDevice", 2, begin, begin + 500, cat="HIPCOPY", args={"devId": 1}),
        nanoseconds("step 4", 5, begin, begin + 10_000, cat="HIPTX"),
    ]
    rocprof = [
        {},
        named("process_name", 2, 0, "CPU HIP API"),
        named("process_name", 1, 0, "COPY"),
        named("process_name", 7, 0, "GPU1"),
        named("process_name", 519, 0, "GPU Barriers1"),
        named("process_name", 9, 0, "Markers and Ranges"),
        nanoseconds("hipLaunchKernel", 2, 1001, 2500),
        nanoseconds("add(float*)", 7, 3001, 4002, args={"dev-id": "1"}),
        nanoseconds("barrier", 519, 0, 99_000, args={"dev-id": "1"}),
        nanoseconds("CopyHostToDevice", 1, 1001, 1501, args={"dev-id": "1"}),
        nanoseconds("step 4", 9, 1001, 11_001),
    ]
    splits = []
    # Some versions of rocprof print the processes of events in quotes, and those of names without quotes.
    quoted = [entry | {"pid": str(entry["pid"])} if entry.get("ph") == "X" else entry for entry in rocprof]
    traces = ((hipprof, "hipprof", "unix"), (rocprof, "rocprof", "boot"), (quoted, "rocprof", "boot"))
    for trace, tool, clock in traces:
        facts = read({"traceEvents": trace, "otherData": {"CMD": "a secret"}})
        device = only(facts)
        assert (facts.tool, facts.clock, device.card.index) == (tool, clock, 1)
        assert [(call.name, call.total_ns) for call in facts.calls] == [("hipLaunchKernel", 1499)]
        assert next((kernel.name, kernel.work, kernel.total_ns) for kernel in device.kernels) == (
            "add(float*)",
            "compute",
            1001,
        )
        splits.append((device.split, device.steps[0].split))
    assert splits[0] == splits[1] == splits[2]
    assert (splits[0][0].compute_ns, splits[0][0].copy_ns, splits[0][0].idle_ns) == (1001, 500, 1500)


def iterations() -> list[dict[str, Any]]:
    def iteration(number: int, begin: float, length: float) -> dict[str, Any]:
        return event("Iteration Time", f"Iteration {number}", begin, length, args={"Iteration ID": number})

    def wait(number: int, time: float, length: float) -> dict[str, Any]:
        name = f"Data_aug Bound {number}"
        return {"ph": "t", "cat": "Data_aug Bound", "name": name, "ts": time, "args": {"Data_aug Bound(us)": length}}

    return [iteration(1, 100, 50), wait(1, 180, 30.5), iteration(2, 180, 20), wait(2, 200, 0), iteration(3, 200, 10)]


def mindspore() -> list[dict[str, Any]]:
    return [
        event("", "MatMul-op1", 100, 50.5, pid=2, tid="5"),
        event("", "Default/DropoutGenMask-op9", 140, 20, pid=9000, tid="0"),
        event("", "GetNext", 100, 500, pid=9000, tid="0"),
        event("", "AllReduce", 150, 30, pid=10_000, tid="9"),
        event("", "computation", 100, 60, pid=12_000, tid=7999),
        event("", "1", 90, 200, pid=2, tid="Steps"),
        event("", "Default", 100, 500, pid=2, tid="Scope Name"),
    ]


def mindspore_on_gpus() -> list[dict[str, Any]]:
    arguments = {"type": "cuLaunchKernel", "op_full_name": "x", "block_dim": "32,1,1", "grid_dim": "8,1,1"}
    return [event("", "Default/op", NOW, 300, tid="Ops"), event("", "add", NOW + 5, 2, tid="17", args=arguments)]


def traces() -> Iterator[tuple[str, object]]:
    step = step_of_torch()
    marked = [entry | {"name": entry["name"].replace("ProfilerStep#", "train_step ")} for entry in step]
    yield "step.json", kineto(step)
    yield (
        "step-that-had-only-begun.json",
        kineto([*step, event("user_annotation", "ProfilerStep#4", NOW + 10_000, 50, pid=99, tid=99)]),
    )
    yield "steps-of-the-program.json", kineto(marked)
    yield "steps-of-the-program-and-the-profiler.json", kineto(step + marked)
    whole = json.dumps(kineto(step)).encode()
    yield "cut.json", whole[: whole.rindex(b'{"ph"')]
    yield "device_2/timeline/msprof_2_1_1.json", ascend(is_whole=True)
    yield "tasks.json", [entry for entry in ascend(is_whole=False) if entry["pid"] == 3]
    yield "collectives.json", [entry for entry in ascend(is_whole=False) if entry["pid"] == 11]
    yield "iterations.json", iterations()
    yield "ascend_timeline_display_6.json", mindspore()
    yield "gpu_timeline_display_0.json", mindspore_on_gpus()


def test_made_up_traces_have_the_expected_facts(assert_golden: Callable[[Path, str], None]) -> None:
    texts = ["\n".join([name, *of_facts(read(trace, name), in_full=True), ""]) for name, trace in traces()]
    assert_golden(Path(__file__).parent / "traces.txt", "".join(texts))
