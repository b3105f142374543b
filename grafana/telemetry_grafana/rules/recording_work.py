"""Recording rules of achieved work: estimates, each with `estimate` in its name and the data type that it assumes as a label.

Only shares of cycles and of transfers enter a product. Shares of time, such as utilization, say nothing of work done: one thread is enough.
"""

from __future__ import annotations

from telemetry_grafana.promql import DEVICE_LABELS, TARGET_LABELS
from telemetry_grafana.rules.record import Recording, RecordingGroup, device

_CARD = "on (cluster, job, instance, id) group_left ()"
# What computes: NVIDIA tells the same clock as sm and as graphics, others have one of them.
_CLOCK = 'max without (domain) (accelerator_clock_hertz{domain=~"graphics|sm"})'
# The matrix pipe of 16-bit formats, where pipes are told; else all matrix units together.
_MATRIX = 'max without (pipe) (accelerator_pipe_active_ratio{pipe="tensor_hmma"}) or accelerator_tensor_active_ratio'
_PER_DTYPE = DEVICE_LABELS | {"dtype"}
CEILING = "accelerator:flops_ceiling:estimate"
FLOPS = "accelerator:flops:estimate"
SHARE = "accelerator:peak_flops_ratio:estimate"
LOST = "accelerator:lost_to_clocks_ratio:estimate"
BYTES = "accelerator:memory_bytes_per_second:estimate"
INTENSITY = "accelerator:arithmetic_intensity:estimate"
STEP_RATE = "telemetry_steps:rate5m"
_RANK_LABELS = TARGET_LABELS | {"id", "job_id", "rank"}

WORK = RecordingGroup(
    "telemetry-work",
    (
        Recording(
            CEILING,
            f"accelerator_flops_per_cycle * {_CARD} ({_CLOCK})",
            _PER_DTYPE,
            "FLOP/s that the card could do at the clock of this moment.",
        ),
        Recording(
            FLOPS,
            f"{CEILING} * {_CARD} ({_MATRIX})",
            _PER_DTYPE,
            "FLOP/s that the matrix units did at most: their active cycles, the clock now, and every lane at work in the data type of the label.",
        ),
        Recording(
            SHARE,
            f"{FLOPS} / on (cluster, job, instance, id, dtype) group_left () (accelerator_peak_flops > 0)",
            _PER_DTYPE,
            "The same as a share of the quoted peak.",
        ),
        Recording(
            LOST,
            f"clamp_min(1 - {CEILING} / on (cluster, job, instance, id, dtype) group_left () (accelerator_peak_flops > 0), 0)"
            " and on (cluster, job, instance, id) accelerator_utilization_ratio > 0.05",
            _PER_DTYPE,
            "The part of the quoted peak that is out of reach at the clock of this moment, of cards that work; 0 at the quoted clock or above.",
        ),
        device(
            BYTES,
            "accelerator_memory_bandwidth_ratio * on (cluster, job, instance, id) group_left () accelerator_peak_memory_bytes_per_second",
            "Bytes a second between the card and its memory, by the share of its transfers.",
        ),
        Recording(
            INTENSITY,
            f"{FLOPS} / {_CARD} ({BYTES} > 0)",
            _PER_DTYPE,
            "Operations for each byte that is moved: the card's place on its roofline.",
        ),
        Recording(
            STEP_RATE,
            "rate(telemetry_steps_total[5m])",
            _RANK_LABELS,
            "Steps a second of each rank, as its job counts them.",
        ),
    ),
)
