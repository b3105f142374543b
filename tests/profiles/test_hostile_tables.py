"""Tables and documents of Ascend and MindSpore that are cut, damaged, or contain private data."""

import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from profiles.facts_text import of_facts
from profiles.made_ranks import communication
from profiles.tables import TEXTS, facts_of, facts_of_text
from telemetry_profile.facts.device_timeline import OTHERS
from telemetry_profile.format_contract import Facts, NotReadError, Split
from telemetry_profile.formats import mindspore_tables

SECRET = "planted-s3cret.example"
HIDDEN = "10.11.12.13"


def matrix() -> dict[str, Any]:
    links = {
        ends: {"Transport Type": kind, "Transit Size(MB)": 8.5, "Transit Time(ms)": 0.5, "Op Name": HIDDEN}
        for ends, kind in (("0-1", "HCCS"), ("1-0", "HCCS"), ("0-0", "LOCAL"), ("0-2", SECRET))
    }
    names = ("allreduce-top1", "allreduce-middle", "allreduce-bottom2", "allreduce-total")
    return {"step": {"p2p": {}, "collective": {f"{name}@{HIDDEN}": links for name in names}}}


# A file of each kind, by its path, with `SECRET` and `HIDDEN` where tools print names, hosts and addresses.
FILES: dict[str, str] = {
    "step_trace_time.csv": (
        "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble\n"
        f"3,7,6000.5,2500.25,500,3000.25,1499.25,0,0\n3,8,6001.5,2500,500,3000,1500,0,0\n3,{SECRET},1,1,1,1,1,1,1\n"
    ),
    "cluster_step_trace_time.csv": (
        "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free\n"
        f",rank,0,100.5,50.5,1,51.5,10\n,rank,1,101.5,50,1,51,10\n,stage,\"({SECRET})\",101.5,50.5,1,51.5,10\n"
    ),
    "step_trace_20260101.csv": (
        "Device_id,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us),Data Aug Bound(us),Model ID\n"
        f"1,1,1000,1900,2000.5,1000.5,N/A,{SECRET}\n1,2,2200,2900,3000,800.25,199.5,{SECRET}\n"
    ),
    "kernel_details.csv": (
        "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Block Dim,Input Shapes\n"
        f'1,{SECRET},MatMul,AI_CORE,"1700000000000000.125\t",50.25,24,{SECRET}\n1,{HIDDEN},hcom_allReduce_,HCCL,1700000000000060,40,0,N/A\n'
    ),
    "op_statistic_20260101.csv": (
        f"Device_id,Model Name,OP Type,Core Type,Count,Total Time(us),Max Time(us)\n0,{SECRET},MatMul,AI_CORE,12,600.5,51\n"
    ),
    "communication_statistic_20260101.csv": "Device_id,OP Type,Count,Total Time(us),Max Time(us)\n0,plain,4,90.5,30\n",
    "api_statistic.csv": f"Device_id,Level,API Name,Time(us),Count\nhost,{SECRET},launch,120.5,33\n",
    "communication.json": json.dumps(communication(1, None)).replace("10.11.12.13-planted-secret", HIDDEN),
    "communication_matrix.json": json.dumps(matrix()),
    "profiler_info_3.json": json.dumps({"rank_id": 3, "rank_size": 8, "config": {"host": SECRET, "env": HIDDEN}}),
    "device_2/info.json.2": json.dumps({"DeviceInfo": [{"id": 2}], "rank_id": 5, "hostname": SECRET, "mac": HIDDEN}),
    "device_2/start_info.2": json.dumps(
        {"collectionDateBegin": SECRET, "collectionTimeBegin": "1692340024324979", "clockMonotonicRaw": "56579931060630"}
    ),
    "hccl.json": json.dumps(
        {"server_list": [{"server_id": HIDDEN, "host_nic_ip": SECRET, "device": [{"device_id": "1", "device_ip": HIDDEN, "rank_id": "9"}]}]}
    ),
    "host_ips_mapping.txt": f"{HIDDEN} 1\n{SECRET} 2\n",
    "step_trace_raw_4_detail_time.csv": (
        "step_num,start_point,end_point,total,fp_point,bp_point,iteration_interval,fp_and_bp,tail,"
        "AllReduce,AllReduce_start_point,AllReduce_end_point\n"
        f"1,100,1100,1000,100,900,12,800,200,150,80,300\n2,1100,2100,1000,1100,1900,13,800,200,150,1300,1450\n{SECRET},1,2,1,1,1,1,1,1,1,1,1\n"
    ),
    "ascend_cluster_analyse_model-parallel_1_2_1.csv": "computation,communication_alone_time\n6.5,3.25\n6.25,3.5\n6.375,3.375\n",
    "ascend_cluster_analyse_data-parallel_1_2_1.csv": "iteration_interval, fp_and_bp, tail\n12, 800, 200\n",
    "hccl_raw_6.csv": (
        "step_num,communication_cost,wait_cost,link_info,communication_operator_cost\n"
        '1,2.5,20.25,"{""0-1"": {""SDMA"": [2.5, 1300.5, 9]}}","{}"\n-,2.5,20.25,"{""0-1"": {""SDMA"": [2.5, 1300.5, 9]}}","{}"\n'
        f'{SECRET},1,1,"{{}}","{{}}"\n'
    ),
    "aicore_intermediate_1_type.csv": "op_type,execution_time,execution_frequency,percent\nMatMul,20.5,9,89\nCast,1.25,4,5\n",
    "aicore_intermediate_1_detail.csv": "full_op_name,execution_time\nDefault/MatMul-op1,9.5\nDefault/AllReduce-op2,1.5\n",
    "aicpu_intermediate_1.csv": "serial_number,kernel_type,total_time,dispatch_time,execution_time\n1,GetNext,0.9,0.1,0.25\n",
    "gpu_op_type_info_0.csv": "op_type,type_occurrences,total_time(us),total_proportion,avg_time(us)\nConv2D,5,100.5,0.9,20.1\n",
    "gpu_op_detail_info_0.csv": (
        "op_side,op_type,op_name,op_full_name,op_occurrences,op_total_time(us),op_avg_time(us),total_proportion,"
        "cuda_activity_cost_time(us),cuda_activity_call_count\nDevice,Conv2D,op1,Default/Conv2D-op1,5,100.5,20.1,0.9,70.25,10\n"
    ),
    "gpu_activity_data_0.csv": (
        "name,type,op_full_name,stream_id,block_dim,grid_dim,occurrences,total_duration(us),avg_duration(us),max_duration(us),min_duration(us)\n"
        'conv_kernel,cuLaunchKernel,Default/Conv2D-op1,1,"(8,1,1)","(4,1,1)",10,70.25,7.025,9.5,6\n'
    ),
    "cpu_op_detail_info_0.csv": (
        "op_side,op_type,op_name,full_op_name,op_occurrences,op_total_time(ms),op_avg_time(ms),total_proportion,subgraph,pid\n"
        "Host,Add,op2,Default/Add-op2,3,1.5,0.5,0.1,Default,77\n"
    ),
    "flops_summary_0.json": '{"FLOPs": 107146.5, "FLOPS": 5385.25, "FLOPS_Utilization": 0.23}',
    "minddata_pipeline_raw_0.csv": (
        "op_id,op_type,num_workers,output_queue_usage_rate\n"
        f"0,{SECRET},4,0.015\n"
    ),
}  # fmt: skip


