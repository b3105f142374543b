"""The health of a device as a whole: the worst of its six items in `health`."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.vendors.intel.xpu_smi import keys


def judge(draft: Draft, device: int, states: Mapping[str, str]) -> None:
    """The worst state of the items once all are printed: a text that is cut off would look healthier than the card is."""
    told_of = [state for state in states.values() if state not in keys.NO_STATE]
    if keys.HEALTH_ITEMS - set(states) or not told_of or not set(told_of) <= set(keys.STATES_WORST_FIRST):
        return
    worst = min(told_of, key=keys.STATES_WORST_FIRST.index)
    draft.take(device, (keys.HEALTH_STATE,), worst, "health")
