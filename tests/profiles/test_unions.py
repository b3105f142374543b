"""Splits are unions of intervals, whatever the order in which a file has them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry_parsers.profiles.timeline import Timeline

RUNS = st.lists(
    st.tuples(st.sampled_from(["compute", "communication", "copy"]), st.integers(0, 60), st.integers(0, 20))
)


@given(RUNS, st.integers(0, 60), st.integers(0, 40), st.booleans())
def test_a_split_is_what_a_raster_of_the_same_intervals_counts(
    runs: list[tuple[str, int, int]], step_begin: int, step_length: int, in_order: bool
) -> None:
    timeline = Timeline()
    for work, begin, length in sorted(runs, key=lambda run: run[1]) if in_order else runs:
        timeline.add(0, work, begin, length, "any")  # type: ignore[arg-type]  # one of the three kinds
    timeline.step("step 1", step_begin, step_length)
    cells = {
        work: {at for kind, begin, length in runs if kind == work for at in range(begin, begin + length)}
        for work in KINDS
    }
    for device in timeline.devices():
        for begin, length, split in (
            (device.begin_ns or 0, (device.end_ns or 0) - (device.begin_ns or 0), device.split),
            (step_begin, step_length, device.steps[0].split),
        ):
            compute, communication, copy = (cells[work] & set(range(begin, begin + length)) for work in KINDS)
            assert split.compute_ns == len(compute)
            assert split.communication_ns == len(communication)
            assert split.copy_ns == len(copy)
            assert split.exposed_communication_ns == len(communication - compute)
            assert split.exposed_copy_ns == len(copy - compute - communication)
            assert split.idle_ns == length - len(compute | communication | copy)
            assert (
                split.launches == sum(kind != "copy" and begin <= at < begin + length for kind, at, _ in runs)
                or not length
            )


KINDS = ("compute", "communication", "copy")
