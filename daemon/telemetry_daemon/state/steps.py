"""Derives metric samples from the step counters of jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from telemetry_parsers import steps
from telemetry_parsers.model import MergedDevice, Problem, Sample
from telemetry_parsers.owners.privacy import BY_NAME, Privacy
from telemetry_parsers.ownership import Owner, StepCounts

if TYPE_CHECKING:  # imported only if attribution is on
    from telemetry_daemon.state.attribution import Attribution

_DeviceIdentities = tuple[tuple[str, str | None, str | None, int | None], ...]


class StepMetrics:
    """Computes samples from step counters."""

    def __init__(self, privacy: Privacy) -> None:
        self._privacy = privacy
        self.counts: tuple[StepCounts, ...] = ()
        self._device_identities: _DeviceIdentities = ()
        self._resolved = steps.resolve((), ())

    def samples(
        self, counts: tuple[StepCounts, ...], devices: Sequence[MergedDevice]
    ) -> Mapping[str, tuple[Sample, ...]]:
        """Return the samples by metric. Every step metric is a key, even if it has no samples."""
        identities = tuple((device.id, device.uuid, device.bus_id, device.index) for device in devices)
        if counts != self.counts or identities != self._device_identities:
            self.counts, self._device_identities = counts, identities
            self._resolved = steps.resolve([self._with_exposed_id(count) for count in counts], devices)
        return self._resolved.samples

    def problems(self) -> tuple[tuple[str, Problem], ...]:
        """Return the step files' problems, each with its source's name."""
        return tuple((steps.SOURCE, problem) for problem in self._resolved.problems)

    def _with_exposed_id(self, counts: StepCounts) -> StepCounts:
        owner = self._privacy.hide_owner(Owner("job", counts.job_id, job_id=counts.job_id))
        return replace(counts, job_id=owner.name)  # distinct for each job, even if ids are hidden


def create_step_metrics(attribution: Attribution | None) -> StepMetrics:
    """Return step metrics that hide job ids as the attribution does."""
    return StepMetrics(BY_NAME if attribution is None else attribution.privacy)
