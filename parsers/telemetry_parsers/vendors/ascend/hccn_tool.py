"""Parses Huawei's hccn_tool: the state, flaps and counters of each chip's port."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from telemetry_parsers import units
from telemetry_parsers.dataclass import dataclass, field, replace
from telemetry_parsers.model import Absent, Command, Poll, Problem
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.reports.targets import Target, fact, metric, switch
from telemetry_parsers.reports.tool import DeviceTool, Shape, Tool, ToolText, always_accept
from telemetry_parsers.reports.tool_parser import known_error_problems, parser_of
from telemetry_parsers.text.answers import CUT_LINE, ErrorText, not_a_row, value_without_key
from telemetry_parsers.text.echoes import Run
from telemetry_parsers.text.framed import TableShape, is_rule, read_table
from telemetry_parsers.text.lines import Line, quote

TOOL = "hccn_tool"
# A device's index is its Phy-ID in npu-smi and the number of its /dev/davinci node.
INDEX_SPACE = "ascend-physical"
# Chips up to Ascend 910 have one RoCE port. A 950 has several ports.
ROCE_PORT = "roce"

LINK_STATES: Mapping[str, float] = {"up": 1.0, "down": 0.0}
_LINK_KEY = "link status"
# Chips up to Ascend 910 print `[devid 0]` before this key. A 950 prints the port below this key.
_FLAPS_KEY = "link up count"
# Counters of chips up to Ascend 910. A complete answer contains all of these counters.
_ROCE_COUNTERS: Mapping[str, Target] = {
    "mac_rx_fcs_err_pkt_num": metric("link_crc_errors_total"),
    "roce_new_pkt_rty_num": metric("link_replay_errors_total"),
    "roce_rx_err_pkt_num": metric("link_receive_errors_total"),
    "roce_tx_err_pkt_num": metric("link_transmit_errors_total"),
    "mac_rx_total_oct_num": metric("link_receive_bytes_total", unit="B"),
    "mac_tx_total_oct_num": metric("link_transmit_bytes_total", unit="B"),
}
# Counters of a 950's port, which are printed below the port's number.
_PORT_COUNTERS: Mapping[str, Target] = {
    "crc_error_sum": metric("link_crc_errors_total"),
    "retry_req_sum": metric("link_replay_errors_total"),
}
COUNTERS: Mapping[str, Target] = {_FLAPS_KEY: metric("link_recovery_errors_total"), **_ROCE_COUNTERS, **_PORT_COUNTERS}
_STATISTICS = "packet statistics"
# Maps each flag to the metric that a complete answer contains, if any.
METRICS_BY_FLAG: Mapping[str, str] = {
    "-link": "link_up",
    "-dev_info": "link_up",
    "-link_stat": COUNTERS[_FLAPS_KEY].key,
    "-stat": "",
    "-net_health": "",
    "-speed": "",
}
# Keys that are printed in the same answer as the number of flaps.
_KEYS_BESIDE_FLAPS = frozenset({"current time", "link change records", "link down count"})
_FACTS: Mapping[str, str] = {"speed": "link_speed", "net health status": "net_health"}
_PORT_KEY = "port_id"
# Titles of lists. An unknown key below such a title is not reported.
_LIST_TITLES = ("link change records", _STATISTICS, "optical info", "routing table", "netdev status", "dl-bit_err")
_IGNORED_KEYS = frozenset(
    {
        "current time", "link down count", "fec mode", "ipaddr", "netmask", "dev_id", "is_uboe_port",
        "vnic link status", "vnic ipaddr", "vnic netmask", "bandwidth tx", "bandwidth rx", "mac addr", "default gateway",
        "st_fec_decoding_fail_num", "st_fec_err_bit_num",
    }
)  # fmt: skip

ERRORS = (
    ErrorText("hccn tool is busy", "failed", "timeout", "another program runs hccn_tool; only one call is allowed"),
    ErrorText("cmd execute failed", "failed", "exit_status", "check with npu-smi: the chip may be lost"),
    ErrorText("invalid device", "failed", "exit_status", "check with npu-smi: the chip may be lost"),
    ErrorText("invalid param", "wrong_request", None, "this card generation needs other flags"),
    ErrorText("invalid command", "wrong_request", None, "this card generation needs other flags"),
    ErrorText("usage:", "wrong_request", None, "this card generation needs other flags"),
    ErrorText("not support", "wrong_request", None, "this card generation does not support the command"),
)


@dataclass(frozen=True, slots=True)
class Port:
    """A port with its die and number, which are empty if unknown."""

    die: str = ""
    number: str = ""

    @property
    def label(self) -> str:
        """Return the label: `u0p4`, `p4`, or `roce` for the only port of an older chip."""
        if not self.number:
            return ROCE_PORT
        return (f"u{self.die}" if self.die else "") + f"p{self.number}"


_DEVICE_PREFIX = re.compile(r"[ \t]{0,8}\[(?:devid|device|dev_id)[ \t]{0,4}([0-9]{1,6})\]", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,6}\Z")
_STATUS = re.compile(r"\S{1,20}\Z")
_PORT_TABLE = TableShape(
    headings=frozenset({"udie id", "port id", "link status"}),
    patterns={"udie id": _NUMBER, "port id": _NUMBER, "link status": _STATUS},
    first_heading="udie id",
)
_NUMBER_TABLE = TableShape(
    headings=frozenset({"npu", "udie", "port"}),
    patterns={"npu": _NUMBER, "udie": _NUMBER, "port": _NUMBER},
    first_heading="npu",
)
# The draft's key for the device. An answer is about one device, whose number may be printed after the readings.
_DEVICE_KEY = "device"


def answers_in(run: Run) -> list[Run]:
    """Split the output of a command. Each answer is about one device."""
    answers: list[list[Line]] = [[]]
    device_index = units.integer(run.value_of("-i"))
    for line in run.lines:
        prefix = _DEVICE_PREFIX.match(line.text)
        if prefix is not None and device_index is not None and int(prefix[1]) != device_index:
            answers.append([])
        device_index = int(prefix[1]) if prefix else device_index
        answers[-1].append(line)
    return [Run(run.arguments, tuple(lines)) for lines in answers if lines]


def _read_answer(text: ToolText, draft: Draft) -> bool:
    """Add the readings of one device. Return False if no line is from this tool."""
    command = text.command_of(TOOL)
    port = Port(_text_if_number(command.value_of("-u")), _text_if_number(command.value_of("-p")))
    answer = _AnswerReader(draft, units.integer(command.value_of("-i") or text.output.target), port)
    _read_tables(answer, text.lines)
    for line in text.lines:
        answer.read_line(line)
    if answer.is_understood:
        answer.finish_answer(command.arguments, text.lines[-1].where)
    return answer.is_understood


def _text_if_number(text: str) -> str:
    return text if units.integer(text) is not None else ""


@dataclass(slots=True)
class _AnswerReader:
    draft: Draft
    device_index: int | None
    port: Port
    is_understood: bool = False
    is_in_list: bool = False
    has_several_devices: bool = False
    printed_keys: set[str] = field(default_factory=set)

    def read_line(self, line: Line) -> None:
        prefix = _DEVICE_PREFIX.match(line.text)
        self.device_index = int(prefix[1]) if prefix else self.device_index
        text = (line.text[prefix.end() :] if prefix else line.text).strip()
        if text and not line.ended:
            self.draft.add_problem(line.where, CUT_LINE)
        elif text:
            self._read_text(text, line)

    def _read_text(self, text: str, line: Line) -> None:
        name, colon, value = text.partition(":")
        key = " ".join(name.lower().split())
        bare_key = key.strip("- ")
        if bare_key in self.printed_keys & _IGNORED_KEYS and not self.is_in_list:
            self.draft.add_problem(
                line.where, f"{quote(key)} is repeated, so a command line between two answers is missing"
            )
        self.printed_keys.add(bare_key)
        if bare_key in _LIST_TITLES:
            self.is_understood = self.is_in_list = True
        elif colon and not key and value.strip():
            self.draft.add_problem(line.where, value_without_key(text))
        elif colon and key and "|" not in text and not is_rule(text):
            self._read_value(key, value.strip(), line)

    def _read_value(self, key: str, value: str, line: Line) -> None:
        if key == _PORT_KEY:
            self._read_port(value)
        elif key == _LINK_KEY:
            self.store_reading(switch("link_up", LINK_STATES, self.port.label), value, line.where)
        elif key in COUNTERS:
            self._read_counter(key, value, line)
        elif key in _FACTS:
            self._read_fact(_FACTS[key], value, line.where)
        elif key in _IGNORED_KEYS:
            self.is_understood = True
        elif not self.is_in_list:
            self.draft.add_unknown(key)

    def _read_port(self, value: str) -> None:
        """Read the port number, which is printed as `4` or `0x4`."""
        self.is_understood = True
        port_number = value.lower().removeprefix("0x")
        if _NUMBER.match(port_number) and not self.port.number:
            self.port = Port(self.port.die, port_number)

    def _read_counter(self, key: str, value: str, line: Line) -> None:
        if self.port.number or key in _ROCE_COUNTERS or (key == _FLAPS_KEY and _DEVICE_PREFIX.match(line.text)):
            self.store_reading(replace(COUNTERS[key], label=self.port.label), value, line.where)
        else:
            self.is_understood = True
            self.draft.add_problem(line.where, f"{key}: the port is not named")

    def _read_fact(self, name: str, value: str, where: str) -> None:
        if units.placeholder(value) is not None:
            return
        self.is_understood = True
        device = self.draft.device(_DEVICE_KEY)
        if name in dict(self.draft.device_at(device).facts):
            self._report_repeated(where, name)
        self.draft.store(device, (fact(name),), value, where)

    def store_reading(self, target: Target, value: str, where: str) -> None:
        """Store a reading. A repeated reading is reported instead."""
        self.is_understood = True
        device = self.draft.device(_DEVICE_KEY)
        if self.draft.has_reading(device, target):
            self._report_repeated(where, f"{target.key} of {target.label}")
        else:
            self.draft.store(device, (target,), value, where)

    def _report_repeated(self, where: str, name: str) -> None:
        """Report a repeated reading, which shows that command lines are missing."""
        if self.device_index is not None:
            self.draft.add_problem(
                where, f"{name} is printed twice; the first value is kept, as the second may belong to another device"
            )
        elif not self.has_several_devices:
            self.has_several_devices = True
            self.draft.add_problem(
                where, "answers about several unnamed devices are not read: save them with their command lines"
            )

    def finish_answer(self, flags: Sequence[str], where: str) -> None:
        """Set the device's index. Report the metrics of `flags` that the answer does not contain."""
        if self.device_index is not None:
            self.draft.set_index(self.draft.device(_DEVICE_KEY), self.device_index)
        readings = self.draft.readings_of(self.draft.device(_DEVICE_KEY)) if self.draft.has_device(_DEVICE_KEY) else []
        expected_metrics = {METRICS_BY_FLAG[flag] for flag in flags if flag in METRICS_BY_FLAG} - {""}
        if _KEYS_BESIDE_FLAPS & self.printed_keys:
            expected_metrics.add(COUNTERS[_FLAPS_KEY].key)
        for key in sorted(expected_metrics - {item.metric for item in readings}):
            self.draft.add_problem(where, f"the answer has no {key}, so it is cut off or not understood")
        if self.printed_keys == {_STATISTICS}:
            self.draft.add_problem(where, "the statistics end after their title")
        elif _STATISTICS in self.printed_keys:
            self._mark_missing_counters()
        if self.has_several_devices:
            self.draft.clear_devices()

    def _mark_missing_counters(self) -> None:
        device = self.draft.device(_DEVICE_KEY)
        for counter in (_PORT_COUNTERS if self.port.number else _ROCE_COUNTERS).values():
            target = replace(counter, label=self.port.label)
            if not self.draft.has_reading(device, target):
                self.draft.set_value(device, target, Absent.NOT_REPORTED)