def numbers(facts: Facts) -> Iterator[tuple[str, float]]:
    """Yield all times and counts of single items; sums, which are less for a part of the rows, are in `totals`."""
    for device in facts.devices:
        for split in (device.split, *(step.split for step in device.steps)):
            yield from (
                (name, value) for name in Split.__dataclass_fields__ if (value := getattr(split, name)) is not None
            )


def totals(facts: Facts) -> dict[object, float]:
    found: dict[object, float] = {call.name: call.total_ns for call in facts.calls}
    found |= {(link.kind, link.source, link.target): link.bytes_moved for link in facts.links}
    for device in facts.devices:
        found |= {(device.rank, device.card, kernel.work, kernel.name): kernel.total_ns for kernel in device.kernels}
    return found


def test_each_file_has_the_expected_facts(assert_golden: Callable[[Path, str], None]) -> None:
    found = {name: facts_of(name, content) for name, content in FILES.items()}
    assert HIDDEN not in repr(found)
    assert SECRET not in repr(found)
    texts = ["\n".join([name, *of_facts(facts, in_full=True), ""]) for name, facts in found.items()]
    assert_golden(Path(__file__).parent / "tables.txt", "".join(texts))


def test_every_format_of_these_tools_has_a_file_here() -> None:
    of_tools = {text.name for text in TEXTS if text.tool.startswith(("Ascend", "MindSpore"))} - {"ascend-other"}
    assert of_tools == {facts_of(name, content).format for name, content in FILES.items()}


# The distance of the ends at which each file is cut, and the number of damages.
by_effort = pytest.mark.parametrize(("step", "rounds"), [(13, 6), pytest.param(3, 100, marks=pytest.mark.long)])


@by_effort
def test_a_file_that_ends_early_adds_nothing(step: int, rounds: int) -> None:
    for name, content in FILES.items():
        _ends_add_nothing(name, range(rounds % step, len(content), step))


