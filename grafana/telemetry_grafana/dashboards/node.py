"""The dashboard of one node: its cards side by side over time."""

from __future__ import annotations

from telemetry_grafana.dashboards import shared
from telemetry_grafana.dashboards.page import Page
from telemetry_grafana.dashboards.panels import GREEN, RED, Column, Figure, card_table, lines, numbers, states
from telemetry_grafana.dashboards.query import named, not_reported, of_node, query, side_by_side
from telemetry_grafana.promql import CARD, beginning_with
from telemetry_parsers.metrics import MEMORY_SENSORS

# Reasons that were active within the time shown.
_IN_FORCE = "max_over_time(accelerator_throttled{$cards}[$__range] @ end()) == 1"
_MEMORY_SENSORS = f'accelerator_temperature_celsius{{$cards,sensor=~"{beginning_with(MEMORY_SENSORS)}"}}'
_CORE_CLOCK = 'accelerator_clock_hertz{$cards,domain=~"graphics|sm"}'
_MEMORY_CLOCK = 'accelerator_clock_hertz{$cards,domain="memory"}'


def _total(key: str) -> str:
    return f"sum {shared.ROW} (accelerator_{key}{{$cards}})"


def _part(metric: str) -> str:
    return _of_partition(f'{metric}{{$cards}} and on ({CARD}) accelerator_info{{$cards,parent!=""}}')


def _of_partition(text: str) -> str:
    """Return the series of each partition with the number of its card as the label `card`."""
    return f'label_replace(max {shared.ROW} ({text}), "card", "$$1", "device", "([^:]*):.*")'


_ERRORS = card_table(
    "Errors of each card",
    "Memory errors, pages and rows out of use, packets sent again over PCIe and link errors since the driver was loaded, links "
    "that are down now, and "
    "events since the daemon started, and how many kinds stand open; n/a: not reported, or no event.",
    shared.CARD_LABELS,
    (
        Column("uncorrected", _total("ecc_uncorrected_total"), steps=shared.BAD),
        Column("corrected", _total("ecc_corrected_total"), steps=shared.DOUBTFUL),
        Column("pages out", _total("retired_pages"), steps=shared.DOUBTFUL),
        Column("rows out", _total("remapped_rows"), steps=shared.DOUBTFUL),
        Column("replays", shared.now_of_card("accelerator_pcie_replays_total")),
        Column("link errors", _total("link_crc_errors_total"), steps=shared.DOUBTFUL),
        Column("links down", f"sum {shared.ROW} (accelerator_link_up{{$cards}} == bool 0)", steps=shared.BAD),
        Column("events", _total("events_total"), steps=shared.DOUBTFUL),
        Column("open", _total("event_open"), steps=shared.DOUBTFUL),
    ),
    sort=("-uncorrected", "-events", "instance", "device"),
)
_PARTITIONS = card_table(
    "Partitions",
    "MIG instances, compute partitions and virtual devices with the card that they belong to.",
    ("instance", "vendor", "card", "device", "model"),
    (
        Column("", _of_partition('accelerator_info{$cards,parent!=""}')),
        Column("memory", _part("accelerator_memory_total_bytes"), "bytes"),
        Column("in use", _part("accelerator_memory_used_ratio"), "percentunit"),
        Column("utilization", _part("accelerator_utilization_ratio"), "percentunit"),
        Column("units active", _part("accelerator_sm_active_ratio"), "percentunit"),
        Column("tensor units", _part("accelerator_tensor_active_ratio"), "percentunit"),
    ),
    sort=("instance", "device"),
).saying("no card is divided")


