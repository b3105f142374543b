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
# The evaluation interval of alerts. They read hours of thousands of series, and no alert needs to fire faster.
EVERY = "1m"
AT_ONCE = "0m"
# This series is recorded in recording_past.py.
MAINTENANCE_END = "instance:telemetry_maintenance_end_timestamp_seconds:max"
# The variable of `make docs` with the URL of docs/alerts.md. Without it, alerts have no link.
SETTING = "RUNBOOKS"
# The remedy of each condition by its alert, so that alerts, `check` and the page agree.
_REMEDIES = {condition.alert: condition.remedy for condition in CONDITIONS}
# A URL without a dollar sign, which Grafana would expand, and without an anchor, which is appended.
_URL = re.compile(r"(https?://[^\s/#$]+|file://)/[^\s#$'\"]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert. `$name` in the condition is a threshold, `{label}` in the summary is a label."""

    name: str
    severity: Severity
    condition: str
    summary: str
    meaning: str
    check: str
    remedy: str = ""  # by default the remedy of the condition
    hold: str = AT_ONCE
    counted_over_seconds: int = 0  # the time range of the condition, so that faults in a past maintenance are ignored
    held_back_by: tuple[str, ...] = ()  # alerts of the same card or node with the same cause
    held_back_by_event: str = ""  # the pattern of critical event codes with the same cause

    @property
    def promql(self) -> str:
        """Return the condition as PromQL, with the values of its thresholds."""
        return " ".join(with_thresholds(self.condition).split())

    @property
    def expression(self) -> str:
        """Return the condition without faults during a past maintenance. During maintenance, Alertmanager inhibits the alert."""
        if not self.counted_over_seconds:
            return self.promql
        ended = f"(last_over_time({MAINTENANCE_END}[1h]) > time() - {self.counted_over_seconds}) <= time()"
        return f"({self.promql}) unless on (cluster, instance) ({ended})"

    @property
    def outside_maintenance(self) -> str:
        """Return the condition outside of maintenance, for Grafana. Alerts about a whole fleet are not affected."""
        if "{instance}" not in self.summary:
            return self.promql
        until = f"time() - {self.counted_over_seconds}" if self.counted_over_seconds else "time()"
        # Another job may report the maintenance: in Kubernetes a node has a pod for each vendor.
        return f"({self.promql}) unless on (cluster, instance) (last_over_time({MAINTENANCE_END}[1h]) > {until})"

    @property
    def action(self) -> str:
        """Return the remedy as a sentence."""
        text = self.remedy or _REMEDIES[self.name].replace("{id}", "ID") + "."
        return text[0].upper() + text[1:]

    def annotations(self, summary: str) -> dict[str, str]:
        """Return the annotations of a rule, with a summary in its template language."""
        return {
            "summary": summary,
            "description": self.meaning,
            "check": self.check,
            "action": self.action,
            **_runbook(self.name),
        }


def _runbook(alert: str) -> dict[str, str]:
    """Return the URL of the alert's section, or its name in docs/alerts.md. Raise ValueError for an invalid setting."""
    page = os.environ.get(SETTING)
    if not page:
        return {"runbook": f"docs/alerts.md#{alert.lower()}"}
    if not _URL.fullmatch(page):
        raise ValueError(f"{SETTING}={page}: set the URL of docs/alerts.md, such as https://wiki.example.com/alerts.md")
    return {"runbook_url": f"{page}#{alert.lower()}"}


def open_event(codes: str) -> str:
    """Return an expression for open events with these codes. It is not affected by a restart of the daemon."""
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
    """Rules that are evaluated together, in order. The interval `every` is Prometheus' own if it is empty."""

    name: str
    rules: tuple[Recording, ...]
    every: str = ""


def with_thresholds(text: str) -> str:
    """Return the text with each `$name` replaced by the value of a threshold."""
    return Template(text).substitute(values_in_promql())
