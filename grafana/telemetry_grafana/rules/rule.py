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
# The evaluation interval of alerts. They read hours of thousands of series, and none needs to fire faster.
EVERY = "1m"
AT_ONCE = "0m"
# This series is recorded in recording_past.py.
MAINTENANCE_END = "instance:telemetry_maintenance_end_timestamp_seconds:max"
# The variable of `make docs` with the URL of docs/alerts.md. Without it alerts have no link, because no URL works everywhere.
SETTING = "RUNBOOKS"
# The remedy of each condition by its alert, so that alerts, `check` and the page agree.
_REMEDIES = {condition.alert: condition.remedy for condition in CONDITIONS}
# Without a dollar sign, which Grafana would expand, and without an anchor, which is appended.
_URL = re.compile(r"(https?://[^\s/#$]+|file://)/[^\s#$'\"]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert. In the condition, `$name` is a threshold; in the summary, `{label}` is a label."""

    name: str
    severity: Severity
    condition: str
    summary: str
    meaning: str
    check: str
    remedy: str = ""  # by default that of the condition
    hold: str = AT_ONCE
    counted_over_seconds: int = 0  # the condition's range, so that faults during a maintenance do not count afterwards
    held_back_by: tuple[str, ...] = ()  # alerts of the same card or node with the same cause
    held_back_by_event: str = ""  # the pattern of critical event codes with the same cause

    @property
    def trouble(self) -> str:
        """Return the condition with the values of thresholds."""
        return " ".join(with_thresholds(self.condition).split())

    @property
    def expression(self) -> str:
        """Return the trouble without faults that were counted during a maintenance that is over. In a maintenance, Alertmanager holds the alert back: ending it would resolve incidents."""
        if not self.counted_over_seconds:
            return self.trouble
        ended = f"(last_over_time({MAINTENANCE_END}[1h]) > time() - {self.counted_over_seconds}) <= time()"
        return f"({self.trouble}) unless on (cluster, instance) ({ended})"

    @property
    def outside_maintenance(self) -> str:
        """Return the trouble outside a maintenance, for Grafana, which has no inhibition. An alert of a whole fleet names no node, and continues."""
        if "{instance}" not in self.summary:
            return self.trouble
        until = f"time() - {self.counted_over_seconds}" if self.counted_over_seconds else "time()"
        # Another job may report the maintenance: in Kubernetes a node has a pod for each vendor.
        return f"({self.trouble}) unless on (cluster, instance) (last_over_time({MAINTENANCE_END}[1h]) > {until})"

    @property
    def action(self) -> str:
        """Return what to do, as a sentence."""
        text = self.remedy or _REMEDIES[self.name].replace("{id}", "ID") + "."
        return text[0].upper() + text[1:]

    def annotations(self, summary: str) -> dict[str, str]:
        """Return the annotations of a rule, with the summary in the words of its template language."""
        return {
            "summary": summary,
            "description": self.meaning,
            "check": self.check,
            "action": self.action,
            **_runbook(self.name),
        }


def _runbook(alert: str) -> dict[str, str]:
    """Return the URL of an alert's section, by default its name in our documentation. Raises ValueError if the setting is no URL."""
    page = os.environ.get(SETTING)
    if not page:
        return {"runbook": f"docs/alerts.md#{alert.lower()}"}
    if not _URL.fullmatch(page):
        raise ValueError(
            f"{SETTING}={page}: write the URL of docs/alerts.md, such as https://wiki.example.com/alerts.md"
        )
    return {"runbook_url": f"{page}#{alert.lower()}"}


def open_event(codes: str) -> str:
    """Return the open events of these codes. A restart of the daemon does not end them."""
    return f'last_over_time(accelerator_event_open{{code=~"{codes}"}}[5m])'


critical = partial(Alert, severity="critical")
warning = partial(Alert, severity="warning")
info = partial(Alert, severity="info")


@dataclass(frozen=True, slots=True)
class AlertGroup:
    """Alerts of one subject."""

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
    """Rules that are evaluated together, in order; an empty `every` means Prometheus' own interval."""

    name: str
    rules: tuple[Recording, ...]
    every: str = ""


def with_thresholds(text: str) -> str:
    """Return the text with a threshold's value in place of each `$name`."""
    return Template(text).substitute(values_in_promql())
