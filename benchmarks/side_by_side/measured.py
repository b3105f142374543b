"""What was measured of a contestant in rounds: the middle one of each figure, and from which to which it went."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from side_by_side.processes import Memory
from side_by_side.scraping import percentile


@dataclass(frozen=True, slots=True)
class Round:
    """Some seconds of one contestant: CPU seconds of a second, memory at the end, seconds of each scrape."""

    cpu: float
    memory: Memory
    latencies: tuple[float, ...]
    series: int
    wire: int
    calls: float | None = None
    started_after: float | None = None
    # CPU seconds of a second that the fake driver took of `cpu`.
    driver: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure of several rounds."""

    middle: float
    least: float
    most: float

    def __truediv__(self, other: Spread) -> float:
        return self.middle / other.middle


@dataclass(frozen=True, slots=True)
class Figure:
    """A column: its words, and the number of one round."""

    words: str
    of: Callable[[Round], float | None]


def _scrape_ms(percent: float) -> Callable[[Round], float]:
    return lambda each: 1e3 * percentile(each.latencies, percent)


# So many are on the nodes of NVIDIA's cards.
GPUS = 8
CPU = Figure("CPU, ms/s", lambda each: 1e3 * each.cpu)
DRIVER = Figure("of it in the driver, ms/s", lambda each: None if each.driver is None else 1e3 * each.driver)
WITHOUT_DRIVER = Figure("CPU without the driver", lambda each: 1e3 * (each.cpu - (each.driver or 0.0)))
DRIVER_PER_GPU = Figure("driver, ms/s a GPU", lambda each: None if each.driver is None else 1e3 * each.driver / GPUS)
PER_SERIES = Figure("CPU, µs/s a series", lambda each: 1e6 * each.cpu / each.series)
FIRST_RSS = Figure("RSS of its first process", lambda each: each.memory.first)
RSS = Figure("RSS, MiB", lambda each: each.memory.rss)
PSS = Figure("PSS, MiB", lambda each: each.memory.pss)
P50 = Figure("p50, ms", _scrape_ms(50))
P99 = Figure("p99, ms", _scrape_ms(99))
SERIES = Figure("series", lambda each: each.series)
WIRE = Figure("kB a scrape", lambda each: each.wire / 1e3)
CALLS = Figure("driver calls/s", lambda each: each.calls)
START = Figure("start, s", lambda each: each.started_after)
COLUMNS = (SERIES, CPU, DRIVER, PER_SERIES, RSS, FIRST_RSS, PSS, P50, P99, WIRE, CALLS, START)
# Of few scrapes a round the 99th percentile is the longest: it is taken over all rounds.
_OVER_ALL = {P50.words, P99.words}


def spread(figure: Figure, rounds: Sequence[Round]) -> Spread | None:
    """The figure over these rounds; None for one that they do not have."""
    numbers = [number for number in map(figure.of, rounds) if number is not None]
    if not numbers:
        return None
    middle = statistics.median(numbers)
    if figure.words in _OVER_ALL:
        middle = figure.of(_one_round(rounds)) or middle
    return Spread(middle, min(numbers), max(numbers))


def _one_round(rounds: Sequence[Round]) -> Round:
    first = rounds[0]
    latencies = tuple(seconds for each in rounds for seconds in each.latencies)
    return Round(first.cpu, first.memory, latencies, first.series, first.wire)
