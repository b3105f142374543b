"""The dashboard of achieved work and job steps."""

from __future__ import annotations

from telemetry_grafana.dashboards import shared
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import (
    Column,
    Figure,
    card_table,
    heatmap_panel,
    line_panel,
    number_panel,
    numbers_panel,
    ranking_panel,
    rising,
)
from telemetry_grafana.dashboards.query import (
    Query,
    not_reported_query,
    query,
    query_by_card,
    query_by_model,
    top_series_query,
)
from telemetry_grafana.promql import CARD
from telemetry_grafana.rules.recording import CEILING, FLOPS, INTENSITY, LOST_RATIO, PEAK_RATIO, STEP_RATE, TRAFFIC

_ON_CARD = f"on ({CARD})"
_MAX_SERIES = 8
_ESTIMATE = "Estimated as active cycles of the matrix units × FLOP per cycle × current clock, as if all work had the data type of the label."
_PEAK_MEMORY = "accelerator_peak_memory_bytes_per_second{$cards}"
_ROOF = f"({INTENSITY}{{$cards}} * {_ON_CARD} group_left () {_PEAK_MEMORY} < {CEILING}{{$cards}} or {CEILING}{{$cards}} and {INTENSITY}{{$cards}})"
_RIDGE = f"{CEILING}{{$cards}} / {_ON_CARD} group_left () {_PEAK_MEMORY}"
# Ranks on the same card share the card's power equally.
_JOB_LABELS = "cluster, job, job_id"
_RANKS_OF_CARD = f"count by ({CARD}) ({STEP_RATE}{{$nodes}})"
_RANK_WATTS = f"({STEP_RATE}{{$nodes}} > bool -1) * {_ON_CARD} group_left () (accelerator:power_watts:rate5m{{$cards}} / {_ON_CARD} {_RANKS_OF_CARD})"
_JOULES_PER_STEP = f"sum by ({_JOB_LABELS}) ({_RANK_WATTS}) / max by ({_JOB_LABELS}) ({STEP_RATE}{{$nodes}} > 0)"
_TOKEN_RATE = f"sum by ({_JOB_LABELS}) (rate(telemetry_steps_tokens_total{{$nodes}}[$__rate_interval]))"
_STEP_PARTS = "telemetry_steps_seconds_total{$nodes}"
_BY_CARD_AND_DTYPE = shared.BY_CARD.replace("(", "(dtype, ")
# Idle cards are excluded, because their low clocks are not a loss.
_LOST = f"({LOST_RATIO}{{$cards}} and {_ON_CARD} accelerator:utilization_ratio:rate5m{{$cards}} > 0.05)"


def _top_jobs(promql: str) -> Query:
    return query(f"({promql}) and topk({_MAX_SERIES}, max_over_time(({promql})[$__range:1m] @ end()))", "{{job_id}}")


_ROOFLINES = card_table(
    "Each card on its roofline",
    "Each card's FLOP/s, and the limit at its arithmetic intensity and current clock. Below the ridge, memory is "
    f"the limit; above it, the matrix units are. {_ESTIMATE}",
    (*shared.CARD_LABELS, "dtype"),
    (
        Column("FLOP/s", f"max {_BY_CARD_AND_DTYPE} ({FLOPS}{{$cards}})", "flops", decimals=1),
        Column("roof here", f"max {_BY_CARD_AND_DTYPE} ({_ROOF})", "flops", decimals=1),
        Column("ceiling now", f"max {_BY_CARD_AND_DTYPE} ({CEILING}{{$cards}})", "flops", decimals=1),
        Column("of the peak", f"max {_BY_CARD_AND_DTYPE} ({PEAK_RATIO}{{$cards}})", "percentunit", decimals=1),
        Column("lost to clocks", f"max {_BY_CARD_AND_DTYPE} ({_LOST})", "percentunit", rising(0.1, 0.3), decimals=1),
        Column("intensity", f"max {_BY_CARD_AND_DTYPE} ({INTENSITY}{{$cards}})", decimals=0),
        Column("ridge", f"max {_BY_CARD_AND_DTYPE} ({_RIDGE} and {_ON_CARD} {FLOPS}{{$cards}})", decimals=0),
    ),
    sort=("-lost to clocks", "of the peak"),
)

