"""Names and the additional metric that both parsers of Acme cards use."""

from __future__ import annotations

from telemetry_parsers.model import Metric

VENDOR = "acme"
# acme-smi and libacme count the cards alike.
INDEX_SPACE = "acme"

COOLANT_FLOW = Metric(
    "accelerator_acme_coolant_flow_ratio",
    "gauge",
    "ratio",
    "Coolant flow as a share of the pump's maximum (0-1).",
    0,
    1,
)
