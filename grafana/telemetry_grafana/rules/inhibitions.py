"""Which alerts of a card hold back others that are the same trouble: in Alertmanager by its rules, in Grafana by the query."""

from __future__ import annotations

from telemetry_grafana.rules.alert import AT_ONCE, Alert
from telemetry_grafana.rules.catalogue import ALERTS

_CARD = "cluster, job, instance, id"


def by_alertmanager() -> str:
    """The part of deploy/alertmanager/alertmanager.yml that says it."""
    return "".join(_rule(alert) for group in ALERTS for alert in group.alerts if alert.held_back_by)


def _rule(alert: Alert) -> str:
    stronger = "|".join(alert.held_back_by)
    return (
        f"  - source_matchers: ['alertname=~\"{stronger}\"']\n"
        f'    target_matchers: [alertname="{alert.name}"]\n'
        f"    equal: [{_CARD}]\n"
    )


def alone(alert: Alert) -> str:
    """The alert's expression without the cards for which a stronger alert fires; Grafana has nothing else for it."""
    by_name = {alert.name: alert for group in ALERTS for alert in group.alerts}
    stronger = [f"unless on ({_CARD}) ({_fires(by_name[name])})" for name in alert.held_back_by]
    return " ".join([f"({alert.expression})", *stronger]) if stronger else alert.expression


def _fires(alert: Alert) -> str:
    """Its trouble, for as long as it is held: one that comes and goes never fires and must hold back nothing."""
    if alert.hold == AT_ONCE:
        return alert.trouble
    return f"count_over_time(({alert.trouble})[{alert.hold}:1m]) >= {alert.hold.removesuffix('m')}"
