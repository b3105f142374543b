"""Each cause of the verdict, with a trace that shows it and one that nearly does; steps; independent runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from profiles.made_ranks import answered, combined, mindspore_cluster
from profiles.test_traces import NOW, kineto, only, read
from profiles.traces import event
from telemetry_exporters.terminal.style import Colour
from telemetry_profile.facts.kernel_kinds import work_of
from telemetry_profile.profile_document import document
from telemetry_profile.profile_screen import render_screen

Events = list[dict[str, Any]]


def step(length: int, *, number: int = 1, begin: int = 0) -> dict[str, Any]:
    return event("user_annotation", f"ProfilerStep#{number}", NOW + begin, length, pid=9, tid=9)


def runs(
    count: int,
    length: int,
    every: int,
    *,
    name: str = "gemm",
    begin: int = 0,
    category: str = "kernel",
    grid: int = 512,
) -> Events:
    """Return kernels that follow each other, each with its launch at the same time."""
    numbers = [(begin + number * every, begin * 1000 + number + 1) for number in range(count)]
    arguments = {"grid": [grid, 1, 1]}
    kernels = [event(category, name, NOW + at, length, args=arguments | {"correlation": key}) for at, key in numbers]
    launches = [
        event("cuda_runtime", "cudaLaunchKernel", NOW + at, 1, pid=9, tid=9, args={"correlation": key})
        for at, key in numbers
    ]
    return [*kernels, *launches]  # fmt: skip


def loader(length: int) -> dict[str, Any]:
    return event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", NOW, length, pid=9, tid=9)


def verdict(events: Events, folder: Path, **keys: Any) -> dict[str, Any]:
    (folder / "trace.json").write_text(json.dumps(kineto(events, **keys)))
    found: dict[str, Any] = document(answered(combined(folder)))["verdict"]
    return found


NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
FUSED = "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<2>(int)"
# The cause, events that show it, events that nearly do, and words of the verdict.
CAUSES: dict[str, tuple[str, Events, Events, str]] = {
    "data": ("data", [step(1000), loader(200), *runs(40, 20, 20, begin=200)],
             [step(1000), loader(40), *runs(48, 20, 20, begin=40)], "the data loader takes 200.0 µs of 1.0 ms"),
    "the loader is short, the host is slow": (
        "host", [step(2000), loader(120), *runs(20, 20, 90, begin=120)], [step(2000), loader(90), *runs(20, 95, 95, begin=90)],
        "launches are 90.0 µs apart"),
    "communication": ("communication", [step(1000), *runs(20, 40, 40), *runs(20, 10, 10, name=NCCL, begin=800)],
                      [step(1000), *runs(25, 40, 40), *runs(20, 10, 10, name=NCCL, begin=800)], "communication without overlapping compute takes 20 %"),
    "fused": ("communication", [step(1000), *runs(16, 40, 40), *runs(18, 20, 20, name=FUSED, begin=640)],
              [step(1000), *runs(23, 40, 40), *runs(4, 20, 20, name=FUSED, begin=920)], "do not show whether communication"),
    "copies": ("copy", [step(1000), *runs(20, 40, 40), *runs(4, 50, 50, name="Memcpy HtoD", category="gpu_memcpy", begin=800)],
               [step(1000), *runs(24, 40, 40), *runs(1, 40, 40, name="Memcpy HtoD", category="gpu_memcpy", begin=960)], "copies without overlapping work take 20 %"),
    "host": ("host", [step(1000), *runs(10, 20, 100)], [step(1000), *runs(10, 95, 100)], "launches are"),
    "gap": ("gap", [step(20_000), *runs(20, 500, 500), *runs(10, 500, 500, begin=15_000)],
            [step(20_000), *runs(20, 500, 500), *runs(17, 500, 500, begin=11_500)], "in 1 gap of 5.0 ms"),
    "one block": ("parallelism", [*runs(2, 6_300_000, 6_300_000, name="slow", grid=1)],
                  [*runs(2, 6_300_000, 6_300_000, name="slow", grid=64)], "slow (1 block)"),
    "a captured graph": ("unknown", [step(1000), *runs(2, 5, 5), *(entry for entry in runs(60, 1, 10, begin=100) if entry["cat"] != "kernel")],
                         [step(1000), *runs(60, 16, 16)], "only 2 of 62 launched kernels ran"),
    "too few kernels": ("unknown", [step(1000), *runs(9, 10, 100)], [step(1000), *runs(40, 24, 25)], "only 9 kernels ran"),
    "equal causes": ("communication", [step(1000), *runs(20, 25, 25), *runs(13, 20, 20, name=NCCL, begin=500), loader(0),
                                       *runs(1, 1, 1, begin=999)],
                     [step(1000), *runs(38, 25, 25), *runs(2, 20, 20, name=NCCL, begin=950)], "several causes take about the same time"),
}  # fmt: skip


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_is_named_with_its_evidence_and_not_where_it_nearly_holds(name: str, tmp_path: Path) -> None:
    cause, showing, nearly, words = CAUSES[name]
    found = verdict(showing, tmp_path)
    assert (found["cause"], words in found["text"]) == (cause, True), found
    assert cause == "unknown" or found["advice"]
    other = verdict(nearly, tmp_path)
    assert other["cause"] == "compute", other


@pytest.mark.parametrize(
    ("runtime", "function", "kernels"),
    [
        ("hip_runtime", "hipModuleLaunchKernel", "kernel"),
        ("mtia_runtime", "runFunction - job_prep_and_submit_for_execution", "mtia_ccp_events"),
    ],
)
def test_kernels_belong_to_the_step_in_which_they_were_launched(
    tmp_path: Path, runtime: str, function: str, kernels: str
) -> None:
    """The card runs 5 ms behind the host, and works 6 ms on each of its steps of 4 ms. No launch of its copies is in the file."""
    events: Events = []
    for number in range(4):
        events.append(step(4000, number=number, begin=4000 * number))
        for part in range(6):
            key = number * 10 + part + 1
            launched, began = NOW + 4000 * number + 100 * part, NOW + 5000 + 6000 * number + 1000 * part
            events.append(event(runtime, function, launched, 1, pid=9, tid=9, args={"correlation": key}))
            events.append(event(kernels, "gemm", began, 1000, args={"correlation": key}))
            events += [event(kernels, "dma_request", began + at, 1) for at in (100, 200, 300)]
    device = only(read(kineto(events)))
    assert device.step_basis == "launch"
    assert [
        (split.span_ns, split.compute_ns, split.launches) for split in (step.split for step in device.steps[1:])
    ] == [(6_000_000, 6_000_000, 6)] * 3
    without = [entry | {"args": {}} for entry in events]
    (tmp_path / "trace.json").write_text(json.dumps(kineto(without)))
    (found,) = document(answered(combined(tmp_path)))["devices"]
    assert (found["step_basis"], found["step"]["span_seconds"]) == ("host", 0.004)


def test_the_end_of_the_profiler_is_no_part_of_the_last_step(tmp_path: Path) -> None:
    steps = [step(4000, number=number, begin=4000 * number) for number in range(3)]
    work = [entry for number in range(4) for entry in runs(35, 100, 100, begin=4000 * number)]
    device = only(read(kineto([*steps, step(14_000, number=3, begin=12_000), *work])))
    assert [item.split.span_ns for item in device.steps] == [4_000_000] * 4


def test_a_long_gap_is_reported_and_the_rest_judged(tmp_path: Path) -> None:
    found = verdict([*runs(1, 4, 4), *runs(40, 1000, 1000, begin=463_000)], tmp_path)
    assert (found["cause"], found["share"]) == ("compute", 1.0)
    assert "outside 1 idle gap of 463.0 ms at 4.0 µs" in found["text"]
    busy = [entry for begin in (463_000, 900_000) for entry in runs(20, 1000, 1000, begin=begin)]
    found = verdict([*runs(1, 4, 4), *busy], tmp_path)
    assert "outside 2 idle gaps totalling 880.0 ms (the longest: 463.0 ms at 4.0 µs)" in found["text"]
    found = verdict([*runs(20, 400, 2000), *runs(20, 400, 2000, begin=463_000)], tmp_path)
    assert (found["cause"], "launches are 2.0 ms apart" in found["text"]) == ("host", True), found
    kernels = [entry for entry in runs(20, 400, 2000, begin=463_000) if entry["cat"] == "kernel"]
    found = verdict([event("gpu_memset", "Memset", NOW, 3), *kernels], tmp_path)
    assert (found["cause"], "launches are 2.0 ms apart" in found["text"]) == ("host", True), found


def test_a_few_copies_alone_explain_nothing(tmp_path: Path) -> None:
    copies = [event("gpu_memcpy", "Memcpy HtoD", NOW + 10 * number, 5) for number in range(10)]
    assert verdict(copies, tmp_path)["cause"] == "copy"
    found = verdict(copies[:1], tmp_path)
    assert (found["cause"], "only 1 copy ran in 5.0 µs" in found["text"]) == ("unknown", True), found


def of_rank(rank: int, *, compute: int = 40, idle: int = 0) -> dict[str, Any]:
    """Return a step of 100 ms: some rank computes longer, or its card is idle longer, and the others wait in the collective."""
    ms = 1000
    busy = runs(20, compute * ms // 20, compute * ms // 20, begin=idle * ms)
    reduced = runs(1, (100 - compute - idle) * ms, ms, name=NCCL, begin=(idle + compute) * ms)
    return kineto([step(100 * ms), *busy, *reduced], distributedInfo={"rank": rank, "world_size": 4})


@pytest.mark.parametrize(
    ("slow", "reason", "words"),
    [
        ({"compute": 60}, "compute", "rank 0 delays the other ranks: it computes 50 % longer"),
        ({"idle": 42}, "host", "the host of rank 0 delays all ranks"),
    ],
)
def test_the_rank_for_which_the_others_wait(tmp_path: Path, slow: dict[str, int], reason: str, words: str) -> None:
    for rank in range(4):
        content = of_rank(rank, **(slow if rank == 0 else {}))
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(content))
    found = document(answered(combined(tmp_path)))
    assert found["ranks"]["straggler"]["rank"] == 0
    assert found["ranks"]["straggler"]["reason"] == reason
    assert found["verdict"]["text"].startswith(words)
    assert found["ranks"]["slowest"]["rank"] == 0 != found["ranks"]["fastest"]["rank"]


def test_runs_that_do_not_belong_together_have_a_verdict_each(tmp_path: Path) -> None:
    for number in range(3):
        events = [entry | {"ts": entry["ts"] + number * 10**9} for entry in runs(40, 20, 20 + 60 * number)]
        (tmp_path / f"{number}.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    found = document(answered(combined(tmp_path)))
    assert [(run["devices"], run["verdict"]["cause"], run["ranks"]) for run in found["runs"]] == [
        ([0], "compute", None),
        ([1], "host", None),
        ([2], "host", None),
    ]
    assert (found["verdict"]["cause"], found["ranks"]) == ("unknown", None)


SUMS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"{}",2,2000000,1000000,100\n'
LONGER = SUMS.replace("2000000,1000000", "6000000,3000000")
DISPATCH = '"KERNEL_DISPATCH",{},"{}",1000000,9000000\n'
DISPATCHES = '"Kind","Agent_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n' + DISPATCH
STEPS = "step_num,start_point,end_point,total,iteration_interval,fp_and_bp,tail\n1,0,9000,9000,0,9000,0\n"
RANK = "step_trace_raw_{}_detail_time.csv"
V1_RUNS = '"Index","KernelName","gpu-id","queue-id","BeginNs","EndNs"\n0,"k",0,0,1000000,3000000\n'
ON_CARD = "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n{},{},AI_CORE,9,{},1,2,3,9\n"
AICORE = "full_op_name,execution_time\nDefault/MatMul-op1,9.2\n"
AICPU = "serial_number,kernel_type,total_time,dispatch_time,execution_time\n1,GetNext,0.888,0.132,0.22\n"
# Files, and the number of cards in each run.
FILES_OF_RUNS: dict[str, tuple[dict[str, str], list[int]]] = {
    "programs in folders": ({"a/results.stats.csv": SUMS.format("a"), "b/results.stats.csv": SUMS.format("b")}, [1, 1]),
    "programs in a folder": ({"a.stats.csv": SUMS.format("a"), "b.stats.csv": SUMS.format("b")}, [1, 1]),
    "processes in a folder": ({"1_kernel_stats.csv": SUMS.format("a"), "2_kernel_stats.csv": SUMS.format("b"),
                               "2_memory_copy_stats.csv": SUMS.format("MEMORY_COPY_HOST_TO_DEVICE")}, [1, 1]),
    "programs in files of any name": ({"a stats": SUMS.format("a"), "b stats": LONGER.format("b")}, [1, 1]),
    "sums of a program by kernel and by domain": ({"a stats": LONGER.format("a"), "b": LONGER.format("KERNEL_DISPATCH")}, [1]),
    "processes that share a card": (
        {"1_kernel_trace.csv": DISPATCHES.format(4, "a"), "2_kernel_trace.csv": DISPATCHES.format(4, "b")}, [1, 1]),
    "processes with a card each": (
        {"1_kernel_trace.csv": DISPATCHES.format(4, "a"), "2_kernel_trace.csv": DISPATCHES.format(5, "b")}, [2]),
    "a process with two cards": ({"kernel_trace.csv": DISPATCHES.format(4, "a") + DISPATCH.format(5, "b")}, [2]),
    "ranks in folders": ({f"{rank}/{RANK.format(rank)}": STEPS for rank in range(3)}, [3]),
    "the same ranks in folders": ({f"{name}/{RANK.format(rank)}": STEPS for name in "ab" for rank in range(2)}, [2, 2]),
    "jobs with a folder for each rank": (
        {f"{name}/{rank}/{RANK.format(rank)}": STEPS for name in "ab" for rank in range(2)}, [2, 2]),
    "a rank with a file for each kind of core": ({"aicore_intermediate_1_detail.csv": AICORE, "aicpu_intermediate_1.csv": AICPU}, [1]),
    "ranks with a file for each kind of core": (
        {f"{rank}/profiler/{name}": text for rank in range(2) for name, text in (
            (f"aicore_intermediate_{rank}_detail.csv", AICORE), (f"aicpu_intermediate_{rank}.csv", AICPU))}, [2]),
    "compute and communication": ({"op_statistic.csv": ON_CARD.format(0, "MatMul", 900),
                                   "communication_statistic.csv": ON_CARD.format(0, "hcom_allReduce_", 500)}, [1]),
    "cards in folders": ({f"{card}/op_statistic.csv": ON_CARD.format(card, "MatMul", 900) for card in range(2)}, [2]),
    "the same card in folders": ({f"{name}/op_statistic.csv": ON_CARD.format(0, "MatMul", 900) for name in "ab"}, [1, 1]),
    "runs, sums and copies of a process": ({"a.csv": V1_RUNS, "a.stats.csv": SUMS.format("k"),
                                            "a.copy_stats.csv": SUMS.format("CopyDeviceToHost")}, [1]),
    "programs with sums by domain": ({"a stats": SUMS.format("a"), "b stats": LONGER.format("b"), "c": LONGER.format("KERNEL_DISPATCH")}, [1, 1]),
    "parts of a job": ({f"{name}/{RANK.format(rank)}": STEPS for name, rank in (("a", 0), ("b", 1), ("c", 0), ("c", 1))}, [1, 1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES_OF_RUNS)
def test_each_program_or_job_is_a_separate_run(name: str, tmp_path: Path) -> None:
    files, cards = FILES_OF_RUNS[name]
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    answer = answered(combined(tmp_path))
    found = document(answer)
    assert sorted(len(run["devices"]) for run in found["runs"]) == cards
    kernels = {text.split('"')[-2] for path, text in files.items() if "stats" in path}
    assert kernels <= {kernel["name"] for device in found["devices"] for kernel in device["kernels"]}
    names = kernels | {path.split("/")[0] for path in files if len(cards) > 1}
    assert {name for name in names if name not in render_screen(answer, 80, Colour.NEVER)} == set()


def test_figures_belong_to_the_ranks_of_the_verdict(tmp_path: Path) -> None:
    mindspore_cluster(tmp_path, nodes=1, cards=2)
    (tmp_path / "cluster_profiler/1/profiler/ascend_cluster_analyse_model-parallel_1_2_0.csv").unlink()
    lines = render_screen(answered(combined(tmp_path)), 120, Colour.NEVER).splitlines()
    assert "Slow because: communication without overlapping compute takes 40 % of the step of rank 1" in lines
    assert "rank 1: step 100.0  compute 60.0  exposed 40.0  data wait 0.0 ms" in lines
    assert [line.split()[-4:] for line in lines if line.startswith("median")] == [["median", "100.0", "–", "–"]]


def test_launches_of_a_graph_capture_have_no_flops() -> None:
    shapes = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["c10::Half", "c10::Half"]}
    operators = [event("cpu_op", "aten::mm", NOW + 10 * number, 5, pid=9, tid=9, args=shapes) for number in range(40)]
    whole = [*operators, *runs(40, 5, 10)]
    assert only(read(kineto(whole))).flops is not None
    captured = [*operators, *runs(40, 5, 10)[40:], *runs(1, 11, 11)[:1]]
    assert only(read(kineto(captured))).flops is None


def test_thousands_of_devices_are_read(tmp_path: Path) -> None:
    events = [event("kernel", "k", NOW + number, 5, pid=number) for number in range(3000)]
    (tmp_path / "trace.json").write_text(json.dumps(kineto(events, deviceProperties=[])))
    found = document(answered(combined(tmp_path)))
    assert (len(found["devices"]), len(found["runs"])) == (3000, 1)


NAMES = Path(__file__).parent / "kernel_names.txt"


def test_real_kernels_have_their_kinds() -> None:
    rows = [line.split(None, 1) for line in NAMES.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    assert len(rows) >= 200
    wrong = {name: (kind, work_of(name)) for kind, name in rows if work_of(name) != kind}
    assert not wrong