def _read_tables(answer: _AnswerReader, lines: Sequence[Line]) -> None:
    """Read the port states (`-dev_info`), and the device, die and port in other tables."""
    for cells, line in _rows_in(answer, lines, _PORT_TABLE):
        label = Port(cells["udie id"], cells["port id"]).label
        answer.store_reading(switch("link_up", LINK_STATES, label), cells["link status"], line.where)
    for cells, _ in _rows_in(answer, lines, _NUMBER_TABLE):
        answer.device_index = int(cells["npu"]) if answer.device_index is None else answer.device_index
        answer.port = answer.port if answer.port.number else Port(cells["udie"], cells["port"])
        answer.is_understood = True


def _rows_in(answer: _AnswerReader, lines: Sequence[Line], shape: TableShape) -> Iterator[tuple[dict[str, str], Line]]:
    """Yield (cells by heading, line) for each complete row. Report other rows and a truncated table."""
    table = read_table(lines, shape)
    for record in table.records:
        cells = {heading: value.text for heading, value in record.values.items()}
        if shape.headings <= cells.keys() and not record.misfits and record.line.ended:
            yield cells, record.line
        else:
            answer.draft.add_problem(record.line.where, not_a_row(record.line.text))
    bar_count = next((line.text.count("|") for line in lines if _is_heading(line, shape)), 0)
    for line in table.unread_lines:
        if line.text.count("|") == bar_count > 0 and not _is_heading(line, shape):
            answer.draft.add_problem(line.where, not_a_row(line.text))
    last_rule = max((line.number for line in lines if is_rule(line.text)), default=0)
    last_row = max((line.number for line in lines if "|" in line.text), default=0)
    if table.has_headings and last_rule < last_row:
        answer.draft.add_problem(lines[-1].where, "the table is cut off here")


