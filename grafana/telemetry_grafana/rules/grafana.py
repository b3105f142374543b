"""The same alerts for Grafana's own alerting, as the file of rules that it provisions; it has no inhibition of its own."""

from __future__ import annotations

from telemetry_grafana.promql import checked
from telemetry_grafana.rules import inhibitions, recording, words
from telemetry_grafana.rules.alert import EVERY, Alert, AlertGroup
from telemetry_grafana.rules.catalogue import ALERTS
from telemetry_grafana.rules.prometheus import as_yaml

DATA_SOURCE = "telemetry-prometheus"
FOLDER = "Device telemetry"
_LOOK_BACK_SECONDS = 600


def rules() -> str:
    """grafana/provisioning/alerting/telemetry-rules.yaml."""
    groups = [_group(group) for group in ALERTS]
    return as_yaml({"apiVersion": 1, "groups": groups})


def _group(group: AlertGroup) -> dict[str, object]:
    rules = [_rule(alert) for alert in group.alerts]
    return {"orgId": 1, "name": group.name, "folder": FOLDER, "interval": EVERY, "rules": rules}


def _rule(alert: Alert) -> dict[str, object]:
    return {
        "uid": alert.name.lower(),
        "title": alert.name,
        "condition": "B",
        "data": [_query(alert), _fires_on_every_answer()],
        "for": alert.hold,
        # The condition is in the query: no answer is the normal case, and means that all is well.
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": {"severity": alert.severity},
        "annotations": alert.annotations(words.for_grafana(alert.summary)),
        "isPaused": False,
    }


def _query(alert: Alert) -> dict[str, object]:
    return {
        "refId": "A",
        "relativeTimeRange": {"from": _LOOK_BACK_SECONDS, "to": 0},
        "datasourceUid": DATA_SOURCE,
        "model": {"refId": "A", "expr": checked(inhibitions.alone(alert), recording.recorded()), "instant": True},
    }


def _fires_on_every_answer() -> dict[str, object]:
    """Fires on every answer of the query, also on a 0 such as accelerator_up's."""
    model = {"refId": "B", "type": "math", "expression": "is_number($A)"}
    return {
        "refId": "B",
        "relativeTimeRange": {"from": _LOOK_BACK_SECONDS, "to": 0},
        "datasourceUid": "__expr__",
        "model": model,
    }
