"""Nodes whose cards change between kinds of work, as promtool's series: healthy, hung and slow cards."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from grafana.alert_nodes import CARDS, END, Node, Series

ALL = range(CARDS)


@dataclass(frozen=True)
class Work:
    """The readings of a card during one kind of work; None means that the metric is not exposed."""

    busy: float
    watts: float
    hertz: float | None = 1.6e9
    activity: float | None = 0.6
    held: float = 0.8
    cap: float | None = 700.0


IDLE = Work(busy=0, watts=75, hertz=3.5e8, activity=0, held=0.01)
TRAINS = Work(busy=0.98, watts=600)
# Measured on an H200: 137 to 300 W.
DECODES = Work(busy=1, watts=137, hertz=1.98e9, activity=0.5)
# As reported for hung jobs on H100: 100 to 152 W.
HANGS = Work(busy=1, watts=130, hertz=1.98e9, activity=0)
SPINS = Work(busy=1, watts=80, hertz=1.98e9, activity=0)
SLOW = replace(TRAINS, hertz=1.2e9, watts=430)

# The end of each kind of work in minutes, and the work.
Course = tuple[tuple[int, Work], ...]


def always(work: Work) -> Course:
    return ((END, work),)


def later(work: Work, before: Work = TRAINS) -> Course:
    """Return a course that changes to `work` in minute 25."""
    return ((25, before), (END, work))


def works(node: Node, course: Course, cards: Iterable[int] = ALL) -> Node:
    """Give these cards of the node the values of a course."""
    for card in cards:
        for name in list(node.series):
            values = _of_course(name, course) if f'id="id{card}"' in name else None
            if values == "":
                del node.series[name]
            elif values is not None:
                node.series[name] = values
    return node


def _of_course(name: str, course: Course) -> str | None:
    """Return the values of a series; empty if it is not exposed, None if it is independent of the work."""
    if name.startswith("accelerator_busy_seconds_total"):
        return _counted([(minutes, 60 * work.busy) for minutes, work in course])
    if name.startswith("accelerator_energy_estimated_joules_total"):
        return _counted([(minutes, 60 * work.watts) for minutes, work in course])
    field = next((field for start, field in _GAUGES.items() if name.startswith(start)), None)
    if field is None or 'domain="memory"' in name:
        return None
    values = [(minutes, getattr(work, field)) for minutes, work in course]
    return " ".join("" if value is None else f"{value}x{minutes - 1}" for minutes, value in values).strip()


_GAUGES = {
    "accelerator_utilization_ratio": "busy",
    "accelerator_power_watts": "watts",
    "accelerator_power_cap_watts": "cap",
    "accelerator_clock_hertz": "hertz",
    "accelerator_memory_activity_ratio": "activity",
    "accelerator_memory_used_ratio": "held",
}


def _counted(steps: list[tuple[int, float]]) -> str:
    parts, total = [], 0.0
    for minutes, a_minute in steps:
        parts.append(f"{total:g}+{a_minute:g}x{minutes - 1}")
        total += minutes * a_minute
    return " ".join(parts)


def seen_before(target: dict[str, str], model: str = "m") -> Series:
    series = {}
    for device, work in (("idle", IDLE), ("busy", TRAINS)):
        labels = {**target, "instance": "other", "vendor": "v", "device": device, "id": device, "model": model}
        text = ",".join(f'{name}="{value}"' for name, value in sorted(labels.items()))
        for metric in ("accelerator_utilization_ratio", "accelerator_power_watts"):
            values = _of_course(metric, always(work))
            assert values
            series[f"{metric}{{{text}}}"] = values
    return series
