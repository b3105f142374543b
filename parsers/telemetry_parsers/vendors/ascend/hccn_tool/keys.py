"""What hccn_tool prints: which lines give a reading, and which are known to give none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from telemetry_parsers.reports.targets import Target, metric
from telemetry_parsers.text.answers import ErrorText

TOOL = "hccn_tool"
# The same number as the Phy-ID of npu-smi and the number of the /dev/davinci node.
INDEX_SPACE = "ascend-physical"
# A chip up to Ascend 910 has one port, which speaks RoCE; the ports of a 950 have a die and a number.
PORT = "roce"

UP: Mapping[str, float] = {"up": 1.0, "down": 0.0}
LINK_KEY = "link status"
# Up to Ascend 910 this stands behind `[devid 0]`; a 950 names its port below it.
FLAPS_KEY = "link up count"
# Of a chip up to 910, all printed by one answer.
ROCE_COUNTERS: Mapping[str, Target] = {
    "mac_rx_fcs_err_pkt_num": metric("link_crc_errors_total"),
    "roce_new_pkt_rty_num": metric("link_replay_errors_total"),
    "roce_rx_err_pkt_num": metric("link_receive_errors_total"),
    "roce_tx_err_pkt_num": metric("link_transmit_errors_total"),
    "mac_rx_total_oct_num": metric("link_receive_bytes_total", unit="B"),
    "mac_tx_total_oct_num": metric("link_transmit_bytes_total", unit="B"),
}
# Of a port of a 950, whose number stands above them.
PORT_COUNTERS: Mapping[str, Target] = {
    "crc_error_sum": metric("link_crc_errors_total"),
    "retry_req_sum": metric("link_replay_errors_total"),
}
COUNTERS: Mapping[str, Target] = {FLAPS_KEY: metric("link_recovery_errors_total"), **ROCE_COUNTERS, **PORT_COUNTERS}
STATISTICS = "packet statistics"
# What an answer to this flag gives, or one that has this line: without it, the answer is cut off or not understood.
FLAGS: Mapping[str, str] = {
    "-link": "link_up",
    "-dev_info": "link_up",
    "-link_stat": COUNTERS[FLAPS_KEY].key,
    "-stat": "",
    "-net_health": "",
    "-speed": "",
}
BESIDE_FLAPS = frozenset({"current time", "link change records", "link down count"})
FACTS: Mapping[str, str] = {"speed": "link_speed", "net health status": "net_health"}
PORT_KEY = "port_id"
# Titles under which every line is known and gives nothing but what is named above.
TITLES = ("link change records", STATISTICS, "optical info", "routing table", "netdev status", "dl-bit_err")
QUIET = frozenset(
    {
        "current time", "link down count", "fec mode", "ipaddr", "netmask", "dev_id", "is_uboe_port",
        "vnic link status", "vnic ipaddr", "vnic netmask", "bandwidth tx", "bandwidth rx", "mac addr", "default gateway",
        "st_fec_decoding_fail_num", "st_fec_err_bit_num",
    }
)  # fmt: skip

ERRORS = (
    ErrorText("hccn tool is busy", "failed", "timeout", "it allows one call at a time; something else calls it, too"),
    ErrorText("cmd execute failed", "failed", "exit_status", "look at npu-smi: the chip may be gone"),
    ErrorText("invalid device", "failed", "exit_status", "look at npu-smi: the chip may be gone"),
    ErrorText("invalid param", "wrong_request", None, "this generation wants other flags"),
    ErrorText("invalid command", "wrong_request", None, "this generation wants other flags"),
    ErrorText("usage:", "wrong_request", None, "this generation wants other flags"),
    ErrorText("not support", "wrong_request", None, "this generation does not have it"),
)


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a 950 by its die and number, as far as they are known."""

    die: str = ""
    number: str = ""

    @property
    def word(self) -> str:
        """The word of the label: `u0p4`, `p4`, or the one port that older chips have."""
        if not self.number:
            return PORT
        return (f"u{self.die}" if self.die else "") + f"p{self.number}"
