"""The table of conditions in docs/outputs.md."""

from __future__ import annotations

from telemetry_exporters.judgement.verdict import CONDITIONS, Condition


def conditions() -> str:
    """A line for each condition, worst first."""
    rows = "\n".join(map(_row, CONDITIONS))
    return f"| condition | severity | means | what to do | alert |\n| --- | --- | --- | --- | --- |\n{rows}\n"


def _row(condition: Condition) -> str:
    alert = f"[{condition.alert}](alerts.md#{condition.alert.lower()})" if condition.alert else ""
    remedy = condition.remedy.replace("{id}", "ID")
    return f"| `{condition.like}` | {condition.severity.value} | {condition.meaning} | {remedy} | {alert} |"
