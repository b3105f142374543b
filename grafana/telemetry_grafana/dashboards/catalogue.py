"""All dashboards, from the fleet down to one card."""

from __future__ import annotations

from telemetry_grafana.dashboards.card import CARD
from telemetry_grafana.dashboards.fleet import FLEET
from telemetry_grafana.dashboards.jobs import JOBS
from telemetry_grafana.dashboards.monitor import MONITOR
from telemetry_grafana.dashboards.node import NODE
from telemetry_grafana.dashboards.stragglers import STRAGGLERS
from telemetry_grafana.dashboards.work import WORK

PAGES = (FLEET, NODE, CARD, STRAGGLERS, JOBS, WORK, MONITOR)
