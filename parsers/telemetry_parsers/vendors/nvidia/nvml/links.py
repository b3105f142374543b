"""NVLink: what each link counts, or all of them together where none has its own."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.library_answers.plain import error_in, mapping, number
from telemetry_parsers.library_answers.readings import Readings, Row
from telemetry_parsers.model import Absent, Plain, Value
from telemetry_parsers.vendors.nvidia.nvml.tables import LINK_METRICS

_MOST_LINKS = 128
_NUMBERS = frozenset(map(str, range(_MOST_LINKS)))
ALL = "all"
# A sleeping link (2) wakes by itself; one whose traffic is disabled (3) carries nothing.
_STATES: Mapping[int, float] = {0: 0.0, 1: 1.0, 2: 1.0, 3: 0.0}
# The first that is a number counts: NVLink 5 counts bytes and recovery events, older links KiB and recoveries.
_COUNTERS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "link_receive_bytes_total": (("rx_bytes", 1), ("data_rx_kib", 1024)),
    "link_transmit_bytes_total": (("tx_bytes", 1), ("data_tx_kib", 1024)),
    "link_crc_errors_total": (("crc", 1),),
    "link_replay_errors_total": (("replay", 1),),
    "link_recovery_errors_total": (("recovery", 1), ("recovery_events", 1)),
    "link_receive_errors_total": (("receive_errors", 1),),
    "link_transmit_errors_total": (("transmit_discards", 1),),
}
_KNOWN = frozenset({"state", *(name for names in _COUNTERS.values() for name, _ in names)})


def read(answer: Plain, readings: Readings) -> None:
    """Keep the readings of all links of a device."""
    if error_in(answer) is not None:
        _absent(readings, readings.error(answer, "NVLink"))
        return
    each = mapping(answer).get("each")
    if not isinstance(each, dict):
        _absent(readings, Absent.NOT_UNDERSTOOD)
        return
    if not each:
        _absent(readings, Absent.NOT_SUPPORTED)
        return
    links = {link: mapping(answers) for link, answers in each.items() if link in _NUMBERS}
    if len(links) < len(each):
        readings.complain("NVLink: a link whose number is none")
    for link, answers in links.items():
        for name in answers.keys() - _KNOWN:
            readings.draft.name_unknown(f"link {name}")
        readings.add("link_up", _state(answers.get("state"), readings), link, "NvLinkState")
    together = mapping(mapping(answer).get("together"))
    for metric in _COUNTERS:
        _counter(metric, links, together, readings)


def _state(answer: Plain, readings: Readings) -> Value:
    value = readings.value(answer, "NvLinkState")
    return value if isinstance(value, Absent) else _STATES.get(int(value), Absent.NOT_UNDERSTOOD)


def _counter(
    metric: str, links: Mapping[str, dict[str, Plain]], together: dict[str, Plain], readings: Readings
) -> None:
    """The number of each link that has one; of all together, or the reason for none, where no link does."""
    has_number = False
    for link, of_link in links.items():
        row = _first_number(metric, link, of_link)
        if row is not None:
            readings.row(row[0], of_link[row[1]], f"link {link} {row[1]}")
            has_number = True
    if has_number:
        return
    row = _first_number(metric, ALL, together)
    if row is not None:
        readings.row(row[0], together[row[1]], f"all links {row[1]}")
        return
    name = _COUNTERS[metric][0][0]
    reasons = [readings.error(of_link[name], name) for of_link in links.values() if error_in(of_link.get(name))]
    readings.add(metric, reasons[0] if reasons else Absent.NOT_REPORTED, ALL, "NVLink")


def _first_number(metric: str, link: str, answers: dict[str, Plain]) -> tuple[Row, str] | None:
    """The first name of the counter whose answer is no error, with what to make of it."""
    for name, times in _COUNTERS[metric]:
        answer = answers.get(name)
        if answer is not None and error_in(answer) is None and number(answer) is not Absent.NOT_REPORTED:
            return Row(metric, link, times), name
    return None


def _absent(readings: Readings, reason: Absent) -> None:
    for metric in LINK_METRICS:
        readings.add(metric, reason, ALL, "NVLink")
