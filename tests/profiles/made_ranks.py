"""Made results of several ranks, like those of Ascend's tools and MindSpore: the same job, with a rank that may be slow."""

import json
from collections.abc import Sequence
from pathlib import Path

from telemetry_profile.files.read_files import find_files, installed_formats, read_file
from telemetry_profile.verdict.combine import FileFacts, Profile, combine
from telemetry_profile.verdict.summary import ProfileSummary
from telemetry_profile.verdict.usual_step import usual_step_of

STEPS = 4
STEP_US = 100_000
"""The steps of all ranks are equally long because of barriers."""

PLANTED = "10.11.12.13-planted-secret"
_STEP_HEAD = (
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing"
)
_RUN_HEAD = "Device_id,Model ID,Task ID,Stream ID,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,Input Shapes"
_SUM_HEAD = "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)"
_BEGIN_US = 1_700_000_000_000_000


def compute_us(rank: int, step: int, slow: int | None) -> float:
    """Return the time for which a rank computes in a step: 60 ms with a little noise, and 20 % more for the slow rank."""
    return (60_000 + 37 * ((rank * 7 + step * 3) % 5)) * (1.2 if rank == slow else 1.0)


def ascend_rank(folder: Path, rank: int, slow: int | None = None) -> None:
    whole = folder / f"{PLANTED}_{4000 + rank}_20260101_ascend_pt"
    output = whole / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (whole / f"profiler_info_{rank}.json").write_text(json.dumps({"rank_id": rank, "config": {"host": PLANTED}}))
    steps, runs = [_STEP_HEAD], [_RUN_HEAD]
    for step in range(STEPS):
        compute = compute_us(rank, step, slow)
        exposed = STEP_US - compute - 5000
        steps.append(f"{rank},{step},{compute:.3f},{exposed:.3f},1000,{exposed + 1000:.3f},5000,0,0,{exposed:.3f},12")
        begin = _BEGIN_US + step * STEP_US
        runs.append(f'{rank},1,{step},16,{PLANTED},MatMul,MIX_AIC,"{begin}.125\t",{compute:.3f},0,24,"{PLANTED}"')
        runs.append(
            f"{rank},1,N/A,N/A,hcom_allReduce__445_{step},hcom_allReduce_,HCCL,{begin + compute:.3f},{exposed:.3f},0,0,N/A"
        )
    (output / "step_trace_time.csv").write_text("\n".join(steps) + "\n")
    (output / "kernel_details.csv").write_text("\n".join(runs) + "\n")
    (output / "op_statistic.csv").write_text(
        f"{_SUM_HEAD}\n{rank},MatMul,MIX_AIC,{STEPS},{STEPS * 60_000},1,2,60000,99\n"
    )
    (output / "communication.json").write_text(json.dumps(communication(rank, slow)))


def communication(rank: int, slow: int | None) -> dict[str, object]:
    """Return communication.json of a rank: all ranks but the slow rank wait."""
    steps: dict[str, object] = {}
    for step in range(STEPS):
        exposed = (STEP_US - compute_us(rank, step, slow) - 5000) / 1e3
        waited = 0.01 if rank == slow else exposed * 0.9
        info = {
            "Communication Time Info": {
                "Start Timestamp(us)": _BEGIN_US + step * STEP_US,
                "Elapse Time(ms)": exposed,
                "Transit Time(ms)": 1.0,
                "Wait Time(ms)": waited,
                "Synchronization Time(ms)": waited,
                "Idle Time(ms)": 0.1,
            },
            "Communication Bandwidth Info": {
                "HCCS": {"Transit Size(MB)": 20.0, "Transit Time(ms)": 1.0, "Bandwidth(GB/s)": 20.0},
                "SDMA": {"Transit Size(MB)": 20.0, "Transit Time(ms)": 1.0, "Bandwidth(GB/s)": 20.0},
            },
        }
        steps[f"step{step}"] = {
            "p2p": {},
            "collective": {f"hcom_allReduce__445_{step}@{PLANTED}": info, "Total Op Info": info},
        }
    return steps


def mindspore_cluster(folder: Path, nodes: int = 2, cards: int = 2, slow: int | None = None) -> None:
    """Write a cluster folder of MindSpore until 1.3, whose files are numbered by card."""
    servers, aliases = [], []
    for node in range(nodes):
        address = f"{PLANTED}-{node}"
        aliases.append(f"{address} {node + 1}")
        devices = [
            {"device_id": str(card), "device_ip": f"{PLANTED}.{card}", "rank_id": str(node * cards + card)}
            for card in range(cards)
        ]
        servers.append({"server_id": address, "device": devices, "host_nic_ip": PLANTED})
        inside = folder / "cluster_profiler" / str(node + 1) / "profiler"
        inside.mkdir(parents=True)
        for card in range(cards):
            rank = node * cards + card
            (inside / f"step_trace_raw_{card}_detail_time.csv").write_text(_ticks(rank, slow))
            (inside / f"ascend_cluster_analyse_model-parallel_1_{nodes * cards}_{card}.csv").write_text(
                _analysis(rank, slow)
            )
    (folder / "hccl.json").write_text(
        json.dumps({"version": "1.0", "server_count": str(nodes), "server_list": servers, "status": "completed"})
    )
    (folder / "host_ips_mapping.txt").write_text("\n".join(aliases) + "\n")


def _ticks(rank: int, slow: int | None) -> str:
    lines = ["step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail"]
    at = 10_000_000 + rank
    for step in range(STEPS):
        compute = round(compute_us(rank, step, slow) * 100)
        total = STEP_US * 100
        lines.append(
            f"{step + 1},{at},{at + total},{total},{at},{at + compute},{100 * rank},{compute},{total - compute}"
        )
        at += total
    return "\n".join([*lines, "-,0,0,0,0,0,0,0,0"]) + "\n"


def _analysis(rank: int, slow: int | None) -> str:
    rows: Sequence[float] = [compute_us(rank, step, slow) / 1e3 for step in range(STEPS)]
    rows = [*rows, sum(rows) / len(rows)]
    return (
        "\n".join(
            [
                "computation,communication_alone_time",
                *(f"{milliseconds},{STEP_US / 1e3 - milliseconds}" for milliseconds in rows),
            ]
        )
        + "\n"
    )


def combined(folder: Path) -> Profile:
    """Return the profile of all files in a folder, which must all be recognised."""
    outcomes = [read_file(found, installed_formats()) for found in find_files([str(folder)])]
    assert [(outcome.file.display_name, outcome.error) for outcome in outcomes if outcome.facts is None] == []
    files = [(outcome.file, outcome.facts) for outcome in outcomes if outcome.facts]
    return combine([FileFacts(found.folders, found.display_name, facts) for found, facts in files])


def answered(profile: Profile) -> ProfileSummary:
    ranks = tuple(usual_step_of(member) for member in profile.members)
    return ProfileSummary(profile, ranks, (None,) * len(ranks), (None,) * len(ranks))
