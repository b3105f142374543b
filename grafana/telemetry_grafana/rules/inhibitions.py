"""Which alerts of a card hold back others that are the same trouble: in Alertmanager by its rules, in Grafana by the query."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry_grafana.rules.alert import AT_ONCE, Alert, open_event
from telemetry_grafana.rules.catalogue import ALERTS

_CARD = "cluster, job, instance, id"
_EVENT = "AcceleratorEventCritical"


def by_alertmanager() -> str:
    """The part of deploy/alertmanager/alertmanager.yml that says it."""
    return "".join(
        f'  - source_matchers: [{stronger}]\n    target_matchers: [alertname="{alert.name}"]\n    equal: [{_CARD}]\n'
        for group in ALERTS
        for alert in group.alerts
        for stronger in _matchers(alert)
    )


def _matchers(alert: Alert) -> Iterator[str]:
    if alert.held_back_by:
        yield f"'alertname=~\"{'|'.join(alert.held_back_by)}\"'"
    if alert.held_back_by_event:
        yield f'alertname="{_EVENT}", \'code=~"{alert.held_back_by_event}"\''


def alone(alert: Alert) -> str:
    """The alert's expression without the cards for which a stronger alert fires; Grafana has nothing else for it."""
    by_name = {alert.name: alert for group in ALERTS for alert in group.alerts}
    stronger = [f"unless on ({_CARD}) ({_fires(by_name[name])})" for name in alert.held_back_by]
    if alert.held_back_by_event:
        stronger.append(f"unless on ({_CARD}) {open_event(alert.held_back_by_event)}")
    return " ".join([f"({alert.expression})", *stronger]) if stronger else alert.expression


def _fires(alert: Alert) -> str:
    """Its trouble, for as long as it is held: one that comes and goes never fires and must hold back nothing."""
    if alert.hold == AT_ONCE:
        return alert.trouble
    return f"count_over_time(({alert.trouble})[{alert.hold}:1m]) >= {alert.hold.removesuffix('m')}"
