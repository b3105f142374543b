"""The links of one card: PCIe, and those between cards."""

from __future__ import annotations

from telemetry_grafana.dashboards.panels import GREEN, RED, lines, states
from telemetry_grafana.dashboards.query import of_cards

# Most sources read traffic every minute and errors every five: a rate is taken over four times that, at least.
_TRAFFIC_STEP, _ERRORS_STEP = "2m", "5m"


LINKS = (
    lines(
        "PCIe traffic",
        "Bytes received and sent, averaged over eight minutes: most cards are asked once a minute.",
        "Bps",
        *of_cards(
            ("rate(accelerator_pcie_receive_bytes_total{$cards}[$__rate_interval])", "received"),
            ("rate(accelerator_pcie_transmit_bytes_total{$cards}[$__rate_interval])", "sent"),
            ("accelerator_pcie_receive_bytes_per_second{$cards}", "received, measured"),
            ("accelerator_pcie_transmit_bytes_per_second{$cards}", "sent, measured"),
            ("accelerator_pcie_bandwidth_bytes_per_second{$cards}", "both ways, measured"),
        ),
        least_step=_TRAFFIC_STEP,
    ).sized(width=8),
    lines(
        "PCIe link",
        "Generation and lanes as they run, and at most.",
        "short",
        *of_cards(
            ("accelerator_pcie_link_generation{$cards}", "generation"),
            ("accelerator_pcie_link_generation_max{$cards}", "generation at most"),
            ("accelerator_pcie_link_width{$cards}", "lanes"),
            ("accelerator_pcie_link_width_max{$cards}", "lanes at most"),
        ),
    ).sized(width=8),
    lines(
        "PCIe errors",
        "Packets sent again and errors a minute, averaged over twenty; an error may count as several kinds.",
        "cpm",
        *of_cards(
            ("60 * rate(accelerator_pcie_replays_total{$cards}[$__rate_interval])", "sent again"),
            ("60 * rate(accelerator_pcie_errors_total{$cards}[$__rate_interval])", "{{kind}}"),
        ),
        least_step=_ERRORS_STEP,
    ).sized(width=8),
    lines(
        "Traffic between cards",
        "NVLink, XGMI, MTLink, HCCS, averaged over eight minutes: most cards are asked once a minute.",
        "Bps",
        *of_cards(
            ("rate(accelerator_link_receive_bytes_total{$cards}[$__rate_interval])", "{{link}} received"),
            ("rate(accelerator_link_transmit_bytes_total{$cards}[$__rate_interval])", "{{link}} sent"),
        ),
        least_step=_TRAFFIC_STEP,
    ),
    lines(
        "Link errors",
        "Errors a minute on the links between cards, averaged over twenty minutes.",
        "cpm",
        *of_cards(
            ("60 * rate(accelerator_link_crc_errors_total{$cards}[$__rate_interval])", "{{link}} checksum"),
            ("60 * rate(accelerator_link_replay_errors_total{$cards}[$__rate_interval])", "{{link}} replay"),
            ("60 * rate(accelerator_link_recovery_errors_total{$cards}[$__rate_interval])", "{{link}} recovery"),
            ("60 * rate(accelerator_link_receive_errors_total{$cards}[$__rate_interval])", "{{link}} received wrong"),
            ("60 * rate(accelerator_link_transmit_errors_total{$cards}[$__rate_interval])", "{{link}} sent wrong"),
        ),
        least_step=_ERRORS_STEP,
    ),
)
LINKS_UP = states(
    "Links up",
    "Whether each link is up.",
    {"0": ("down", RED), "1": ("up", GREEN)},
    *of_cards(("accelerator_link_up{$cards}", "link {{link}}")),
).sized(height=11)
