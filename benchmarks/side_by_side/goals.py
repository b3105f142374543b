"""The goals of the project: how each is measured, and whether it was met."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from side_by_side import commands, measured, nodes
from side_by_side.measured import Figure, Round, Spread
from side_by_side.tables import number


@dataclass(frozen=True, slots=True)
class Results:
    """All measurements: the rounds by node and contestant, at once and alone, and the commands."""

    at_once: Mapping[str, Mapping[str, Sequence[Round]]]
    alone: Mapping[str, Mapping[str, Sequence[Round]]]
    commands: Mapping[tuple[str, str], Spread]

    def figure(self, node: str, name: str, figure: Figure) -> float | None:
        """Return the median of a contestant's rounds, or None if it was not measured."""
        rounds = self.at_once.get(node, {}).get(name) or self.alone.get(node, {}).get(name) or ()
        spread = measured.spread(figure, rounds)
        return spread.median if spread else None


# Returns the value for one of our checkouts, given by its name, or None if it was not measured.
Value = Callable[[Results, str], float | None]


@dataclass(frozen=True, slots=True)
class Goal:
    """The upper limit of a measured value. Without a limit, the value is only reported."""

    part: str
    description: str
    limit: float | None
    value: Value


def _value_of(node: str, figure: Figure) -> Value:
    return lambda results, ours: results.figure(node, ours, figure)


def _ratio_to(node: str, figure: Figure, other: str, other_figure: Figure | None = None) -> Value:
    def value(results: Results, ours: str) -> float | None:
        our_value = results.figure(node, ours, figure)
        other_value = results.figure(node, other, other_figure or figure)
        return our_value / other_value if our_value is not None and other_value else None

    return value


def _start_seconds(results: Results, ours: str) -> float | None:
    spread = measured.spread(measured.START, results.alone.get("nvidia", {}).get(ours, ()))
    return spread.median if spread else None


def _command_milliseconds(command: str) -> Value:
    def value(results: Results, ours: str) -> float | None:
        spread = results.commands.get((command, ours))
        return spread.median if spread else None

    return value


_NVITOP = f"× nvitop-exporter {nodes.NVITOP_VERSION}"
GOALS = (
    Goal("nvidia", f"8 × H100: CPU, {_NVITOP}", 0.45, _ratio_to("nvidia", measured.CPU, nodes.NVITOP)),
    Goal("h200", "costs of an H200: CPU, ms/s", 16, _value_of("h200", measured.CPU)),
    Goal("h200", f"costs of an H200: CPU, {_NVITOP}", 0.3, _ratio_to("h200", measured.CPU, nodes.NVITOP)),
    Goal("h200", "costs of an H200: time in the driver for each GPU, ms/s", 1.5, _value_of("h200", measured.DRIVER_PER_GPU)),
    Goal("h200", f"costs of an H200: CPU without the driver, {_NVITOP}", 0.34, _ratio_to("h200", measured.WITHOUT_DRIVER, nodes.NVITOP)),
    Goal("little", f"driver that supports few calls: CPU, {_NVITOP}", 0.6, _ratio_to("little", measured.CPU, nodes.NVITOP)),
    Goal("nvidia", f"RSS of the daemon, {_NVITOP}", 1.0, _ratio_to("nvidia", measured.FIRST_RSS, nodes.NVITOP, measured.RSS)),
    Goal("nvidia", f"RSS with the NVML worker, {_NVITOP}", 1.45, _ratio_to("nvidia", measured.RSS, nodes.NVITOP)),
    Goal("nvidia", f"PSS with the NVML worker, {_NVITOP}", 1.5, _ratio_to("nvidia", measured.PSS, nodes.NVITOP)),
    Goal("nvidia", f"scrape p50, {_NVITOP}", 0.16, _ratio_to("nvidia", measured.P50, nodes.NVITOP)),
    Goal("nvidia", f"scrape p99, {_NVITOP}", 0.35, _ratio_to("nvidia", measured.P99, nodes.NVITOP)),
    Goal(
        "nvidia", f"CPU for each series, × all-smi {nodes.ALL_SMI_VERSION}", 0.8,
        _ratio_to("nvidia", measured.PER_SERIES, nodes.ALL_SMI),
    ),
    Goal("demo", "128 simulated cards: scrape p50, ms", 7, _value_of("demo", measured.P50)),
    Goal("demo", "128 simulated cards: scrape p99, ms", 25, _value_of("demo", measured.P99)),
    Goal("demo", "128 simulated cards: CPU, ms/s", 70, _value_of("demo", measured.CPU)),
    Goal("demo", "128 simulated cards: RSS, MiB", None, _value_of("demo", measured.RSS)),
    Goal("nvidia", "start to first readings, s", 0.8, _start_seconds),
    Goal("commands", "`telemetry snapshot` without tools, ms", 500, _command_milliseconds(commands.SNAPSHOT)),
    Goal("commands", "`telemetry version`, ms", 40, _command_milliseconds(commands.VERSION)),
    Goal("idle", "no accelerators, scraped every 15 s: CPU, ms/s", 1.5, _value_of("idle", measured.CPU)),
    Goal("idle", "no accelerators, scraped every 15 s: RSS, MiB", 28, _value_of("idle", measured.RSS)),
    Goal("amd", "AMD through the driver's files: CPU, ms/s", None, _value_of("amd", measured.CPU)),
    Goal("mixed", "mixed node of 11 vendors: CPU with its tools, ms/s", None, _value_of("mixed", measured.CPU)),
    Goal("disturbed", "with a hanging tool and a reload every 2 s: scrape p99, ms", None, _value_of("disturbed", measured.P99)),
)  # fmt: skip


def rows(results: Results, parts: Sequence[str], checkouts: Sequence[str]) -> Iterator[list[str]]:
    """Yield a row for each goal of these parts: the limit, the value of each checkout, and whether the first checkout meets it."""
    for goal in GOALS:
        if goal.part not in parts:
            continue
        values = [goal.value(results, checkout) for checkout in checkouts]
        limit = "–" if goal.limit is None else f"≤ {number(goal.limit)}"
        yield [goal.description, limit, *map(_cell, values), _verdict(goal, values[0])]


def _cell(value: float | None) -> str:
    return "not measured" if value is None else number(value)


def _verdict(goal: Goal, value: float | None) -> str:
    if value is None or goal.limit is None:
        return ""
    return "met" if value <= goal.limit else "missed"
