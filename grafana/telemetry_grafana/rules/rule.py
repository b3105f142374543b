"""What an alert and a recording rule are, and what several of them have in common."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import partial
from string import Template
from typing import Literal

from telemetry_exporters.judgement.thresholds import in_promql
from telemetry_exporters.judgement.verdict import CONDITIONS
from telemetry_grafana.promql import DEVICE

Severity = Literal["critical", "warning", "info"]
# How often alerts are evaluated: they look back over hours of thousands of series, and none must fire faster.
EVERY = "1m"
AT_ONCE = "0m"
# A series of recording_past.py.
MAINTENANCE_END = "instance:telemetry_maintenance_end_timestamp_seconds:max"
# Where people read what an alert means: the setting of `make docs`. Without it there is no link, since none would work everywhere.
SETTING = "RUNBOOKS"
# What each condition of a device asks to be done, by its alert: `check` and the page say the same.
_REMEDIES = {condition.alert: condition.remedy for condition in CONDITIONS}
# Grafana would expand a dollar sign; the alert's anchor comes behind it.
_URL = re.compile(r"(https?://[^\s/#$]+|file://)/[^\s#$'\"]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert; `$name` in the condition is a threshold, `{label}` in the summary a label. Its runbook has `meaning`, `check` and `remedy` (default: the condition's).

    `counted_over_seconds` is the range over which the condition counts, so that faults during maintenance do not count afterwards. `held_back_by` names alerts of
    the same card or node with the same cause; `held_back_by_event` is the pattern of critical event codes with that effect.
    """

    name: str
    severity: Severity
    condition: str
    summary: str
    meaning: str
    check: str
    remedy: str = ""
    hold: str = AT_ONCE
    counted_over_seconds: int = 0
    held_back_by: tuple[str, ...] = ()
    held_back_by_event: str = ""

    @property
    def trouble(self) -> str:
        """The condition with the thresholds filled in."""
        return " ".join(with_thresholds(self.condition).split())

    @property
    def expression(self) -> str:
        """The trouble, without what a maintenance counted that is over. In one, Alertmanager holds the alert back: to end it would resolve incidents."""
        if not self.counted_over_seconds:
            return self.trouble
        ended = f"(last_over_time({MAINTENANCE_END}[1h]) > time() - {self.counted_over_seconds}) <= time()"
        return f"({self.trouble}) unless on (cluster, instance) ({ended})"

    @property
    def outside_maintenance(self) -> str:
        """The same where no maintenance is announced, for Grafana, which has no inhibition; an alert of a whole fleet names no node, and goes on."""
        if "{instance}" not in self.summary:
            return self.trouble
        until = f"time() - {self.counted_over_seconds}" if self.counted_over_seconds else "time()"
        # Another job may report it: in Kubernetes a node has a pod for each vendor.
        return f"({self.trouble}) unless on (cluster, instance) (last_over_time({MAINTENANCE_END}[1h]) > {until})"

    @property
    def action(self) -> str:
        """What to do, as a sentence."""
        text = self.remedy or _REMEDIES[self.name].replace("{id}", "ID") + "."
        return text[0].upper() + text[1:]

    def annotations(self, summary: str) -> dict[str, str]:
        """What a rule says to a person, with the summary in the words of its template language."""
        return {
            "summary": summary,
            "description": self.meaning,
            "check": self.check,
            "action": self.action,
            **_runbook(self.name),
        }


def _runbook(alert: str) -> dict[str, str]:
    """The URL of an alert's section, or else its name in our documentation. Raises ValueError when the setting is no URL."""
    page = os.environ.get(SETTING)
    if not page:
        return {"runbook": f"docs/alerts.md#{alert.lower()}"}
    if not _URL.fullmatch(page):
        raise ValueError(
            f"{SETTING}={page}: write the URL of docs/alerts.md, such as https://wiki.example.com/alerts.md"
        )
    return {"runbook_url": f"{page}#{alert.lower()}"}


def open_event(codes: str) -> str:
    """The open events of these codes. A restart of the daemon is no repair."""
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
    """A series that Prometheus keeps ready."""

    name: str
    expression: str
    meaning: str
    labels: str = DEVICE


@dataclass(frozen=True, slots=True)
class RecordingGroup:
    """Rules that are evaluated together, in order; if `every` is empty, Prometheus' own interval holds."""

    name: str
    rules: tuple[Recording, ...]
    every: str = ""


def with_thresholds(text: str) -> str:
    """The text with a threshold's value in place of each `$name`."""
    return Template(text).substitute(in_promql())
