"""The measurements of a contestant in rounds: the median of each figure and its range."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from side_by_side.processes import Memory
from side_by_side.scraping import percentile


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a contestant: CPU seconds per second, memory at the end, and the duration of each scrape."""

    cpu: float
    memory: Memory
    latencies: tuple[float, ...]
    series: int
    wire: int
    calls: float | None = None
    started_after: float | None = None
    # The fake driver used this part of `cpu`.
    driver: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the range of a figure over several rounds."""

    middle: float
    least: float
    most: float

    def __truediv__(self, other: Spread) -> float:
        return self.middle / other.middle


@dataclass(frozen=True, slots=True)
class Figure:
    """A column: its heading, and a function that returns the number of one round."""

    words: str
    value: Callable[[Round], float | None]


def _scrape_ms(percent: float) -> Callable[[Round], float]:
    return lambda run: 1e3 * percentile(run.latencies, percent)


# The number of cards on NVIDIA nodes.
GPUS = 8
CPU = Figure("CPU, ms/s", lambda run: 1e3 * run.cpu)
DRIVER = Figure("CPU in the driver, ms/s", lambda run: None if run.driver is None else 1e3 * run.driver)
WITHOUT_DRIVER = Figure("CPU without driver, ms/s", lambda run: 1e3 * (run.cpu - (run.driver or 0.0)))
DRIVER_PER_GPU = Figure("driver, ms/s per GPU", lambda run: None if run.driver is None else 1e3 * run.driver / GPUS)
PER_SERIES = Figure("CPU, µs/s per series", lambda run: 1e6 * run.cpu / run.series)
FIRST_RSS = Figure("RSS of the main process, MiB", lambda run: run.memory.first)
RSS = Figure("RSS, MiB", lambda run: run.memory.rss)
PSS = Figure("PSS, MiB", lambda run: run.memory.pss)
P50 = Figure("p50, ms", _scrape_ms(50))
P99 = Figure("p99, ms", _scrape_ms(99))
SERIES = Figure("series", lambda run: run.series)
WIRE = Figure("kB per scrape", lambda run: run.wire / 1e3)
CALLS = Figure("driver calls/s", lambda run: run.calls)
START = Figure("start, s", lambda run: run.started_after)
COLUMNS = (SERIES, CPU, DRIVER, PER_SERIES, RSS, FIRST_RSS, PSS, P50, P99, WIRE, CALLS, START)
# A round has too few scrapes for a 99th percentile, so all rounds are used.
_OVER_ALL = {P50.words, P99.words}


def spread(figure: Figure, rounds: Sequence[Round]) -> Spread | None:
    """Return the figure over these rounds, or None if they do not have it."""
    numbers = [number for number in map(figure.value, rounds) if number is not None]
    if not numbers:
        return None
    middle = statistics.median(numbers)
    if figure.words in _OVER_ALL:
        middle = figure.value(_one_round(rounds)) or middle
    return Spread(middle, min(numbers), max(numbers))


def _one_round(rounds: Sequence[Round]) -> Round:
    first = rounds[0]
    latencies = tuple(seconds for run in rounds for seconds in run.latencies)
    return Round(first.cpu, first.memory, latencies, first.series, first.wire)
