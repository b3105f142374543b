"""A store that is told one step after the other, and one that keeps nothing from one step to the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unittest import mock

from kits.changing_node import TELLERS, Step, steps
from telemetry_daemon.state import store as store_module
from telemetry_daemon.state.accumulate import Accumulator
from telemetry_daemon.state.health import Basis, PollResult, SourceFacts, Statuses
from telemetry_daemon.state.store import Store
from telemetry_daemon.state.taken import Taken
from telemetry_daemon.times import Clock
from telemetry_exporters import json
from telemetry_exporters.prometheus import Renderer, Syntax
from telemetry_parsers.merge import columns, node
from telemetry_parsers.merge.columns import Offered
from telemetry_parsers.merge.node import Merged
from telemetry_parsers.model import Capture, Metric, Poll, Report, SourceReport, SourceStatus


class Life:
    """A store that is told one step after the other."""

    def __init__(self) -> None:
        self.now, self.days = 100.0, 0.0
        clock = Clock(lambda: self.now, lambda: 1e9 + self.now + self.days, lambda: 0.0)
        self.store = Store("node", clock, (), Accumulator())
        self.renderer = Renderer()
        for teller in TELLERS:
            lists = any(poll.lists_devices for poll in teller.polls)
            self.store.add_source(SourceFacts(teller.name, teller.vendor, teller.gives, lists))
        self.store.await_first({("nvml", "fast"): "nvidia", ("sysfs", "fast"): "amd"})

    def take(self, source: str, poll: Poll, capture: Capture, report: Report | None, result: PollResult) -> Taken:
        """Take in one attempt."""
        return self.store.put(source, poll, capture, report, result, poll.interval)

    def page(self) -> bytes:
        """The page of metrics now."""
        return self.renderer.text(self.store.snapshot())

    def after(self, step: Step) -> Iterator[object]:
        """Everything that can be seen of it."""
        self.now += step.seconds
        self.days += step.days
        if step.forgets:
            yield self.store.forget(lambda _: True)
        capture = Capture(step.teller.name, step.poll.name, step.poll.request, wall_time=1e9, monotonic_time=self.now)
        yield self.take(step.teller.name, step.poll, capture, step.report, step.result)
        yield from self._shown()
        self.now += step.seconds
        yield from self._shown()

    def _shown(self) -> Iterator[object]:
        yield self.store.snapshot()
        yield self.page()
        yield self.store.identities()
        yield self.store.open_events()

    def documents(self) -> tuple[str, bytes]:
        """The JSON document, and the page of OpenMetrics."""
        snapshot = self.store.snapshot()
        return json.render(snapshot), self.renderer.page(snapshot, Syntax.OPENMETRICS)


class Forgetful(Life):
    """The same, which keeps nothing from one step to the next."""

    def __init__(self) -> None:
        with mock.patch.object(store_module, "Statuses", _NoStatuses):
            super().__init__()

    def take(self, source: str, poll: Poll, capture: Capture, report: Report | None, result: PollResult) -> Taken:
        with mock.patch.multiple(store_module, merge=_merge, offered=_offered):
            return super().take(source, poll, capture, report, result)

    def page(self) -> bytes:
        self.renderer = Renderer()
        with mock.patch.multiple(store_module, merge=_merge, offered=_offered):
            return super().page()

    def after(self, step: Step) -> Iterator[object]:
        with mock.patch.multiple(store_module, merge=_merge, offered=_offered):
            yield from super().after(step)


class _NoStatuses:
    def of(self, bases: Iterable[Basis], now: float) -> tuple[SourceStatus, ...]:
        return Statuses().of(bases, now)


def _merge(*given: Any, before: Merged | None, **named: Any) -> Merged:
    """A merge that is not told what it found before."""
    assert before is None or before.arrangement
    return node.merge(*given, **named)


def _offered(report: SourceReport, extra: Mapping[str, Metric], before: Offered | None) -> Offered:
    assert before is None or before.shape
    return columns.offered(report, extra)


def compare(seed: int, count: int) -> None:
    """Hold a life of so many steps against the same without anything kept."""
    kept, whole = Life(), Forgetful()
    for number, step in enumerate(steps(seed, count)):
        for one, other in zip(kept.after(step), whole.after(step), strict=True):
            assert one == other, f"seed {seed}, step {number}: {step}"
    assert kept.documents() == whole.documents()