NODE = Page(
    uid="telemetry-node",
    title="Accelerators: node",
    description="The cards of one node, or of a few, side by side.",
    few=frozenset({"node"}),
    sections={
        "Now": (
            shared.CARDS,
            shared.LOST,
            shared.FAILING,
            shared.FAILING_SOURCES,
            numbers(
                "Heat, power, host",
                f"{shared.THROTTLED_MEANS} Energy: of the cards in the time shown. Host: the busiest, and the one that was started last, of the nodes chosen.",
                shared.THROTTLED,
                Figure("Hottest card", "max(accelerator:temperature_celsius{$cards})", "celsius", shared.HOT),
                shared.POWER,
                shared.ENERGY,
                Figure("Host CPU", "max(telemetry_host_cpu_utilization_ratio{$nodes})", "percentunit"),
                Figure("Host up", "min(telemetry_host_uptime_seconds{$nodes})", "dtdhms"),
            ).sized(width=12, height=4),
            shared.ALL_CARDS.sized(height=10),
            shared.FIRING_ALERTS.sized(height=5),
        ),
        "Heat and power": (
            lines(
                "Temperature",
                "The hottest sensor of each card other than memory and board; dashed: where its hottest sensor makes the card slow down.",
                "celsius",
                of_node("accelerator:temperature_celsius{$cards}"),
                limits=(of_node("accelerator:temperature_limit_celsius{$cards}", "limit"),),
            ),
            lines(
                "Power",
                "The vendor's main figure; accelerator_info says whether it is an average. Dashed: the power limits.",
                "watt",
                of_node("accelerator_power_watts{$cards}"),
                limits=(of_node("accelerator_power_cap_watts{$cards}", "limit"),),
            ),
        ),
        "Work": (
            lines(
                "Utilization",
                "True averages, from the seconds that the daemon integrates.",
                "percentunit",
                of_node("clamp_max(rate(accelerator_busy_seconds_total{$cards}[$__rate_interval]), 1)"),
            ),
            lines(
                "Memory",
                "Device memory in use as a share of all.",
                "percentunit",
                of_node("accelerator_memory_used_ratio{$cards}"),
            ),
        ),
        "What holds cards back": (
            lines(
                "Clocks",
                "Graphics or multiprocessor clock.",
                "hertz",
                *side_by_side((f"max without (domain) ({_CORE_CLOCK})", "")),
            ),
            states(
                "Why the clocks are held down",
                "A row for each reason that was in force in the time shown, and one for each card that had none.",
                shared.HELD_DOWN,
                query(
                    named(f"{shared.held_down()} and on (cluster, job, instance, id, reason) {_IN_FORCE}"),
                    "{{card}} {{reason}}",
                ),
                of_node(
                    "max without (reason) (accelerator_throttled{$cards})"
                    f" unless on (cluster, job, instance, id) ({_IN_FORCE})"
                ),
                not_reported("accelerator_throttled{$cards}"),
            ).sized(width=12),
        ),
        "Errors, events and links": (_ERRORS,),
        "Presence": (
            states(
                "Cards",
                "Whether each card is listed; nothing if that is unknown (source failed, released).",
                {"0": ("lost", RED), "1": ("up", GREEN)},
                of_node("accelerator_up{$cards}"),
            ).sized(height=6),
        ),
    },
    folded={
        "Errors and traffic over time": (
            lines(
                "Memory errors",
                "Since the driver was loaded, all places of a card together.",
                "short",
                *side_by_side(
                    ("sum without (location) (accelerator_ecc_corrected_total{$cards})", "corrected"),
                    ("sum without (location) (accelerator_ecc_uncorrected_total{$cards})", "uncorrected"),
                ),
            ),
            states(
                "Events",
                shared.EVENTS_MEAN,
                shared.EVENT_WORDS,
                of_node("accelerator_event_open{$cards}", "{{code}}"),
                of_node(
                    "0 * accelerator_up{$cards} unless on (cluster, job, instance, id) accelerator_event_open{$cards}",
                    "no event",
                ),
            ).sized(width=12),
            lines(
                "Traffic between cards",
                "Received over NVLink, XGMI, MTLink or HCCS, averaged over eight minutes: most cards are asked once a minute.",
                "Bps",
                *side_by_side(
                    ("sum without (link) (rate(accelerator_link_receive_bytes_total{$cards}[$__rate_interval]))", "")
                ),
                least_step="2m",
            ),
            lines(
                "PCIe and link errors",
                "Packets sent again over PCIe, and checksum errors between cards, a minute, averaged over twenty.",
                "cpm",
                *side_by_side(
                    ("60 * rate(accelerator_pcie_replays_total{$cards}[$__rate_interval])", "PCIe"),
                    (
                        "60 * sum without (link) (rate(accelerator_link_crc_errors_total{$cards}[$__rate_interval]))",
                        "links",
                    ),
                ),
                least_step="5m",
            ),
        ),
        "Host": (
            lines(
                "Host CPU",
                "Share of the host's CPU time in use.",
                "percentunit",
                query("telemetry_host_cpu_utilization_ratio{$nodes}", "{{instance}}"),
            ),
            lines(
                "Host memory",
                "Host memory in use; dashed: all of it.",
                "bytes",
                query("telemetry_host_memory_used_bytes{$nodes}", "{{instance}}"),
                limits=(query("telemetry_host_memory_total_bytes{$nodes}", "{{instance}} all"),),
            ),
            lines(
                "Host load",
                "Processes that run or wait to run, averaged over one, five and fifteen minutes.",
                "short",
                query("telemetry_host_load1{$nodes}", "{{instance}} 1 minute"),
                query("telemetry_host_load5{$nodes}", "{{instance}} 5 minutes"),
                query("telemetry_host_load15{$nodes}", "{{instance}} 15 minutes"),
            ),
        ),
        "Partitions": (_PARTITIONS,),
        "What utilization hides": (
            lines(
                "Units active",
                "Share of time and units in which the card computed: multiprocessors and tensor units, where the card counts them.",
                "percentunit",
                *side_by_side(
                    ("accelerator_sm_active_ratio{$cards}", "multiprocessors"),
                    ("accelerator_tensor_active_ratio{$cards}", "tensor units"),
                ),
            ),
            lines(
                "Memory traffic",
                "Share of time in which memory was read or written, or of its bandwidth, whichever the card counts.",
                "percentunit",
                *side_by_side(
                    ("accelerator_memory_activity_ratio{$cards}", "activity"),
                    ("accelerator_memory_bandwidth_ratio{$cards}", "bandwidth"),
                ),
            ),
        ),
        "Memory heat and clocks, fans": (
            lines(
                "Memory temperature",
                "Memory and HBM sensors, the hottest of each card.",
                "celsius",
                *side_by_side((f"max without (sensor) ({_MEMORY_SENSORS})", "")),
            ),
            lines("Memory clocks", "Memory clock.", "hertz", *side_by_side((_MEMORY_CLOCK, ""))),
            lines(
                "Fans",
                "Speed as a share of the maximum.",
                "percentunit",
                *side_by_side(("accelerator_fan_ratio{$cards}", "")),
            ),
        ),
    },
)
