"""Achieved work: estimated FLOP/s and bytes a second of each card beside its peak, its power and the steps of its job."""

from __future__ import annotations

from telemetry_grafana.dashboards import shared
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import (
    Column,
    Figure,
    card_table,
    heatmap,
    lines,
    number,
    numbers,
    ranking,
    rising,
)
from telemetry_grafana.dashboards.query import Query, by_card, by_model, highest, not_reported, query
from telemetry_grafana.promql import CARD
from telemetry_grafana.rules.recording import BYTES, CEILING, FLOPS, INTENSITY, LOST, SHARE, STEP_RATE

_ON_CARD = f"on ({CARD})"
_FEW = 8
_ESTIMATE = "An estimate: active cycles of the matrix units × FLOP per cycle × the clock now, if all work is in the data type of the label."
_PEAK_MEMORY = "accelerator_peak_memory_bytes_per_second{$cards}"
_ROOF = f"({INTENSITY}{{$cards}} * {_ON_CARD} group_left () {_PEAK_MEMORY} < {CEILING}{{$cards}} or {CEILING}{{$cards}} and {INTENSITY}{{$cards}})"
_RIDGE = f"{CEILING}{{$cards}} / {_ON_CARD} group_left () {_PEAK_MEMORY}"
# The power and the steps of a rank; ranks of one card share its power.
_OF_JOB = "cluster, job, job_id"
_RANKS_OF_CARD = f"count by ({CARD}) ({STEP_RATE}{{$nodes}})"
_RANK_WATTS = f"({STEP_RATE}{{$nodes}} > bool -1) * {_ON_CARD} group_left () (accelerator:power_watts:rate5m{{$cards}} / {_ON_CARD} {_RANKS_OF_CARD})"
_JOULES_PER_STEP = f"sum by ({_OF_JOB}) ({_RANK_WATTS}) / max by ({_OF_JOB}) ({STEP_RATE}{{$nodes}} > 0)"
_TOKEN_RATE = f"sum by ({_OF_JOB}) (rate(telemetry_steps_tokens_total{{$nodes}}[$__rate_interval]))"
_PARTS = "telemetry_steps_seconds_total{$nodes}"
_ROW = shared.ROW.replace("(", "(dtype, ")
# An idle card loses nothing to its low clocks.
_LOST = f"({LOST}{{$cards}} and {_ON_CARD} accelerator:utilization_ratio:rate5m{{$cards}} > 0.05)"


def _of_most(text: str) -> Query:
    """Return the series of the few jobs with the highest values in the time shown."""
    return query(f"({text}) and topk({_FEW}, max_over_time(({text})[$__range:1m] @ end()))", "{{job_id}}")


_ROOFLINES = card_table(
    "Each card on its roofline",
    "What the card does, and what it could do at this intensity and at the clock of this moment: below the ridge its memory is the roof, "
    f"above it its matrix units. {_ESTIMATE}",
    (*shared.CARD_LABELS, "dtype"),
    (
        Column("FLOP/s", f"max {_ROW} ({FLOPS}{{$cards}})", "flops", decimals=1),
        Column("roof here", f"max {_ROW} ({_ROOF})", "flops", decimals=1),
        Column("ceiling now", f"max {_ROW} ({CEILING}{{$cards}})", "flops", decimals=1),
        Column("of the peak", f"max {_ROW} ({SHARE}{{$cards}})", "percentunit", decimals=1),
        Column("lost to clocks", f"max {_ROW} ({_LOST})", "percentunit", rising(0.1, 0.3), decimals=1),
        Column("intensity", f"max {_ROW} ({INTENSITY}{{$cards}})", decimals=0),
        Column("ridge", f"max {_ROW} ({_RIDGE} and {_ON_CARD} {FLOPS}{{$cards}})", decimals=0),
    ),
    sort=("of the peak",),
)


