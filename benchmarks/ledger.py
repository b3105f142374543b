"""Measure the cost of the ledger of owners: for each poll with new values, each page, each minute, and its memory.

python benchmarks/ledger.py [--quick]
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from side_by_side import processes, tables
from side_by_side.options import QUICK, extent

from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.ledger import Ledger
from telemetry_daemon.state.ledger_file import encode_ledger
from telemetry_parsers.model import MergedDevice, MergedReading
from telemetry_parsers.ownership import Allocation, Owner
from telemetry_parsers.readings import Origin, Readings

_INTERVAL = 2.0
_PAGE_EVERY, _SAVED_EVERY = 5, 30
_POLLS = 300
_READINGS = {
    "utilization_ratio": 0.7,
    "power_watts": 500.0,
    "temperature_celsius": 60.0,
    "memory_used_bytes": 6e10,
    "memory_used_ratio": 0.7,
    "throttled": 0.0,
}


def main() -> None:
    """Print the tables."""
    cards = (8, 128) if extent(__doc__ or "") == QUICK else (8, 16, 128)
    tables.print_machine()
    tables.print_table(
        (
            "cards, each of two jobs",
            "accumulator, µs a poll",
            "ledger, µs a poll",
            "nothing new, µs",
            "page, µs",
            "save, ms",
            "RSS, MiB",
        ),
        [in_child(partial(row, count)) for count in cards],
    )


def in_child(life: Callable[[], Sequence[str]]) -> Sequence[str]:
    """Return the result of `life` in a new process, where no memory was freed before."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(life).result()


@dataclass
class Durations:
    """The seconds spent on each kind of work, by its name."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def on(self, kind: str, work: Callable[[], object]) -> None:
        """Do the work and record its duration."""
        begun = time.perf_counter()
        work()
        self.seconds.setdefault(kind, []).append(time.perf_counter() - begun)

    def typical(self, kind: str) -> float:
        """Return the median duration."""
        return sorted(self.seconds[kind])[len(self.seconds[kind]) // 2]


def row(cards: int) -> Sequence[str]:
    """Return a row of the table."""
    devices = [owned(number) for number in range(cards)]
    ledger = Ledger("bench")
    alone, billed, durations = Accumulator(), Accumulator(ledger=ledger), Durations()
    gc.collect()
    before = processes.memory(os.getpid()).first
    for number in range(_POLLS):
        now = number * _INTERVAL
        fresh = [read(device, now) for device in devices]
        update = partial(ledger.update, fresh, now, 1.7e9 + now)
        durations.on("alone", partial(alone.integrate, fresh))
        durations.on("new", lambda fresh=fresh, update=update: (billed.integrate(fresh), update()))
        durations.on("nothing", update)
        if number % _PAGE_EVERY == 0:
            durations.on("page", lambda fresh=fresh: [ledger.with_totals(device) for device in fresh])
        if number % _SAVED_EVERY == 0:
            durations.on("save", lambda: encode_ledger(saved) if (saved := ledger.state_to_save()) else "")
    gc.collect()
    more = processes.memory(os.getpid()).first - before
    alone_seconds = durations.typical("alone")
    microseconds = (
        alone_seconds,
        durations.typical("new") - alone_seconds,
        durations.typical("nothing"),
        durations.typical("page"),
    )
    return (
        f"{cards}",
        *(f"{seconds * 1e6:,.0f}" for seconds in microseconds),
        f"{durations.typical('save') * 1e3:.1f}",
        f"{more:.1f}",
    )


def owned(number: int) -> MergedDevice:
    """Return a card that two jobs share."""
    readings = tuple(MergedReading(metric, "", value, "nvml") for metric, value in _READINGS.items())
    jobs = [Owner("job", str(name), job_id=str(name), user="user") for name in (number, number + 1)]
    allocations = tuple(Allocation(job, 0.5, "equal", is_allocated=True, is_used=True) for job in jobs)
    return MergedDevice(
        "nvidia", number, f"GPU-{number}", f"{number}", "H100", readings=Readings.of(readings), allocations=allocations
    )


def read(device: MergedDevice, now: float) -> MergedDevice:
    """Return the same card with the values of this time."""
    before = Readings.of(device.readings)
    return replace(device, readings=Readings(before.shape, before.values, (Origin("nvml", now, _INTERVAL),)))


if __name__ == "__main__":
    main()
