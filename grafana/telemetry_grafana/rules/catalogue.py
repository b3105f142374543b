"""All alert groups, in the order in which they matter."""

from __future__ import annotations

from telemetry_grafana.rules.broken import BROKEN
from telemetry_grafana.rules.full_load import FULL_LOAD
from telemetry_grafana.rules.heat_and_speed import HEAT_AND_SPEED
from telemetry_grafana.rules.monitor import MONITOR
from telemetry_grafana.rules.owners import OWNERS
from telemetry_grafana.rules.presence import PRESENCE

ALERTS = (MONITOR, PRESENCE, BROKEN, HEAT_AND_SPEED, FULL_LOAD, OWNERS)
