"""All alert groups, in the order in which they matter."""

from __future__ import annotations

from telemetry_grafana.rules.health import HEALTH
from telemetry_grafana.rules.monitor import MONITOR
from telemetry_grafana.rules.presence import PRESENCE
from telemetry_grafana.rules.running import RUNNING

ALERTS = (MONITOR, PRESENCE, HEALTH, RUNNING)
