"""Two stores with the same reports: one keeps results between steps, the other computes everything again."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from unittest import mock

from kits.changing_node import FACTS, Step, steps
from kits.fed_node import FedNode
from telemetry_daemon.state import store as store_module
from telemetry_daemon.state.health import StatusCache, StatusInput
from telemetry_exporters.documents import snapshot_json
from telemetry_exporters.prometheus.renderer import Renderer, Syntax
from telemetry_parsers.merge import merged, report_columns
from telemetry_parsers.merge.merged import MergedNode
from telemetry_parsers.merge.report_columns import CheckedReport
from telemetry_parsers.model import Metric, SourceReport, SourceStatus


class Life(FedNode):
    """A store that ingests one step after the other."""

    def __init__(self) -> None:
        super().__init__(FACTS, now=100.0, wall_at_start=1e9)
        self.renderer = Renderer()
        self.store.await_inventories({("nvml", "fast"): "nvidia", ("sysfs", "fast"): "amd"})

    def page(self) -> bytes:
        return self.renderer.text(self.store.snapshot())

    def after(self, step: Step) -> Iterator[object]:
        """Return everything that is visible after a step."""
        self.now += step.seconds
        self.wall_at_start += step.days
        if step.forgets:
            yield self.store.forget(lambda _: True)
        yield self.ingest(step.source.name, step.report, step.poll, step.result)
        yield from self._shown()
        self.now += step.seconds
        yield from self._shown()

    def _shown(self) -> Iterator[object]:
        yield self.store.snapshot()
        yield self.page()
        yield self.store.identities()
        yield self.store.open_events()

    def documents(self) -> tuple[str, bytes]:
        """Return the JSON document and the OpenMetrics page."""
        snapshot = self.store.snapshot()
        return snapshot_json.render(snapshot), self.renderer.page(snapshot, Syntax.OPENMETRICS)


class Forgetful(Life):
    """The same store, which keeps no results between steps."""

    def __init__(self) -> None:
        with mock.patch.object(store_module, "StatusCache", _NoStatuses):
            super().__init__()

    def page(self) -> bytes:
        self.renderer = Renderer()
        with mock.patch.multiple(store_module, merge=_merge, check_report=_check_report):
            return super().page()

    def after(self, step: Step) -> Iterator[object]:
        with mock.patch.multiple(store_module, merge=_merge, check_report=_check_report):
            yield from super().after(step)


class _NoStatuses:
    def update(self, inputs: Iterable[StatusInput], now: float) -> tuple[SourceStatus, ...]:
        return StatusCache().update(inputs, now)


def _merge(*given: Any, previous: MergedNode | None, **named: Any) -> MergedNode:
    """Merge without earlier results."""
    assert previous is None or previous.arrangement
    return merged.merge(*given, **named)


def _check_report(report: SourceReport, extra: Mapping[str, Metric], previous: CheckedReport | None) -> CheckedReport:
    assert previous is None or previous.shape
    return report_columns.check_report(report, extra)


def compare(seed: int, count: int) -> None:
    """Compare a life of this many steps with the same life without kept results."""
    kept, whole = Life(), Forgetful()
    for number, step in enumerate(steps(seed, count)):
        for kept_output, recomputed in zip(kept.after(step), whole.after(step), strict=True):
            assert kept_output == recomputed, f"seed {seed}, step {number}: {step}"
    assert kept.documents() == whole.documents()
