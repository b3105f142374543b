"""The types of alerts and recording rules."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from string import Template
from typing import Literal

from telemetry_exporters.judgement.thresholds import values_in_promql
from telemetry_exporters.judgement.verdict import CONDITIONS
from telemetry_grafana.promql import DEVICE

Severity = Literal["critical", "warning", "info"]
# This evaluation interval is short enough for timely alerts, and keeps the load on Prometheus low.
INTERVAL = "1m"
AT_ONCE = "0m"
# recording_past.py records this series.
MAINTENANCE_END = "instance:telemetry_maintenance_end_timestamp_seconds:max"
# The environment variable with the URL of docs/alerts.md. `make docs` adds this URL to the alerts.
RUNBOOKS_VARIABLE = "RUNBOOKS"
# Alerts, `telemetry check` and the daemon's web page must show the same remedies.
_REMEDIES_BY_ALERT = {condition.alert: condition.remedy for condition in CONDITIONS}
# A dollar sign is excluded because Grafana would expand it, and `#` because `_runbook` appends an anchor.
_URL = re.compile(r"(https?://[^\s/#$]+|file://)/[^\s#$'\"]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert. In its texts, `$name` stands for a threshold, and `{label}` for a label's value."""

    name: str
    severity: Severity
    condition: str
    summary: str
    meaning: str
    check: str
    remedy: str = ""  # if empty, the remedy in _REMEDIES_BY_ALERT
    pending_period: str = AT_ONCE
    counted_over_seconds: int = 0  # the time range over which the condition counts faults, or 0
    inhibited_by: tuple[str, ...] = ()  # alerts that suppress this alert on the same card or node
    inhibited_by_event: str = ""  # a pattern for the codes of critical events that suppress this alert

    @property
    def threshold_names(self) -> tuple[str, ...]:
        """The names of the thresholds in the condition, in the order of their first use."""
        return tuple(dict.fromkeys(match["named"] for match in Template.pattern.finditer(self.condition)))

    @property
    def promql(self) -> str:
        """Return the condition as PromQL, with the values of its thresholds."""
        return " ".join(with_thresholds(self.condition).split())

    @property
    def prometheus_expression(self) -> str:
        """Return the condition as PromQL, excluding nodes on which recent maintenance may have caused the faults."""
        if not self.counted_over_seconds:
            return self.promql
        ended = f"(last_over_time({MAINTENANCE_END}[1h]) > time() - {self.counted_over_seconds}) <= time()"
        return f"({self.promql}) unless on (cluster, instance) ({ended})"

    @property
    def grafana_expression(self) -> str:
        """Return the condition as PromQL, excluding nodes that are or recently were in maintenance."""
        if "{instance}" not in self.summary:
            return self.promql
        until = f"time() - {self.counted_over_seconds}" if self.counted_over_seconds else "time()"
        # `job` is ignored, because in Kubernetes another job may report the maintenance.
        return f"({self.promql}) unless on (cluster, instance) (last_over_time({MAINTENANCE_END}[1h]) > {until})"

    @property
    def action(self) -> str:
        """Return the remedy as a sentence."""
        text = self.remedy or _REMEDIES_BY_ALERT[self.name].replace("{id}", "ID") + "."
        return text[0].upper() + text[1:]

    def annotations(self, summary: str) -> dict[str, str]:
        """Return the annotations of a rule. `summary` must be in the rule's template language."""
        return {
            "summary": summary,
            "description": self.meaning,
            "check": self.check,
            "action": self.action,
            **_runbook(self.name),
        }


def _runbook(alert: str) -> dict[str, str]:
    """Return an annotation that links to the alert's section in docs/alerts.md."""
    page = os.environ.get(RUNBOOKS_VARIABLE)
    if not page:
        return {"runbook": f"docs/alerts.md#{alert.lower()}"}
    if not _URL.fullmatch(page):
        raise ValueError(
            f"{RUNBOOKS_VARIABLE}={page} is not a URL: set the URL of docs/alerts.md, such as https://wiki.example.com/alerts.md"
        )
    return {"runbook_url": f"{page}#{alert.lower()}"}


def open_event(codes: str) -> str:
    """Return the PromQL expression for open events whose code matches the regular expression `codes`."""
    return f'last_over_time(accelerator_event_open{{code=~"{codes}"}}[5m])'


critical = partial(Alert, severity="critical")
warning = partial(Alert, severity="warning")
info = partial(Alert, severity="info")


@dataclass(frozen=True, slots=True)
class AlertGroup:
    """Alerts about one subject."""

    name: str
    title: str
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """A series that Prometheus records."""

    name: str
    expression: str
    meaning: str
    labels: str = DEVICE


@dataclass(frozen=True, slots=True)
class RecordingGroup:
    """Rules that are evaluated together, in order."""

    name: str
    rules: tuple[Recording, ...]
    interval: str = ""


def with_thresholds(text: str) -> str:
    """Replace each `$name` with the threshold's value."""
    return Template(text).substitute(values_in_promql())