def _is_heading(line: Line, shape: TableShape) -> bool:
    return shape.first_heading in line.text.lower()


def _find_missing_answer(run: Run) -> Problem | None:
    """Return a problem if a command with a known flag printed neither an answer nor an error, else None."""
    lines = [line for line in run.lines if line.text.strip()]
    is_other_text = bool(lines) and ":" not in lines[0].text
    if not METRICS_BY_FLAG.keys() & set(run.arguments) or is_other_text or known_error_problems(run.lines, ERRORS):
        return None
    text = f"the answer to {TOOL} {quote(' '.join(run.arguments))} is missing or invalid"
    return Problem(lines[0].where if lines else "text", text)


_TOOL = Tool(
    name=TOOL,
    vendor="ascend",
    shapes=(Shape(_read_answer, if_empty=always_accept, tables=(COUNTERS,)),),
    no_output="no output: the tool prints nothing for a port without this setting",
    errors=ERRORS,
    index_space=INDEX_SPACE,
    per_device=DeviceTool(
        TOOL,
        "an answer is read only if its command line names a device",
        answers_in,
        _find_missing_answer,
    ),
)
_FOLDERS = ("/usr/local/Ascend/driver/tools", "/usr/local/bin", "/usr/bin")


def _poll(name: str, seconds: float, *lines: tuple[str, ...]) -> Poll:
    """Return a poll that calls the tool for every chip."""
    request = Command(alternatives=tuple((TOOL, *line) for line in lines), folders=_FOLDERS, per="device")
    return Poll(name, request, "slow" if seconds < 300 else "inventory", seconds, 30.0, lists_devices=False)


PARSER = parser_of(
    _TOOL,
    _poll("link", 60.0, ("-i", "{device}", "-link", "-g"), ("-g", "-dev_info", "-i", "{device}")),
    _poll("flaps", 60.0, ("-i", "{device}", "-link_stat", "-g")),
    _poll("statistics", 60.0, ("-i", "{device}", "-stat", "-g")),
    _poll("speed", 300.0, ("-i", "{device}", "-speed", "-g")),
    _poll("net-health", 300.0, ("-i", "{device}", "-net_health", "-g")),
    more_metrics=("link_up",),
)
