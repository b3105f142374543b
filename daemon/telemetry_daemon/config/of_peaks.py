"""The settings about peaks: what cards can do at best that no table knows, or that was measured here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from telemetry_daemon.config import rules
from telemetry_daemon.config.about import about


@dataclass(frozen=True, slots=True)
class PeakSettings:
    """What cards of a model can do at best; it stands in place of all that is known of that model. MODEL is its exact name as in the label `model`, for example `[peaks."MTT S5000"]`. A section without numbers takes the model's peak away."""

    flops: Mapping[str, float] = field(
        default_factory=dict,
        metadata=about(
            "Dense operations in a second by data type, of the whole card.",
            example={"bf16": 4.8e14, "fp8": 9.6e14},
            name_rule=rules.dtype,
            low=1,
            high=1e20,
        ),
    )
    flops_per_cycle: Mapping[str, float] = field(
        default_factory=dict,
        metadata=about(
            "Dense operations in one cycle of the whole card, by data type; estimates of FLOP/s need it.",
            example={"bf16": 262144},
            name_rule=rules.dtype,
            low=1,
            high=1e12,
        ),
    )
    memory_bytes_per_second: float | None = field(
        default=None,
        metadata=about(
            "Bytes between the card and its memory in a second, both directions together.",
            example=1.6e12,
            low=1,
            high=1e16,
        ),
    )
    origin: Literal["configured", "measured"] = field(
        default="configured",
        metadata=about("What `accelerator_info` says as `peak_origin`; `telemetry config peaks` writes `measured`."),
    )