WORK = Page(
    uid="telemetry-work",
    title="Accelerators: achieved work",
    description=(
        "Utilization only shows that something ran. This dashboard shows an upper bound of the work that the matrix units and the memory did, "
        "and the loss from low clocks. n/a: the value needs a reading that is missing. Jobs may also count their steps (docs/profile.md)."
    ),
    sections={
        "Now": (
            number_panel("FLOP/s", f"The sum of all cards. {_ESTIMATE}", f"sum({FLOPS}{{$cards}})", "flops"),
            number_panel(
                "Of the peak",
                "Estimated FLOP/s as a share of the cards' quoted peaks.",
                f"avg({PEAK_RATIO}{{$cards}})",
                "percentunit",
            ),
            number_panel(
                "Lost to clocks",
                "The part of the peaks that busy cards cannot reach at their current clocks.",
                f"avg({_LOST})",
                "percentunit",
            ),
            numbers_panel(
                "Steps",
                "Steps and tokens per second, as jobs report them, and energy per token.",
                Figure("steps/s of the slowest job", f"min(max by ({_JOB_LABELS}) ({STEP_RATE}{{$nodes}}))", "short"),
                Figure("tokens/s", f"sum({_TOKEN_RATE})", "short"),
                Figure(
                    "joules per token",
                    f"sum(sum by ({_JOB_LABELS}) ({_RANK_WATTS}) and {_TOKEN_RATE} > 0) / sum({_TOKEN_RATE})",
                    "joule",
                ),
            ),
            _ROOFLINES,
        ),
        "Work and power": (
            line_panel(
                "Estimated FLOP/s",
                f"The cards with the highest values. {_ESTIMATE}",
                "flops",
                top_series_query(f"{FLOPS}{{$cards}}", "{{instance}} {{device}} {{dtype}}", CARD, _MAX_SERIES),
                not_reported_query("accelerator_pipe_active_ratio{$cards}", "accelerator_tensor_active_ratio{$cards}"),
            ),
            line_panel(
                "Power of the cards with the highest FLOP/s",
                "Five-minute averages. A card with high power and little work is waiting, or uses another data type.",
                "watt",
                query(
                    f"accelerator:power_watts:rate5m{{$cards}} and {_ON_CARD} topk({_MAX_SERIES}, max_over_time({FLOPS}{{$cards}}[$__range] @ end()))",
                    "{{instance}} {{device}}",
                ),
            ),
            line_panel(
                "Memory traffic",
                "Bytes per second, computed from the share of the memory bandwidth in use.",
                "Bps",
                top_series_query(f"{TRAFFIC}{{$cards}}", "{{instance}} {{device}}", CARD, _MAX_SERIES),
                not_reported_query("accelerator_memory_bandwidth_ratio{$cards}"),
            ),
            line_panel(
                "Lost to clocks",
                "The part of the quoted peak that cannot be reached at the current clock, because of power caps, heat, or a fixed clock.",
                "percentunit",
                top_series_query(f"{LOST_RATIO}{{$cards}}", "{{instance}} {{device}} {{dtype}}", CARD, _MAX_SERIES),
            ),
        ),
        "The cluster": (
            heatmap_panel(
                "Share of the peak",
                "Each card's estimated share of the quoted peak.",
                "percentunit",
                query_by_card(f"max {shared.BY_CARD} ({PEAK_RATIO}{{$cards}})"),
            ),
            ranking_panel(
                "Below their peers",
                "The gap between a card and the median of its model on the same node, as a share of the peak.",
                "percentunit",
                f"topk(10, quantile by (cluster, job, instance, vendor, model) (0.5, {PEAK_RATIO}{{$cards}}) - on (cluster, job, instance, vendor, model) group_right () {PEAK_RATIO}{{$cards}})",
                rising(0.05, 0.15),
            ),
            line_panel(
                "Models",
                "The median share of the peak by model.",
                "percentunit",
                query_by_model(f"quantile by (vendor, model) (0.5, {PEAK_RATIO}{{$cards}})"),
            ).with_size(16, 8),
        ),
        "Steps of jobs": (
            line_panel(
                "Step time",
                "Seconds per step of each job's slowest rank, for the jobs with the longest steps.",
                "s",
                _top_jobs(f"(1 / min by ({_JOB_LABELS}) ({STEP_RATE}{{$nodes}} > 0))"),
            ),
            line_panel(
                "Parts of the step time",
                "Each part's share of the step time of all jobs, as the jobs measure it.",
                "percentunit",
                query(
                    f"sum by (part) (rate({_STEP_PARTS}[$__rate_interval])) / scalar(sum(rate({_STEP_PARTS}[$__rate_interval])))",
                    "{{part}}",
                ),
            ),
            line_panel(
                "Joules per step",
                "Energy that all cards of a job use for one step, for the jobs with the highest values.",
                "joule",
                _top_jobs(f"({_JOULES_PER_STEP})"),
            ),
            line_panel(
                "FLOP/s as jobs count them",
                "Counted by the jobs themselves, not estimated. The chart shows the jobs with the highest values.",
                "flops",
                _top_jobs(f"sum by ({_JOB_LABELS}) (rate(telemetry_steps_flops_total{{$nodes}}[$__rate_interval]))"),
            ),
        ),
    },
)