WORK = Page(
    uid="telemetry-work",
    title="Accelerators: achieved work",
    description=(
        "From utilization to work done. Utilization says that something ran; here is what the matrix units and the memory did at most, and what the "
        "clocks took away. Vendors that report neither are n/a. Where a job counts its steps, these stand beside its cards (docs/profile.md)."
    ),
    sections={
        "Now": (
            number("FLOP/s", f"Of all cards together. {_ESTIMATE}", f"sum({FLOPS}{{$cards}})", "flops"),
            number(
                "Of the peak",
                "Estimated FLOP/s as a share of the quoted peaks of those cards.",
                f"avg({SHARE}{{$cards}})",
                "percentunit",
            ),
            number(
                "Lost to clocks",
                "The part of the peaks of busy cards that is out of reach at the clocks of this moment.",
                f"avg({_LOST})",
                "percentunit",
            ),
            numbers(
                "Steps",
                "What jobs count: steps and tokens a second, and the energy of a token.",
                Figure("steps/s of the slowest job", f"min(max by ({_OF_JOB}) ({STEP_RATE}{{$nodes}}))", "short"),
                Figure("tokens/s", f"sum({_TOKEN_RATE})", "short"),
                Figure(
                    "joules per token",
                    f"sum(sum by ({_OF_JOB}) ({_RANK_WATTS}) and {_TOKEN_RATE} > 0) / sum({_TOKEN_RATE})",
                    "joule",
                ),
            ),
            _ROOFLINES,
        ),
        "Work and power": (
            lines(
                "Estimated FLOP/s",
                f"The cards that came highest. {_ESTIMATE}",
                "flops",
                highest(f"{FLOPS}{{$cards}}", "{{instance}} {{device}} {{dtype}}", CARD, _FEW),
                not_reported("accelerator_pipe_active_ratio{$cards}", "accelerator_tensor_active_ratio{$cards}"),
            ),
            lines(
                "Power of the same cards",
                "Five-minute averages; a card that draws much and does little waits, or works in another data type.",
                "watt",
                query(
                    f"accelerator:power_watts:rate5m{{$cards}} and {_ON_CARD} topk({_FEW}, max_over_time({FLOPS}{{$cards}}[$__range] @ end()))",
                    "{{instance}} {{device}}",
                ),
            ),
            lines(
                "Memory traffic",
                "Bytes a second by the share of transfers; not by the share of time in which memory was touched, which says nothing of work.",
                "Bps",
                highest(f"{BYTES}{{$cards}}", "{{instance}} {{device}}", CARD, _FEW),
                not_reported("accelerator_memory_bandwidth_ratio{$cards}"),
            ),
            lines(
                "Lost to clocks",
                "The part of the quoted peak that is out of reach at the clock of the moment: power caps, heat, or a fixed clock.",
                "percentunit",
                highest(f"{LOST}{{$cards}}", "{{instance}} {{device}} {{dtype}}", CARD, _FEW),
            ),
        ),
        "The cluster": (
            heatmap(
                "Share of the peak",
                "Each card by its estimated share of the quoted peak.",
                "percentunit",
                by_card(f"max {shared.ROW} ({SHARE}{{$cards}})"),
            ),
            ranking(
                "Below their peers",
                "How much less of the peak the cards reach than the median of their model on the same node.",
                "percentunit",
                f"topk(10, quantile by (cluster, job, instance, vendor, model) (0.5, {SHARE}{{$cards}}) - on (cluster, job, instance, vendor, model) group_right () {SHARE}{{$cards}})",
                rising(0.05, 0.15),
            ),
            lines(
                "Models",
                "The median share of the peak by model.",
                "percentunit",
                by_model(f"quantile by (vendor, model) (0.5, {SHARE}{{$cards}})"),
            ).sized(16, 8),
        ),
        "Steps of jobs": (
            lines(
                "Step time",
                "Seconds of a step, of the slowest rank of the jobs with the longest steps.",
                "s",
                _of_most(f"(1 / min by ({_OF_JOB}) ({STEP_RATE}{{$nodes}} > 0))"),
            ),
            lines(
                "Where the time of steps goes",
                "Parts of a step as jobs measure them, of all ranks of all jobs together.",
                "percentunit",
                query(
                    f"sum by (part) (rate({_PARTS}[$__rate_interval])) / scalar(sum(rate({_PARTS}[$__rate_interval])))",
                    "{{part}}",
                ),
            ),
            lines(
                "Joules per step",
                "Energy of all cards of a job for one step: the jobs that need most.",
                "joule",
                _of_most(f"({_JOULES_PER_STEP})"),
            ),
            lines(
                "FLOP/s as jobs count them",
                "What the steps needed, as the jobs that did most state it: no estimate of ours.",
                "flops",
                _of_most(f"sum by ({_OF_JOB}) (rate(telemetry_steps_flops_total{{$nodes}}[$__rate_interval]))"),
            ),
        ),
    },
)
