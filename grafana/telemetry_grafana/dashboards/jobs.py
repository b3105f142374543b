"""The dashboard of the owners of cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import (
    Column,
    Figure,
    Panel,
    card_table,
    number_panel,
    numbers_panel,
    stacked_panel,
)
from telemetry_grafana.dashboards.query import query
from telemetry_grafana.promql import CARD, PARTITIONS
from telemetry_grafana.rules import recording_tokens as tokens

_ON_CARD = f"on ({CARD})"
# The shares of a card's owners add up to 1.
_SHARE = "accelerator_allocation_ratio{$cards}"
_OWNER_LABELS = ("owner_kind", "owner", "user", "account")
_OWNER_KEY = ", ".join(_OWNER_LABELS)
_POWER = "accelerator_power_watts{$cards}"
_ALL_ENERGY = "accelerator_energy_estimated_joules_total{$cards}"
_ENERGY = "accelerator_allocation_energy_joules_total{$cards}"
_SECONDS = "accelerator_allocation_seconds_total{$cards}"
_BUSY_SECONDS = "accelerator_allocation_busy_seconds_total{$cards}"
_MEMORY = "accelerator_allocation_memory_used_bytes{$cards}"
_LOW_HEIGHT = 7
_CARD_LABELS = ("instance", "vendor", "device", "owner", "user")
_GROUP_LABELS = "user, pod_namespace, account"
_ALLOCATION = "max without (basis) (accelerator_allocation_ratio{$cards})"
_JOB_LABELS = "job_id, user"
_STEPS_JOB_LABELS = "cluster, job_id"
_JOB_UTILIZATION = "accelerator:allocation_utilization_ratio:rate5m{$cards}"


def _multiply_by_share(metric: str) -> str:
    return f"{_SHARE} * {_ON_CARD} group_left () {metric}{{$cards}}"


def _increase(counter: str, labels: str) -> str:
    return f"sum by ({labels}) (increase({counter}[$__range]))"


def _if_memory_known(promql: str, labels: str, time_range: str = "") -> str:
    """Limit an expression to owners whose memory use is known on all of their cards."""
    cards = [f"last_over_time({series}{time_range})" if time_range else series for series in (_MEMORY, _SECONDS)]
    return f"{promql} and (count by ({labels}) ({cards[0]}) == count by ({labels}) ({cards[1]}))"


def _mean_utilization(labels: str) -> str:
    """Return an expression for the mean utilization of each group's cards, weighted by the owners' shares."""
    shares = f"{_SHARE} and {_ON_CARD} accelerator_utilization_ratio"
    return f"sum by ({labels}) ({_multiply_by_share('accelerator_utilization_ratio')}) / sum by ({labels}) ({shares})"


_CURRENT_OWNERS = card_table(
    "Who has cards",
    "Every owner with its current cards. Shared cards count by their shares. n/a: not reported.",
    _OWNER_LABELS,
    (
        Column("cards", f"sum by ({_OWNER_KEY}) ({_SHARE})", decimals=2),
        Column("utilization", _mean_utilization(_OWNER_KEY), "percentunit"),
        Column("power", f"sum by ({_OWNER_KEY}) ({_multiply_by_share('accelerator_power_watts')})", "watt", decimals=1),
        Column("memory", _if_memory_known(f"sum by ({_OWNER_KEY}) ({_MEMORY})", _OWNER_KEY), "bytes", decimals=1),
    ),
    sort=("-cards",),
)


def _usage_table(subject: str, labels: Sequence[str]) -> Panel:
    by_labels = ", ".join(labels)
    return card_table(
        f"By {subject}",
        f"What each {subject} used in the time range, including ended jobs: card hours, the share of these hours in which the "
        "cards computed, energy, and the highest memory use on one card.",
        labels,
        (
            Column("card hours", f"{_increase(_SECONDS, by_labels)} / 3600", "suffix: h", decimals=1),
            Column("busy", f"{_increase(_BUSY_SECONDS, by_labels)} / {_increase(_SECONDS, by_labels)}", "percentunit"),
            Column("energy", f"{_increase(_ENERGY, by_labels)} / 3600", "watth"),
            Column(
                "peak mem",
                _if_memory_known(f"max by ({by_labels}) (max_over_time({_MEMORY}[$__range]))", by_labels, "[$__range]"),
                "bytes",
            ),
        ),
        sort=("-card hours",),
    ).with_size(12, _LOW_HEIGHT)


def _owner_series(title: str, description: str, unit: str, promql: str) -> Panel:
    return stacked_panel(title, description, unit, query(promql, "{{user}} {{pod_namespace}} {{account}}"))


def _half_width_table(empty_text: str, title: str, description: str, labels: Sequence[str], *columns: Column) -> Panel:
    sort = (columns[-2 if len(columns) > 1 else 0].heading,)
    return card_table(title, description, labels, columns, sort).with_size(12, _LOW_HEIGHT).with_empty_text(empty_text)


def _token_table(title: str, description: str, labels: Sequence[str], columns: Mapping[str, str]) -> Panel:
    headings = tuple(columns)
    units = {"power": "watt", "J/token": "joule"}
    return card_table(
        title,
        description,
        labels,
        [Column(heading, promql, units.get(heading, "short"), decimals=2) for heading, promql in columns.items()],
        sort=(f"-{headings[-2]}",),
    ).with_size(8, _LOW_HEIGHT)


def _select_clusters(series: str) -> str:
    return f'{series}{{cluster=~"$$cluster"}}'


_MODEL_LABELS = "cluster, model_name"
_JOB_TOKENS = f"sum by ({_STEPS_JOB_LABELS}) (rate(telemetry_steps_tokens_total{{$nodes}}[$__rate_interval]))"

JOBS = Page(
    uid="telemetry-jobs",
    title="Accelerators: jobs and owners",
    description=(
        "The owners of cards (pods, jobs, containers and users), what they use, and what it costs. A card's shares add up to one, so "
        "owners and unallocated use together equal the cards' totals. Requires attribution (docs/owners.md)."
    ),
    sections={
        "Now": (
            number_panel(
                "Owners",
                "Owners that have a card, or a part of one.",
                f"count(count by (owner_kind, owner) ({_SHARE}))",
            ),
            number_panel("Allocated cards", "Allocated cards. Shared cards count by their shares.", f"sum({_SHARE})"),
            number_panel(
                "Free cards",
                "Cards that are up and unallocated.",
                f"count((accelerator_up{{$cards}} == 1) unless {_ON_CARD} {PARTITIONS} unless {_ON_CARD} accelerator_allocation_ratio)"
                " or 0 * count(accelerator_up{$cards})",
            ),
            numbers_panel(
                "Power",
                "Power of allocated cards, and power of unallocated cards.",
                Figure("of owners", f"sum({_multiply_by_share('accelerator_power_watts')})", "watt"),
                Figure(
                    "unallocated",
                    f"sum({_POWER}) - (sum({_multiply_by_share('accelerator_power_watts')}) or 0 * sum({_POWER}))",
                    "watt",
                ),
            ),
            numbers_panel(
                "Energy in the time range",
                "Energy as the daemons estimate it. Unallocated: the cards' energy without the part of the owners.",
                Figure("of owners", f"sum(increase({_ENERGY}[$__range])) / 3600", "watth"),
                Figure(
                    "unallocated",
                    f"(sum(increase({_ALL_ENERGY}[$__range])) - (sum(increase({_ENERGY}[$__range]))"
                    f" or 0 * sum(increase({_ALL_ENERGY}[$__range])))) / 3600",
                    "watth",
                ),
            ),
            _CURRENT_OWNERS,
        ),
        "Over time": (
            _owner_series(
                "Allocated cards",
                "Cards by user, namespace and account; the sum is all allocated cards.",
                "short",
                f"sum by ({_GROUP_LABELS}) ({_SHARE})",
            ),
            _owner_series(
                "Power",
                "Power of each owner's cards. A shared card counts by the owner's share.",
                "watt",
                f"sum by ({_GROUP_LABELS}) ({_multiply_by_share('accelerator_power_watts')})",
            ),
        ),
        "Use and cost": (
            _usage_table("user", ("user",)),
            _usage_table("account", ("account",)),
            _usage_table("namespace", ("pod_namespace",)),
            _usage_table("job", ("job_id", "user")),
        ),
        "Idle and slow": (
            _half_width_table(
                "no card",
                "Idle owners",
                "Cards that computed nothing for half an hour, with their owners.",
                _CARD_LABELS,
                Column(
                    "share",
                    f"{_ALLOCATION} and {_ON_CARD} (avg_over_time(accelerator_utilization_ratio{{$cards}}[30m]) < 0.02)",
                    "percentunit",
                ),
            ),
            _half_width_table(
                "no job has whole cards",
                "Slowest card of each job",
                "Jobs with whole cards. Slowest and median: five-minute utilization of the job's cards.",
                ("job_id", "user"),
                Column("cards", f"count by ({_JOB_LABELS}) ({_JOB_UTILIZATION})"),
                Column("nodes", f"count by ({_JOB_LABELS}) (count by ({_JOB_LABELS}, instance) ({_JOB_UTILIZATION}))"),
                Column("slowest", f"min by ({_JOB_LABELS}) ({_JOB_UTILIZATION})", "percentunit"),
                Column("median", f"quantile by ({_JOB_LABELS}) (0.5, {_JOB_UTILIZATION})", "percentunit"),
            ),
        ),
    },
    collapsed={
        "Tokens": (
            _token_table(
                "Tokens by model",
                "Output tokens, counted by inference servers (vLLM, SGLang, TGI) in pods with cards, and energy per token.",
                ("model_name",),
                {
                    "tokens/s": f"sum by ({_MODEL_LABELS}) ({_select_clusters(tokens.TOKENS)})",
                    "power": f"sum by ({_MODEL_LABELS}) ({_select_clusters(tokens.WATTS)})",
                    "J/token": _select_clusters(tokens.MODEL_JOULES),
                    "tokens/s/W": _select_clusters(tokens.MODEL_TOKENS_PER_WATT),
                },
            ),
            _token_table(
                "Tokens by pod",
                "Tokens and energy by pod. A shared card counts by the pods' shares.",
                ("namespace", "pod", "model_name"),
                {
                    "tokens/s": _select_clusters(tokens.TOKENS),
                    "power": _select_clusters(tokens.WATTS),
                    "J/token": _select_clusters(tokens.POD_JOULES),
                    "tokens/s/W": _select_clusters(tokens.POD_TOKENS_PER_WATT),
                },
            ),
            _token_table(
                "Tokens by job",
                "Tokens or samples of jobs that count their steps (docs/profile.md), and energy per token.",
                ("job_id",),
                {
                    "tokens/s": _JOB_TOKENS,
                    "J/token": _select_clusters(tokens.JOB_JOULES),
                    "tokens/s/W": _select_clusters(tokens.JOB_TOKENS_PER_WATT),
                },
            ),
        ),
        "Foreign processes and unknown devices": (
            _half_width_table(
                "no card, or processes are not reported",
                "Foreign processes",
                "Cards whose memory is used by processes that do not belong to the owner.",
                _CARD_LABELS,
                Column(
                    "memory",
                    f"({_ALLOCATION} > bool -1) * {_ON_CARD} group_left () (accelerator_foreign_memory_bytes{{$cards}} > 0)",
                    "bytes",
                ),
            ),
            _half_width_table(
                "none",
                "Unknown device names",
                "Devices that a scheduler allocated, but that no node has. Their owners are missing above. `telemetry doctor` lists them.",
                ("instance", "source"),
                Column("names", "telemetry_claims_unresolved{$nodes} > 0"),
            ),
        ),
    },
)
