"""Tables in csv and text: what made-up ones mean, and what damaged ones cannot say."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kits.traces import profile_captures
from telemetry_daemon.profiling.folders import Found
from telemetry_daemon.profiling.reading import read_one
from telemetry_parsers.profiles.combine import ReadFile, combine
from telemetry_parsers.profiles.contract import Clue, TextFormat
from telemetry_parsers.profiles.facts import Facts
from telemetry_parsers.profiles.formats import (
    hipprof_pmc,
    ncu_csv,
    nsys_stats,
    nvprof_csv,
    rocprof_compute,
    runs_csv,
    sums_csv,
)

FORMATS: tuple[TextFormat, ...] = (
    ncu_csv.FORMAT,
    nsys_stats.FORMAT,
    nvprof_csv.FORMAT,
    rocprof_compute.FORMAT,
    hipprof_pmc.FORMAT,
    runs_csv.FORMAT,
    sums_csv.FORMAT,
)
# Name, work, calls, nanoseconds of a kernel; name, calls, nanoseconds of what the host did.
Told = tuple[tuple[tuple[str, str, int, int], ...], tuple[tuple[str, int, int], ...]]


def read(text: str, name: str = "x.csv") -> Facts | None:
    clue = Clue(name, (), text.encode())
    fitting = next((one for one in FORMATS if one.recognises(clue)), None)
    return None if fitting is None else fitting.read(clue, text.splitlines())


def told(facts: Facts | None) -> Told:
    assert facts is not None
    kernels = sorted(
        (one.name, one.work, one.calls, one.total_ns) for device in facts.devices for one in device.kernels
    )
    calls = sorted((one.name, one.calls, one.total_ns) for one in facts.calls)
    return tuple(kernels), tuple(calls)  # type: ignore[return-value]  # sorted lists of the same


NSYS = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
SUMS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
SUMS3 = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
NVPROF = "Time(%),Time,Calls,Avg,Min,Max,Name\n"
NCU = '"ID","Process ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"\n'
RUNS = '"Kind","Agent_Id","Queue_Id","Dispatch_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n'


def ncu(*durations: tuple[str, str]) -> str:
    """A kernel for each duration, as value and unit."""
    rows = (
        f'"{place}","1","k{place}","(1, 1, 1)","(1, 1, 1)","gpu__time_duration.sum","{unit}","{value}"\n'
        for place, (value, unit) in enumerate(durations)
    )
    return NCU + "".join(rows)


# Of each: the text, its kernels, what the host did, and whether something is left out and said.
MEANT: dict[str, tuple[str, Told, bool]] = {
    "a kernel in two grids is one kernel": (
        NSYS + ",GridXYZ,BlockXYZ,Name\n60.0,600,2,300,300,300,300,0,   1    1    1, 128    1    1,k\n"
        "40.0,400,2,200,200,200,200,0,   2    1    1, 128    1    1,k\n",
        ((("k", "compute", 4, 1000),), ()),
        False,
    ),
    "a function of the host among kernels": (
        NSYS + ",Category,Operation\n50.0,600,2,300,300,300,300,0,CUDA_API,cudaMalloc\n"
        "30.0,400,2,200,200,200,200,0,CUDA_KERNEL,k\n20.0,200,2,100,100,100,100,0,MEMORY_OPER,anything\n",
        ((("anything", "copy", 2, 200), ("k", "compute", 2, 400)), (("cudaMalloc", 2, 600),)),
        False,
    ),
    "copies as nsys of 2020 counts them": (
        "Time(%),Total Time (ns),Operations,Average,Minimum,Maximum,Operation\n100.0,500,5,100,90,110,[CUDA memcpy HtoD]\n",
        ((("[CUDA memcpy HtoD]", "copy", 5, 500),), ()),
        False,
    ),
    "sizes of copies are no times": (
        NSYS + ",Name\n100.0,500,5,100,100,100,100,0,k\n\n"
        "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n5.0,5,1.0,1.0,1.0,1.0,0.0,[CUDA memcpy HtoD]\n",
        ((("k", "compute", 5, 500),), ()),
        False,
    ),
    "memory that is allocated on a device": (
        (
        '"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 4",1024,"0x01",1,1000,2000\n'
        ),
        ((), (("MEMORY_ALLOCATION_ALLOCATE", 1, 1000),)),
        False,
    ),
    "copies of rocprofv3": (
        SUMS3 + '"MEMORY_COPY_HOST_TO_DEVICE",2,200,100.0,100.00,90,110,1.0\n',
        ((("MEMORY_COPY_HOST_TO_DEVICE", "copy", 2, 200),), ()),
        False,
    ),
    "domains of rocprofv3": (
        SUMS3 + '"KERNEL_DISPATCH",2,200,100.0,50.00,90,110,1.0\n"HIP_RUNTIME_API_EXT",2,200,100.0,50.00,90,110,1.0\n',
        ((("KERNEL_DISPATCH", "compute", 2, 200),), (("HIP_RUNTIME_API_EXT", 2, 200),)),
        False,
    ),
    "kernels that look like functions of the host": (
        SUMS + '"SAXPY",2,200,100,50.0\n"ncclDevKernel_Generic_4",2,200,100,25.0\n"ncclAllReduce",1,100,100,25.0\n',
        (
            (("SAXPY", "compute", 2, 200), ("ncclDevKernel_Generic_4", "communication", 2, 200)),
            (("ncclAllReduce", 1, 100),),
        ),
        False,
    ),
    "a name that is cut within its brackets": (SUMS + "k<4, 5, 6, 7, 8", ((), ()), True),
    "names with commas and without quotes": (SUMS + "k<4, 5>(int, int),2,200,100,100.0\n", ((("k<4, 5>(int, int)", "compute", 2, 200),), ()), False),
    "a total that is not calls times their mean": (SUMS + '"k",2,900,100,100.0\n"l",2,200,100,50.0\n', ((("l", "compute", 2, 200),), ()), True),
    "means without their decimals": (SUMS + '"k",1000,1999,1,100.0\n', ((("k", "compute", 1000, 1999),), ()), False),
    "decimal commas of nvprof": (
        NVPROF + '"100,00%","12,052ms",1,"12,052ms","12,052ms","12,052ms",k\n', ((("k", "compute", 1, 12_052_000),), ()), False
    ),
    "unified memory of nvprof": (
        '"Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time","Name"\n,,KB,KB,KB,MB,us,\n\n'
        + NVPROF
        + "100.00%,1.0us,1,1.0us,1.0us,1.0us,k\n",
        ((("k", "compute", 1, 1000),), ()),
        False,
    ),
    "a row that is garbled": (
        RUNS + '"KERNEL_DISPATCH","Agent 4",1,1,"k",1000,2000\n"KERNEL_DISPATCH","Agent 4",1,2,"k\n"KERNEL_DISPATCH","Agent 4",1,3,"k",3000,4000\n',
        ((("k", "compute", 2, 2000),), ()),
        True,
    ),
    "a blank line below the headings": (
        (
        "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID\n\n"
        '1,0,1,2,2,64,64,"k",1000,2000,0\n'
        ),
        ((("k", "compute", 1, 1000),), ()),
        False,
    ),
    "microseconds that may be thousands": (ncu(("117,344", "usecond")), ((), ()), True),
    "microseconds that may be thousands with a point": (ncu(("117.344", "usecond")), ((), ()), True),
    "another number shows the sign of decimals": (
        ncu(("117,344", "usecond"), ("1,5", "usecond")), ((("k0", "compute", 1, 117_344), ("k1", "compute", 1, 1500)), ()), False
    ),
    "another number shows that commas divide thousands": (
        ncu(("117,344", "usecond"), ("1.5", "usecond")), ((("k0", "compute", 1, 117_344_000), ("k1", "compute", 1, 1500)), ()), False
    ),
    "nanoseconds are whole": (ncu(("1,000", "nsecond"), ("12,345,678", "ns")), ((("k0", "compute", 1, 1000), ("k1", "compute", 1, 12_345_678)), ()), False),
}  # fmt: skip


@pytest.mark.parametrize("what", MEANT)
def test_a_table_says_what_it_means(what: str) -> None:
    text, expected, is_left_out = MEANT[what]
    facts = read(text)
    assert told(facts) == expected
    assert facts is not None
    assert bool(facts.problems) == is_left_out


def test_a_file_that_has_its_name_tells_whose_rows_it_has() -> None:
    text = SUMS3 + '"forward pass",2,200,100.0,100.00,90,110,1.0\n'
    assert told(read(text, "7_marker_api_stats.csv")) == ((), (("forward pass", 2, 200),))


def test_what_was_measured_is_no_estimate() -> None:
    """Nsight Compute tells both occupancies; ours is that of the launch shape."""
    row = '"0","1","k","(1, 1, 1)","(1, 1, 1)","{}","{}","{}"\n'
    text = NCU + "".join(
        row.format(*cells)
        for cells in (
            ("gpu__time_duration.sum", "ns", "1000"),
            ("Achieved Occupancy", "%", "12.5"),
            ("Theoretical Occupancy", "%", "50.0"),
        )
    )
    facts = read(text)
    assert facts is not None
    assert facts.devices[0].kernels[0].occupancy_ratio == 0.5


def test_kernels_and_copies_of_one_run_stand_together() -> None:
    kernels = read(RUNS + '"KERNEL_DISPATCH","Agent 4",1,1,"k",1000,2000\n')
    copies = read(
        '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"MEMORY_COPY","HOST_TO_DEVICE","Agent 0","Agent 4",1,100,400\n'
    )
    assert kernels is not None
    assert copies is not None
    (member,) = combine([ReadFile((), "a", kernels), ReadFile((), "b", copies)]).members
    assert {(one.work, one.total_ns) for one in member.device.kernels} == {("compute", 1000), ("copy", 300)}


def real_texts() -> list[Path]:
    folder = profile_captures()
    tools = ("hipprof", "nvprof", "rocprof", "rocprofv3", "rocprof_compute")
    return [] if folder is None else [path for tool in tools for path in sorted((folder / tool).rglob("*.csv"))]


def texts() -> Iterator[str]:
    yield from (text for text, _, _ in MEANT.values())
    yield from (path.read_text()[:4000].rpartition("\n")[0] + "\n" for path in real_texts())


WHOLE = tuple(texts())
few = settings(max_examples=80, deadline=None)


@few
@given(place=st.integers(0, len(WHOLE) - 1), share=st.floats(0, 1))
@example(place=8, share=0.9)
def test_a_text_that_is_cut_says_nothing_that_the_whole_does_not(place: int, share: float) -> None:
    whole = WHOLE[place]
    cut = read(whole[: int(len(whole) * share)])
    if cut is None:
        return
    most = {name: (calls, total) for name, _, calls, total in told(read(whole))[0]}
    for name, _, calls, total in told(cut)[0]:
        # A name may be cut where it is the last word of its row.
        known = [numbers for other, numbers in most.items() if other.startswith(name)]
        assert any(calls <= other[0] and total <= other[1] for other in known), (name, calls, total, most)


@few
@given(
    place=st.integers(0, len(WHOLE) - 1),
    flips=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_a_text_with_other_bytes_raises_nothing(place: int, flips: list[tuple[float, int]]) -> None:
    data = bytearray(WHOLE[place].encode())
    for share, byte in flips:
        data[int(share * len(data))] = byte
    facts = read(data.decode("utf-8", "replace"))
    assert facts is None or all(
        one.total_ns >= 0 and one.calls >= 0 for device in facts.devices for one in device.kernels
    )


def test_columns_that_nobody_asked_for_go_nowhere() -> None:
    """A secret in a further column of each row is in nothing that comes out."""
    for text, _, _ in MEANT.values():
        lines = [
            f'{line},"{"Hostname" if not place else "s3cret"}"' for place, line in enumerate(text.splitlines()) if line
        ]
        assert "s3cret" not in repr(read("\n".join(lines) + "\n"))


def test_a_packed_text_that_is_cut_loses_its_torn_line(tmp_path: Path) -> None:
    rows = "".join(
        f'"KERNEL_DISPATCH","Agent 4",1,{place},"k{place}",{place}000,{place}900\n' for place in range(1, 3000)
    )
    packed = gzip.compress((RUNS + rows).encode())
    for end in range(len(packed) // 2, len(packed) // 2 + 12):
        file = tmp_path / "trace.csv.gz"
        file.write_bytes(packed[:end])
        outcome = read_one(Found(str(file), (), is_named=True), FORMATS)
        assert outcome.facts is not None
        assert {one.total_ns for device in outcome.facts.devices for one in device.kernels} == {900}
        assert any("cut off" in problem.text for problem in outcome.facts.problems)
        assert not any("have no times" in problem.text for problem in outcome.facts.problems)
