"""Steps of Ascend cards: step_trace_time.csv of a rank, msprof-analyze's cluster_step_trace_time.csv of all, and msprof's step_trace_TIME.csv."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from telemetry_profile.contract import Clue, TextFormat
from telemetry_profile.facts.file_facts import Card, Device, Facts, Split, Step
from telemetry_profile.facts.headed_tables import Rows, count_of, decimal_ns, first_cells, number_of
from telemetry_profile.facts.printed_times import US

_TOOL = "Ascend profiler"
_COLUMNS = {"Step", "Computing", "Communication", "Free"}
_EXPOSED = "Communication(Not Overlapped)"
_ITERATION, _LENGTH = "Iteration ID", "Iteration Time(us)"
_WAIT = "Data Aug Bound(us)"  # from the end of the iteration before to the begin of this one


def _recognises(clue: Clue) -> bool:
    return set(first_cells(clue.text)) >= _COLUMNS


@dataclass(slots=True)
class _Rank:
    whole: Split = field(default_factory=Split)
    steps: list[Step] = field(default_factory=list)


def _read(clue: Clue, lines: Iterable[str]) -> Facts:
    del clue
    rows = Rows(lines, lambda cells: set(cells) >= _COLUMNS)
    ranks: dict[tuple[int | None, int | None], _Rank] = {}
    for row in rows:
        if row.get("Type", "rank") != "rank":  # a stage is a group of ranks that have rows of their own
            continue
        split = _split(row)
        step = row["Step"]
        if split is None or (step and count_of(step) is None):
            rows.bad()
            continue
        found = ranks.setdefault((number_of(row.get("Index", "")), number_of(row.get("Device_id", ""))), _Rank())
        if step:
            found.steps.append(Step(f"step {step}", split))
        else:
            found.whole = split
    devices = tuple(
        Device(Card(index), rank, split=one.whole, steps=tuple(one.steps)) for (rank, index), one in ranks.items()
    )
    size = len({device.rank for device in devices if device.rank is not None})
    return Facts("ascend-steps", _TOOL, ranks=size or None, devices=devices, problems=rows.problems())


def _split(row: Mapping[str, str]) -> Split | None:
    compute, communication, free = (decimal_ns(row[column], US) for column in ("Computing", "Communication", "Free"))
    if compute is None or communication is None or free is None:
        return None
    exposed = decimal_ns(row.get(_EXPOSED, ""), US)
    span = None if exposed is None else compute + exposed + free
    return Split(span, compute, communication, exposed, idle_ns=free)


def _recognises_iterations(clue: Clue) -> bool:
    return {_ITERATION, _LENGTH} <= set(first_cells(clue.text))


def _read_iterations(clue: Clue, lines: Iterable[str]) -> Facts:
    """Each iteration of each device, from the end of the one before where the wait for data lies between."""
    del clue
    rows = Rows(lines, lambda cells: {_ITERATION, _LENGTH} <= set(cells))
    devices: dict[int | None, list[Step]] = {}
    for row in rows:
        length = decimal_ns(row[_LENGTH], US)
        if length is None or number_of(row[_ITERATION]) is None:
            rows.bad()
            continue
        wait = decimal_ns(row.get(_WAIT, ""), US)
        step = Step(f"Iteration {row[_ITERATION]}", Split(span_ns=length + (wait or 0), data_wait_ns=wait))
        devices.setdefault(number_of(row.get("Device_id", "")), []).append(step)
    return Facts(
        "ascend-iteration-table",
        _TOOL,
        devices=tuple(Device(Card(index), steps=tuple(steps)) for index, steps in devices.items()),
        problems=rows.problems(),
    )


FORMAT = TextFormat("ascend-steps", _TOOL, _recognises, _read)
ITERATIONS = TextFormat(
    "ascend-iteration-table",
    _TOOL,
    _recognises_iterations,
    _read_iterations,
)
