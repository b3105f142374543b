"""Each process once, with its kind and its utilization since the previous poll: from the fake library to the report."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kits.fake_nvml.library import NO_PERMISSION, NOT_SUPPORTED, FakeNvml, Process
from kits.fake_nvml.reader import Bench, reading

pytestmark = pytest.mark.needs("cc")
CALL = "nvmlDeviceGetProcessUtilization"


def used(bench: Bench, *samples: str) -> dict[int, float | None]:
    """Return the ratio of each process of the first GPU at a poll after the driver took these samples."""
    if samples:
        bench.fake.set_answer(0, CALL, *samples)
    return {
        process.pid: process.utilization_ratio for process in bench.report("processes").processes if process.device == 0
    }


@pytest.fixture
def two(bench: Bench) -> Bench:
    """Start two processes on the first GPU, and poll once."""
    bench.fake.processes(0, [Process(71, 1 << 20), Process(72, 1 << 20)])
    assert used(bench, "71:50:0:0:0:5000000", "72:50:0:0:0:5000000") == {71: None, 72: None}
    return bench


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (["71:90:0:0:0:0", "72:10:0:0:0:0"], {71: 0.9, 72: 0.1}),
        (["71:30:0:0:0:1000", "71:90:0:0:0:0"], {71: 0.9, 72: 0.0}),
        (["71:0:0:0:0:0"], {71: 0.0, 72: 0.0}),
        # Impossible percentages.
        (["71:101:0:0:0:0", "72:10:0:0:0:0"], {71: None, 72: 0.1}),
        (["71:-:0:0:0:0"], {71: None, 72: 0.0}),
        # Samples of the previous poll: neither process has run since.
        (["71:90:0:0:0:60000000"], {71: 0.0, 72: 0.0}),
        # A sample of a process that has ended; another process may have its pid now.
        (["999:90:0:0:0:0"], {71: None, 72: None}),
        (["71:40:0:0:0:0", "999:90:0:0:0:0"], {71: 0.4, 72: None}),
    ],
)
def test_a_process_has_the_ratio_of_its_newest_sample(
    two: Bench, samples: Sequence[str], expected: dict[int, float | None]
) -> None:
    assert used(two, *samples) == expected


def test_ratio_is_unknown_without_samples(bench: Bench) -> None:
    bench.fake.processes(0, [Process(71, 1)])
    bench.fake.set_answer(0, CALL)
    assert [used(bench) for _ in range(2)] == [{71: None}] * 2


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, 999])
def test_error_affects_the_ratio_only(two: Bench, code: int) -> None:
    two.fake.fail(CALL, code, 0)
    report = two.report("processes")
    assert [process.utilization_ratio for process in report.processes if process.device == 0] == [None, None]
    assert not report.problems


def test_instances_have_no_ratio_but_their_number(tmp_path: Path) -> None:
    fake = FakeNvml(tmp_path, "a100-mig")
    with reading(fake) as bench:
        fake.processes("0/0", [Process(71, 1 << 20, 1, 0)])
        report = bench.report("processes")
        assert [
            (process.pid, process.instance, process.utilization_ratio)
            for process in report.processes
            if process.pid == 71
        ] == [(71, "1", None)]
        assert fake.calls(CALL, 0) == 0


def test_process_in_several_lists_has_the_most_specific_kind(bench: Bench) -> None:
    bench.fake.processes(0, [Process(71, 5), Process(72, None), Process(73, 7), Process(75, None)])
    bench.fake.processes(0, [Process(71, 5), Process(74, 4)], "Graphics")
    bench.fake.processes(0, [Process(72, 6)], "MPSCompute")
    report = bench.report("processes")
    found = [process for process in report.processes if process.device == 0]
    assert report.problems == ()
    assert [(process.pid, process.kind, process.memory_used_bytes) for process in found] == [
        (71, "compute", 5.0), (72, "mps", 6.0), (73, "compute", 7.0), (75, "compute", None), (74, "graphics", 4.0),
    ]  # fmt: skip
