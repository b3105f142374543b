"""What an alert is: when it fires, what it says, and what a person does then."""

from __future__ import annotations

from dataclasses import dataclass
from string import Template
from typing import Literal

from telemetry_grafana.rules.thresholds import values

Severity = Literal["critical", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert; `$name` in the condition stands for a threshold, `{label}` in the summary for a label's value.

    `meaning`, `check` and `remedy` are the sections of its runbook.
    """

    name: str
    severity: Severity
    condition: str
    hold: str
    summary: str
    meaning: str
    check: str
    remedy: str

    @property
    def expression(self) -> str:
        """The condition with the thresholds filled in."""
        return " ".join(Template(self.condition).substitute(values()).split())


@dataclass(frozen=True, slots=True)
class AlertGroup:
    """Alerts of one subject."""

    name: str
    title: str
    alerts: tuple[Alert, ...]


# How often alerts are evaluated: they look back over hours of thousands of series, and none must fire faster.
EVERY = "1m"