def _ends_add_nothing(name: str, ends: range) -> None:
    whole = facts_of(name, FILES[name])
    singles, sums = set(numbers(whole)), totals(whole)
    for end in ends:
        # The reader of lines drops a line that is cut by the end of the file, which these files do not.
        part = FILES[name][:end]
        content = part[: part.rfind("\n") + 1] if name.endswith(("csv", "txt")) else part
        facts = facts_or_none(name, content)
        if facts is None:
            continue
        assert all(value <= sums[key] for key, value in totals(facts).items()), content
        # With fewer runs the union is shorter, and with fewer rows the last row is not their mean.
        is_of_runs = whole.format == "ascend-runs"
        if not (is_of_runs or any(step.is_mean for device in whole.devices for step in device.steps)):
            assert {number for number in numbers(facts) if number[1]} <= singles, content


def facts_or_none(name: str, content: str | bytes) -> Facts | None:
    try:
        return facts_of_text(name, content)
    except NotReadError:
        return None


@by_effort
def test_flipped_bytes_never_raise(step: int, rounds: int) -> None:
    dice = random.Random(step)
    for name, whole in FILES.items():
        for _ in range(rounds):
            content = bytearray(whole.encode())
            for _ in range(dice.randint(1, 6)):
                content[dice.randrange(len(content))] = dice.choice(b'\x00\xff"\n,{}-09eN.')
            facts = facts_or_none(name, bytes(content))
            assert all(0 <= value < 10**21 for _, value in (numbers(facts) if facts else ()))


@pytest.mark.parametrize("word", ["NaN", "-5", "1e999", "", "N/A", "9" * 30, "0x10", "1,5"])
def test_invalid_times_are_not_read(word: str) -> None:
    for name in (name for name in FILES if name.endswith("csv")):
        heading, *rows = csv.reader(io.StringIO(FILES[name]))
        for column in range(len(heading)):
            damaged = [[word if at == column else cell for at, cell in enumerate(row)] for row in rows]
            written = io.StringIO()
            csv.writer(written).writerows([heading, *damaged])
            facts = facts_of_text(name, written.getvalue())
            if facts is not None:
                assert all(0 <= value < 10**19 for _, value in numbers(facts))
                assert all(0 <= value < 10**20 for value in totals(facts).values())


def test_damaged_rows_are_counted() -> None:
    content = FILES["hccl_raw_6.csv"] + "2,1\n3,x,y,z,w\n"
    (problem,) = facts_of("hccl_raw_6.csv", content).problems
    assert problem.text == "3 ignored: damaged"


def test_a_cell_of_a_megabyte_keeps_its_row() -> None:
    long = json.dumps({f"stream_41_{number}_AllReduce-op{number}": ["1", 0.1, 0.2, {}] for number in range(10_000)})
    written = io.StringIO()
    csv.writer(written).writerow(["1", "2.5", "20.25", '{"0-1": {"SDMA": [2.5, 1300.5, 9]}}', long])
    heading = FILES["hccl_raw_6.csv"].splitlines()[0]
    facts = facts_of("hccl_raw_6.csv", f"{heading}\n{written.getvalue()}")
    assert (facts.problems, facts.devices[0].steps[0].split.wait_ns) == ((), 20_250_000)
    assert (facts.links[0].bytes_moved, facts.links[0].busy_ns) == (1_300_500, 2_500_000)


def test_a_rank_table_of_thousands_is_recognised() -> None:
    devices = [{"device_id": str(rank % 8), "device_ip": HIDDEN, "rank_id": str(rank)} for rank in range(4096)]
    facts = facts_of(
        "hccl.json", json.dumps({"server_count": "1", "server_list": [{"server_id": "a", "device": devices}]})
    )
    assert (facts.job_ranks, len(facts.rank_cards)) == (4096, 4096)


@pytest.mark.parametrize(
    ("name", "content"),
    [("timeline_summary_20260101.json", '{"total_time": 7}'), ("aicore_0_type.csv", "kind,share\nMatMul,89\n")],
)
def test_files_that_repeat_others_are_recognised_and_not_needed(name: str, content: str) -> None:
    facts = facts_of(name, content)
    assert (facts.devices, facts.calls, facts.problems) == ((), (), ())


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mindspore_tables, "MAX_NAMES", 50)
    rows = "\n".join(f"op{number},1.5" for number in range(55))
    (device,) = facts_of("aicore_intermediate_1_detail.csv", f"full_op_name,execution_time\n{rows}\n").devices
    assert len(device.kernels) == 51
    assert device.kernels[0].name == OTHERS
    assert sum(kernel.calls for kernel in device.kernels) == 55
