"""The reports that take part in one merge, in an order that says what must stay so that only numbers change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from telemetry_parsers.merge.columns import Offered, ReportShape
from telemetry_parsers.model import Absent, SourceReport, Value
from telemetry_parsers.readings import Origin

NodeShape = tuple[tuple[tuple[str, str], ...], tuple[ReportShape, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Fresh:
    """The reports by number, in the order of their names.

    `turns` are their ranks among the reports of their source, the newest first. `offsets` say where the values of each begin when
    all stand in one row. `host` has the numbers of those with readings of the host, the newest last.
    """

    offered: tuple[Offered, ...]
    number_of: Mapping[tuple[str, str], int]
    turns: tuple[int, ...]
    offsets: tuple[int, ...]
    host: tuple[int, ...]

    @classmethod
    def of(cls, reports: Iterable[Offered], now: float) -> Fresh:
        """Those of the reports that have not expired."""
        offered = tuple(sorted((one for one in reports if one.report.expires > now), key=_name))
        by_age = sorted(range(len(offered)), key=lambda number: -offered[number].report.taken)
        turn_of = {
            number: turn for turn, number in enumerate(sorted(by_age, key=lambda one: offered[one].report.source))
        }
        host = tuple(number for number in reversed(by_age) if None in offered[number].shape.by_device)
        return cls(
            offered,
            {_name(one): number for number, one in enumerate(offered)},
            tuple(turn_of[number] for number in range(len(offered))),
            tuple(accumulate((len(one.values) for one in offered), initial=0)),
            host,
        )

    @property
    def reports(self) -> tuple[SourceReport, ...]:
        """The reports themselves."""
        return tuple(one.report for one in self.offered)

    def shape(self) -> NodeShape:
        """All of the reports but their numbers and times, and the order of their times."""
        return tuple(self.number_of), tuple(one.shape for one in self.offered), self.turns, self.host

    def row(self) -> list[Value | None]:
        """All values in one row; behind them the absence of what nobody told."""
        row: list[Value | None] = []
        for one in self.offered:
            row += one.values
        row.append(Absent.NOT_REPORTED)
        return row

    def origins(self) -> tuple[Origin, ...]:
        """Where and when the readings of each report were taken."""
        return tuple(Origin(one.report.source, one.report.taken, one.report.interval) for one in self.offered)


def _name(offered: Offered) -> tuple[str, str]:
    return offered.report.source, offered.report.poll
