"""The collective in which ranks wait for each other's profiler: left out if no steps are marked, and nothing else."""

import json
from typing import Any

import pytest

from profiles.tables import facts_of
from profiles.test_traces import NOW, event, kineto, only, read
from telemetry_profile.format_contract import Facts
from telemetry_profile.verdict.combine import FileFacts, combine
from telemetry_profile.verdict.usual_step import UsualStep, usual_step_of

MS = 1_000_000


def collective(begin_ms: float, length_ms: float) -> dict[str, Any]:
    return event("kernel", "ncclDevKernel_AllReduce_Sum", NOW + begin_ms * 1000, length_ms * 1000, tid=20)


def compute(begin_ms: float, length_ms: float) -> dict[str, Any]:
    return event("kernel", "gemm", NOW + begin_ms * 1000, length_ms * 1000)


def usual(facts: Facts) -> UsualStep:
    (member,) = combine([FileFacts((), "trace.json", facts)]).members
    return usual_step_of(member)


# 2 ms of compute, a collective of 900 ms that overlaps with 5 ms of compute, then three steps of 10 ms.
WAITING = [
    compute(0, 2), collective(2, 900), compute(100, 5),
    *(part for begin in (902, 912, 922) for part in (compute(begin, 6), collective(begin + 6, 4))),
]  # fmt: skip


def test_the_first_collective_is_left_out_if_no_steps_are_marked() -> None:
    facts = read(kineto(WAITING))
    step = usual(facts)
    assert only(facts).split.span_ns == 932 * MS
    assert only(facts).split.communication_ns == 912 * MS
    split = step.split
    assert (split.span_ns, split.compute_ns, split.communication_ns) == (32 * MS, 20 * MS, 12 * MS)
    assert (split.exposed_communication_ns, split.idle_ns, split.launches) == (12 * MS, 0, 7)
    assert step.left_out == ("the first collective, 900.0 ms (in which ranks wait until all profilers run)",)
    kernels = {kernel.name: kernel.calls for kernel in only(facts).kernels}
    assert kernels == {"gemm": 5, "ncclDevKernel_AllReduce_Sum": 4}


@pytest.mark.parametrize(
    "events",
    [
        [compute(0, 2), collective(2, 900)],
        [collective(0, 4), compute(4, 6), collective(10, 4)],
        [collective(0, 4), collective(10, 900), collective(920, 4)],
        [compute(0, 900), compute(900, 1)],
    ],
    ids=["only", "equal", "later", "none"],
)
def test_nothing_else_is_left_out(events: list[dict[str, Any]]) -> None:
    step = usual(read(kineto(events)))
    assert step.left_out == ()
    assert step.split == step.member.device.split


def test_steps_include_the_first_collective() -> None:
    steps = [event("user_annotation", f"ProfilerStep#{n}", NOW + 902_000 + 10_000 * n, 10_000, pid=9) for n in range(3)]
    step = usual(read(kineto([*WAITING, *steps])))
    assert (step.step_count, step.split.span_ns, step.split.communication_ns) == (2, 10 * MS, 4 * MS)
    assert not any("collective" in text for text in step.left_out)


def test_missing_figures_stay_unknown() -> None:
    heading = "Type,Name,Accelerator Core,Start Time(us),Duration(us)"
    runs = ["hcom_,a,HCCL,0,9000", "MatMul,b,AI_CORE,9000,50", "hcom_,a,HCCL,9050,20", "MatMul,b,AI_CORE,9070,50"]
    facts = facts_of("kernel_details.csv", "\n".join([heading, *runs]) + "\n")
    split = usual(facts).split
    assert (split.span_ns, split.compute_ns, split.communication_ns) == (120_000, 100_000, 20_000)
    assert (split.copy_ns, split.idle_ns) == (None, None)


def test_waits_of_a_rank_leave_out_the_first_collective() -> None:
    infos = {
        f"hcom_broadcast__1_{number}@10.1.2.3%eth0_6000": {
            "Communication Time Info": {
                "Start Timestamp(us)": 1.7e15 + number * 1e6, "Elapse Time(ms)": elapsed, "Wait Time(ms)": waited,
            }
        }
        for number, (elapsed, waited) in enumerate([(900, 890), (5, 1), (6, 2)])
    }  # fmt: skip
    facts = facts_of("communication.json", json.dumps({"step": {"collective": infos}}))
    device = only(facts)
    assert (device.split.wait_ns, device.first_collective is not None) == (893 * MS, True)
    rest = device.split_without_first_collective()
    assert rest is not None
    assert rest.wait_ns == 3 * MS
    assert "10.1.2.3" not in repr(facts)
