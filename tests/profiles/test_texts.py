"""Tables in csv and text: the facts of made tables, and of damaged tables."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from profiles.facts_text import of_facts
from profiles.traces import profile_captures
from telemetry_profile.files.read_files import ProfileFile, read_file
from telemetry_profile.format_contract import Facts, FileSample, TextFormat
from telemetry_profile.formats import hipprof, nvidia_csv, rocprof_csv
from telemetry_profile.verdict.combine import FileFacts, combine

FORMATS: tuple[TextFormat, ...] = (
    nvidia_csv.NCU,
    nvidia_csv.NSYS,
    nvidia_csv.NVPROF,
    rocprof_csv.TOP_KERNELS,
    hipprof.COUNTERS,
    rocprof_csv.RUNS,
    rocprof_csv.SUMS,
)


def read(text: str, name: str = "x.csv") -> Facts | None:
    file = FileSample(name, (), text.encode())
    fitting = next((text_format for text_format in FORMATS if text_format.recognises(file)), None)
    return None if fitting is None else fitting.read(file, text.splitlines())


NSYS = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
SUMS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
SUMS3 = '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
NVPROF = "Time(%),Time,Calls,Avg,Min,Max,Name\n"
NCU = '"ID","Process ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"\n'
RUNS = '"Kind","Agent_Id","Queue_Id","Dispatch_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n'


def ncu(*durations: tuple[str, str]) -> str:
    """Return a csv of Nsight Compute with a kernel for each duration, a value and its unit."""
    rows = (
        f'"{number}","1","k{number}","(1, 1, 1)","(1, 1, 1)","gpu__time_duration.sum","{unit}","{value}"\n'
        for number, (value, unit) in enumerate(durations)
    )
    return NCU + "".join(rows)


# Made tables, whose facts are in `texts.txt`.
MEANT: dict[str, str] = {
    "a kernel in two grids is one kernel": (
        NSYS + ",GridXYZ,BlockXYZ,Name\n60.0,600,2,300,300,300,300,0,   1    1    1, 128    1    1,k\n"
        "40.0,400,2,200,200,200,200,0,   2    1    1, 128    1    1,k\n"
    ),
    "a function of the host among kernels": (
        NSYS + ",Category,Operation\n50.0,600,2,300,300,300,300,0,CUDA_API,cudaMalloc\n"
        "30.0,400,2,200,200,200,200,0,CUDA_KERNEL,k\n20.0,200,2,100,100,100,100,0,MEMORY_OPER,anything\n"
    ),
    "copies as nsys of 2020 counts them": (
        "Time(%),Total Time (ns),Operations,Average,Minimum,Maximum,Operation\n100.0,500,5,100,90,110,[CUDA memcpy HtoD]\n"
    ),
    "sizes of copies are no times": (
        NSYS + ",Name\n100.0,500,5,100,100,100,100,0,k\n\n"
        "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n5.0,5,1.0,1.0,1.0,1.0,0.0,[CUDA memcpy HtoD]\n"
    ),
    "memory that is allocated on a device": (
        '"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 4",1024,"0x01",1,1000,2000\n'
    ),
    "copies of rocprofv3": (SUMS3 + '"MEMORY_COPY_HOST_TO_DEVICE",2,200,100.0,100.00,90,110,1.0\n'),
    "domains of rocprofv3": (
        SUMS3 + '"KERNEL_DISPATCH",2,200,100.0,50.00,90,110,1.0\n"HIP_RUNTIME_API_EXT",2,200,100.0,50.00,90,110,1.0\n'
    ),
    "kernels that look like functions of the host": (
        SUMS + '"SAXPY",2,200,100,50.0\n"ncclDevKernel_Generic_4",2,200,100,25.0\n"ncclAllReduce",1,100,100,25.0\n'
    ),
    "a name that is cut within its brackets": (SUMS + "k<4, 5, 6, 7, 8"),
    "names with commas and without quotes": (SUMS + "k<4, 5>(int, int),2,200,100,100.0\n"),
    "a total that is not calls times their mean": (SUMS + '"k",2,900,100,100.0\n"l",2,200,100,50.0\n'),
    "means without their decimals": (SUMS + '"k",1000,1999,1,100.0\n'),
    "decimal commas of nvprof": (NVPROF + '"100,00%","12,052ms",1,"12,052ms","12,052ms","12,052ms",k\n'),
    "unified memory of nvprof": (
        '"Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time","Name"\n,,KB,KB,KB,MB,us,\n\n'
        + NVPROF
        + "100.00%,1.0us,1,1.0us,1.0us,1.0us,k\n"
    ),
    "a row that is garbled": (
        RUNS
        + '"KERNEL_DISPATCH","Agent 4",1,1,"k",1000,2000\n"KERNEL_DISPATCH","Agent 4",1,2,"k\n"KERNEL_DISPATCH","Agent 4",1,3,"k",3000,4000\n'
    ),
    "a blank line below the headings": (
        "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID\n\n"
        '1,0,1,2,2,64,64,"k",1000,2000,0\n'
    ),
    "microseconds that may be thousands": (ncu(("117,344", "usecond"))),
    "microseconds that may be thousands with a point": (ncu(("117.344", "usecond"))),
    "another number shows the sign of decimals": (ncu(("117,344", "usecond"), ("1,5", "usecond"))),
    "another number shows that commas divide thousands": (ncu(("117,344", "usecond"), ("1.5", "usecond"))),
    "nanoseconds are whole": (ncu(("1,000", "nsecond"), ("12,345,678", "ns"))),
}
MARKERS = ("7_marker_api_stats.csv", SUMS3 + '"forward pass",2,200,100.0,100.00,90,110,1.0\n')


def test_made_up_texts_have_the_expected_facts(assert_golden: Callable[[Path, str], None]) -> None:
    named = {**{name: ("x.csv", text) for name, text in MEANT.items()}, "a name that tells whose rows it has": MARKERS}
    texts = []
    for what, (name, text) in named.items():
        facts = read(text, name)
        assert facts is not None, what
        texts.append("\n".join([what, *of_facts(facts, in_full=True), ""]))
    assert_golden(Path(__file__).parent / "texts.txt", "".join(texts))


def test_measured_value_is_not_replaced_by_an_estimate() -> None:
    """Nsight Compute prints both occupancies; the profile has that of the launch shape."""
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


def test_kernels_and_copies_of_one_run_are_combined() -> None:
    kernels = read(RUNS + '"KERNEL_DISPATCH","Agent 4",1,1,"k",1000,2000\n')
    copies = read(
        '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"MEMORY_COPY","HOST_TO_DEVICE","Agent 0","Agent 4",1,100,400\n'
    )
    assert kernels is not None
    assert copies is not None
    (member,) = combine([FileFacts((), "a", kernels), FileFacts((), "b", copies)]).members
    assert {(kernel.work, kernel.total_ns) for kernel in member.device.kernels} == {("compute", 1000), ("copy", 300)}


def real_texts() -> list[Path]:
    folder = profile_captures()
    tools = ("hipprof", "nvprof", "rocprof", "rocprofv3", "rocprof_compute")
    return [] if folder is None else [path for tool in tools for path in sorted((folder / tool).rglob("*.csv"))]


def texts() -> Iterator[str]:
    yield from MEANT.values()
    yield from (path.read_text()[:4000].rpartition("\n")[0] + "\n" for path in real_texts())


WHOLE = tuple(texts())
few = settings(max_examples=80, deadline=None)


@few
@given(number=st.integers(0, len(WHOLE) - 1), share=st.floats(0, 1))
@example(number=8, share=0.9)
def test_truncated_text_has_a_subset_of_the_facts(number: int, share: float) -> None:
    whole = WHOLE[number]
    cut = read(whole[: int(len(whole) * share)])
    if cut is None:
        return
    facts = read(whole)
    assert facts is not None
    most = [kernel for device in facts.devices for kernel in device.kernels]
    for kernel in (kernel for device in cut.devices for kernel in device.kernels):
        # A name may be cut if it is the last word of its row.
        wider = [other for other in most if other.name.startswith(kernel.name)]
        assert any(kernel.calls <= other.calls and kernel.total_ns <= other.total_ns for other in wider), (
            kernel,
            most,
        )


@few
@given(
    number=st.integers(0, len(WHOLE) - 1),
    flips=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_a_text_with_other_bytes_raises_nothing(number: int, flips: list[tuple[float, int]]) -> None:
    data = bytearray(WHOLE[number].encode())
    for share, byte in flips:
        data[int(share * len(data))] = byte
    facts = read(data.decode("utf-8", "replace"))
    assert facts is None or all(
        kernel.total_ns >= 0 and kernel.calls >= 0 for device in facts.devices for kernel in device.kernels
    )


def test_unknown_columns_are_not_shown() -> None:
    """A secret in a further column of each row is in no facts."""
    for text in MEANT.values():
        lines = [
            f'{line},"{"Hostname" if not number else "s3cret"}"'
            for number, line in enumerate(text.splitlines())
            if line
        ]
        assert "s3cret" not in repr(read("\n".join(lines) + "\n"))


def test_a_packed_text_that_is_cut_loses_its_torn_line(tmp_path: Path) -> None:
    rows = "".join(
        f'"KERNEL_DISPATCH","Agent 4",1,{number},"k{number}",{number}000,{number}900\n' for number in range(1, 3000)
    )
    packed = gzip.compress((RUNS + rows).encode())
    for end in range(len(packed) // 2, len(packed) // 2 + 12):
        file = tmp_path / "trace.csv.gz"
        file.write_bytes(packed[:end])
        outcome = read_file(ProfileFile(str(file), (), is_named=True), FORMATS)
        assert outcome.facts is not None
        assert {kernel.total_ns for device in outcome.facts.devices for kernel in device.kernels} == {900}
        assert any("truncated" in problem.text for problem in outcome.facts.problems)
        assert not any("have no times" in problem.text for problem in outcome.facts.problems)
