"""The links of one card: PCIe, and those between cards."""

from __future__ import annotations

from dataclasses import replace

from telemetry_grafana.dashboards.page import Section
from telemetry_grafana.dashboards.panels import GREEN, RED, Panel, lines, states
from telemetry_grafana.dashboards.query import query, untold

_RATE = "[$__rate_interval]"
# Most sources read traffic every minute and errors every five: a rate is taken over four times that, at least.
_TRAFFIC_STEP, _ERRORS_STEP = "2m", "5m"


def _third(panel: Panel) -> Panel:
    """The panel in a third of the width, beside two others."""
    return replace(panel, width=8)


def _tall(panel: Panel) -> Panel:
    """The panel with room for the eighteen links of a card."""
    return replace(panel, height=11)


LINKS = Section(
    "Links",
    (
        _third(
            lines(
                "PCIe traffic",
                "Bytes received and sent, averaged over eight minutes: most cards are asked once a minute.",
                "Bps",
                query(f"rate(accelerator_pcie_receive_bytes_total{{$cards}}{_RATE})", "{{device}} received"),
                query(f"rate(accelerator_pcie_transmit_bytes_total{{$cards}}{_RATE})", "{{device}} sent"),
                query("accelerator_pcie_receive_bytes_per_second{$cards}", "{{device}} received, measured"),
                query("accelerator_pcie_transmit_bytes_per_second{$cards}", "{{device}} sent, measured"),
                query("accelerator_pcie_bandwidth_bytes_per_second{$cards}", "{{device}} both ways, measured"),
                untold(
                    "accelerator_pcie_receive_bytes_total{$cards}",
                    "accelerator_pcie_transmit_bytes_total{$cards}",
                    "accelerator_pcie_receive_bytes_per_second{$cards}",
                    "accelerator_pcie_transmit_bytes_per_second{$cards}",
                    "accelerator_pcie_bandwidth_bytes_per_second{$cards}",
                ),
                least_step=_TRAFFIC_STEP,
            )
        ),
        _third(
            lines(
                "PCIe link",
                "Generation and lanes as they run, and at most.",
                "short",
                query("accelerator_pcie_link_generation{$cards}", "{{device}} generation"),
                query("accelerator_pcie_link_generation_max{$cards}", "{{device}} generation at most"),
                query("accelerator_pcie_link_width{$cards}", "{{device}} lanes"),
                query("accelerator_pcie_link_width_max{$cards}", "{{device}} lanes at most"),
                untold(
                    "accelerator_pcie_link_generation{$cards}",
                    "accelerator_pcie_link_generation_max{$cards}",
                    "accelerator_pcie_link_width{$cards}",
                    "accelerator_pcie_link_width_max{$cards}",
                ),
            )
        ),
        _third(
            lines(
                "PCIe errors",
                "Packets sent again and errors a minute, averaged over twenty; an error may count as several kinds.",
                "cpm",
                query(f"60 * rate(accelerator_pcie_replays_total{{$cards}}{_RATE})", "{{device}} sent again"),
                query(f"60 * rate(accelerator_pcie_errors_total{{$cards}}{_RATE})", "{{device}} {{kind}}"),
                untold("accelerator_pcie_replays_total{$cards}", "accelerator_pcie_errors_total{$cards}"),
                least_step=_ERRORS_STEP,
            )
        ),
        lines(
            "Traffic between cards",
            "NVLink, XGMI, MTLink, HCCS, averaged over eight minutes: most cards are asked once a minute.",
            "Bps",
            query(f"rate(accelerator_link_receive_bytes_total{{$cards}}{_RATE})", "{{device}} {{link}} received"),
            query(f"rate(accelerator_link_transmit_bytes_total{{$cards}}{_RATE})", "{{device}} {{link}} sent"),
            untold("accelerator_link_receive_bytes_total{$cards}", "accelerator_link_transmit_bytes_total{$cards}"),
            least_step=_TRAFFIC_STEP,
        ),
        lines(
            "Link errors",
            "Errors a minute on the links between cards, averaged over twenty minutes.",
            "cpm",
            query(f"60 * rate(accelerator_link_crc_errors_total{{$cards}}{_RATE})", "{{device}} {{link}} checksum"),
            query(
                f"60 * rate(accelerator_link_replay_errors_total{{$cards}}{_RATE})",
                "{{device}} {{link}} replay",
            ),
            query(
                f"60 * rate(accelerator_link_recovery_errors_total{{$cards}}{_RATE})",
                "{{device}} {{link}} recovery",
            ),
            query(
                f"60 * rate(accelerator_link_receive_errors_total{{$cards}}{_RATE})",
                "{{device}} {{link}} received wrong",
            ),
            query(
                f"60 * rate(accelerator_link_transmit_errors_total{{$cards}}{_RATE})",
                "{{device}} {{link}} sent wrong",
            ),
            untold(
                "accelerator_link_crc_errors_total{$cards}",
                "accelerator_link_replay_errors_total{$cards}",
                "accelerator_link_recovery_errors_total{$cards}",
                "accelerator_link_receive_errors_total{$cards}",
                "accelerator_link_transmit_errors_total{$cards}",
            ),
            least_step=_ERRORS_STEP,
        ),
        _tall(
            states(
                "Links up",
                "Whether each link is up.",
                {"0": ("down", RED), "1": ("up", GREEN)},
                query("accelerator_link_up{$cards}", "{{device}} link {{link}}"),
                untold("accelerator_link_up{$cards}"),
            )
        ),
    ),
)
