"""Which cards draw hardly more than idle ones, and which of these are fully busy all the same: hung."""

from __future__ import annotations

_CARD = "cluster, job, instance, id"
_ABOVE_IDLE = "accelerator:power_above_idle:ratio"
_ACTIVITY, _BANDWIDTH = "accelerator_memory_activity_ratio", "accelerator_memory_bandwidth_ratio"
# A card that waits for another one draws as much as one that decodes for a single user, but leaves its memory alone.
AT_REST = (
    f"({_ABOVE_IDLE} < $rest_share_alone or {_ABOVE_IDLE} < $rest_share and on ({_CARD}) ({_ACTIVITY} or {_BANDWIDTH}))"
    f" unless on ({_CARD}) ({_ACTIVITY} > $quiet_ratio or {_BANDWIDTH} > $quiet_ratio)"
)
HUNG = (
    "min_over_time(accelerator_utilization_ratio[5m]) >= $hung_busy_ratio"
    f" and on ({_CARD}) ({AT_REST}) unless on ({_CARD}) accelerator_memory_used_ratio < $empty_ratio"
)
