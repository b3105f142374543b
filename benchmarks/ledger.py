"""Measure the cost of the ledger of owners: CPU time per poll, per page and per save, and memory.

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
from side_by_side.options import QUICK, parse_extent

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
    cards = (8, 128) if parse_extent(__doc__ or "") == QUICK else (8, 16, 128)
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
        [run_in_child(partial(row, count)) for count in cards],
    )


def run_in_child(work: Callable[[], Sequence[str]]) -> Sequence[str]:
    """Return the result of `work` in a new process, where no memory was freed before."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work).result()


@dataclass
class Durations:
    """The seconds spent on each kind of work, by its name."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    def measure(self, kind: str, work: Callable[[], object]) -> None:
        begin = time.perf_counter()
        work()
        self.seconds.setdefault(kind, []).append(time.perf_counter() - begin)

    def median(self, kind: str) -> float:
        return sorted(self.seconds[kind])[len(self.seconds[kind]) // 2]


def row(cards: int) -> Sequence[str]:
    devices = [shared_card(number) for number in range(cards)]
    ledger = Ledger("bench")
    alone, billed, durations = Accumulator(), Accumulator(ledger=ledger), Durations()
    gc.collect()
    before = processes.memory(os.getpid()).main_rss
    for number in range(_POLLS):
        now = number * _INTERVAL
        fresh = [with_current_readings(device, now) for device in devices]
        update = partial(ledger.update, fresh, now, 1.7e9 + now)
        durations.measure("alone", partial(alone.integrate, fresh))
        durations.measure("new", lambda fresh=fresh, update=update: (billed.integrate(fresh), update()))
        durations.measure("nothing", update)
        if number % _PAGE_EVERY == 0:
            durations.measure("page", lambda fresh=fresh: [ledger.with_totals(device) for device in fresh])
        if number % _SAVED_EVERY == 0:
            durations.measure("save", lambda: encode_ledger(saved) if (saved := ledger.state_to_save()) else "")
    gc.collect()
    added_mib = processes.memory(os.getpid()).main_rss - before
    alone_seconds = durations.median("alone")
    microseconds = (
        alone_seconds,
        durations.median("new") - alone_seconds,
        durations.median("nothing"),
        durations.median("page"),
    )
    return (
        f"{cards}",
        *(f"{seconds * 1e6:,.0f}" for seconds in microseconds),
        f"{durations.median('save') * 1e3:.1f}",
        f"{added_mib:.1f}",
    )


def shared_card(number: int) -> MergedDevice:
    readings = tuple(MergedReading(metric, "", value, "nvml") for metric, value in _READINGS.items())
    jobs = [Owner("job", str(name), job_id=str(name), user="user") for name in (number, number + 1)]
    allocations = tuple(Allocation(job, 0.5, "equal", is_allocated=True, is_used=True) for job in jobs)
    return MergedDevice(
        "nvidia", number, f"GPU-{number}", f"{number}", "H100", readings=Readings.of(readings), allocations=allocations
    )


def with_current_readings(device: MergedDevice, now: float) -> MergedDevice:
    """Return the card with the same values, read at this time."""
    before = Readings.of(device.readings)
    return replace(device, readings=Readings(before.shape, before.values, (Origin("nvml", now, _INTERVAL),)))


if __name__ == "__main__":
    main()
