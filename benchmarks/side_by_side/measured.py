"""The measured rounds of a contestant, and the figures that are computed from them."""

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
    wire_bytes: int
    calls: float | None = None
    started_after: float | None = None
    # The fake driver used this part of `cpu`.
    driver: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the range of a figure over several rounds."""

    median: float
    low: float
    high: float

    def __truediv__(self, other: Spread) -> float:
        return self.median / other.median


@dataclass(frozen=True, slots=True)
class Figure:
    """A column of the table: its heading, and a function that computes its value for a round."""

    heading: str
    value: Callable[[Round], float | None]


def _scrape_ms(percent: float) -> Callable[[Round], float]:
    return lambda round_: 1e3 * percentile(round_.latencies, percent)


# The number of cards on NVIDIA nodes.
GPUS = 8
CPU = Figure("CPU, ms/s", lambda round_: 1e3 * round_.cpu)
DRIVER = Figure("CPU in the driver, ms/s", lambda round_: None if round_.driver is None else 1e3 * round_.driver)
WITHOUT_DRIVER = Figure("CPU without driver, ms/s", lambda round_: 1e3 * (round_.cpu - (round_.driver or 0.0)))
DRIVER_PER_GPU = Figure(
    "driver, ms/s per GPU", lambda round_: None if round_.driver is None else 1e3 * round_.driver / GPUS
)
PER_SERIES = Figure("CPU, µs/s per series", lambda round_: 1e6 * round_.cpu / round_.series)
FIRST_RSS = Figure("RSS of the main process, MiB", lambda round_: round_.memory.main_rss)
RSS = Figure("RSS, MiB", lambda round_: round_.memory.rss)
PSS = Figure("PSS, MiB", lambda round_: round_.memory.pss)
P50 = Figure("p50, ms", _scrape_ms(50))
P99 = Figure("p99, ms", _scrape_ms(99))
SERIES = Figure("series", lambda round_: round_.series)
WIRE = Figure("kB per scrape", lambda round_: round_.wire_bytes / 1e3)
CALLS = Figure("driver calls/s", lambda round_: round_.calls)
START = Figure("start, s", lambda round_: round_.started_after)
COLUMNS = (SERIES, CPU, DRIVER, PER_SERIES, RSS, FIRST_RSS, PSS, P50, P99, WIRE, CALLS, START)
# A round has too few scrapes for a 99th percentile, so all rounds are used.
_PERCENTILES = {P50.heading, P99.heading}


def spread(figure: Figure, rounds: Sequence[Round]) -> Spread | None:
    """Return the figure's median and range over these rounds, or None if no round has the figure."""
    numbers = [number for number in map(figure.value, rounds) if number is not None]
    if not numbers:
        return None
    middle = statistics.median(numbers)
    if figure.heading in _PERCENTILES:
        middle = figure.value(_merge_rounds(rounds)) or middle
    return Spread(middle, min(numbers), max(numbers))


def _merge_rounds(rounds: Sequence[Round]) -> Round:
    first = rounds[0]
    latencies = tuple(seconds for round_ in rounds for seconds in round_.latencies)
    return Round(first.cpu, first.memory, latencies, first.series, first.wire_bytes)
