"""The readings and events of one GPU or MIG instance: most by table, some by rules of their own, as those of NVLink."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.library_answers import Readings, Row, error_in, items, mapping, number, part_of, text, whole
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, Device, Event, Plain, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.nvidia.nvml import devices, tables
from telemetry_parsers.vendors.nvidia.nvml.tables import LINK_METRICS

# The energy counters of these GPUs include the whole module with CPU and memory (ml-energy/zeus #172).
_MODULE_WIDE_ENERGY = ("GH200",)
_ENERGY = "total_energy_consumption"
_MEMORY_TEMPERATURE = "memory_temp"
_REASONS = "clocks event reasons"
# The label of the sum of all links, or of all locations of errors.
_ALL = "all"


def of_gpu(recorded: dict[str, Plain], readings: Readings) -> None:
    """Keep the readings of a GPU."""
    calls, fields = mapping(recorded.get("calls")), mapping(recorded.get("fields"))
    _calls(calls, recorded, readings)
    _fields(fields, recorded, readings)
    _main_power(calls, fields, recorded, readings)
    _ecc(calls, fields, readings)
    _fans(calls, readings)
    if "gpm" in recorded:
        _gpm(recorded["gpm"], tables.GPM, readings)


def of_instance(recorded: dict[str, Plain], readings: Readings) -> None:
    """Keep the readings of a MIG instance."""
    _calls(mapping(recorded.get("calls")), recorded, readings)
    if "gpm" in recorded:
        _gpm(recorded["gpm"], tables.GPM_OF_INSTANCE, readings)


def _calls(calls: Mapping[str, Plain], recorded: dict[str, Plain], readings: Readings) -> None:
    for name, answer in calls.items():
        if name in tables.MEMORY:
            _memory(name, answer, readings, is_unified=devices.is_integrated(recorded))
        elif name in tables.CALLS:
            for row in tables.CALLS[name]:
                _row(row, answer, recorded, readings, name)
        elif name in tables.REASON_CALLS:
            _reasons(answer, recorded.get("supported_reasons"), readings)
        elif name == tables.PERFORMANCE_STATE:
            _performance_state(answer, readings)
        elif not _has_rules_of_its_own(name):
            readings.draft.add_unknown(name)


def _row(row: Row, answer: Plain, recorded: dict[str, Plain], readings: Readings, source: str) -> None:
    if row.metric in tables.NOT_OF_INTEGRATED and devices.is_integrated(recorded):
        readings.add(row.metric, Absent.NOT_SUPPORTED, row.label)
    else:
        readings.row(row, answer, source)


def _has_rules_of_its_own(name: str) -> bool:
    special = name == tables.POWER_USAGE or _fan_row(name) is not None
    return special or name in tables.FACT_CALLS or name in tables.ECC_CALLS


def _memory(name: str, answer: Plain, readings: Readings, *, is_unified: bool) -> None:
    """Read the memory. GPUs that share the host's report 0 of 0, nothing, or a part of it as theirs."""
    shared = is_unified or (error_in(answer) is None and part_of(answer, "total") == 0)
    for row in tables.CALLS[name]:
        if shared:
            readings.add(row.metric, Absent.NOT_SUPPORTED, row.label)
        else:
            readings.row(row, answer, name)


def _performance_state(answer: Plain, readings: Readings) -> None:
    unknown = answer == tables.PERFORMANCE_STATE_UNKNOWN
    value = Absent.NOT_REPORTED if unknown else readings.value(answer, tables.PERFORMANCE_STATE)
    readings.add("performance_state", value, source=tables.PERFORMANCE_STATE)


def _reasons(answer: Plain, supported: Plain, readings: Readings) -> None:
    """Keep a state for each reason that the card supports or that is active; for the usual reasons if the support is unknown."""
    value = readings.value(answer, _REASONS)
    every = sum(tables.REASONS) | tables.IDLE
    if not isinstance(value, Absent) and (value < 0 or int(value) & every == every):
        value = Absent.IMPLAUSIBLE  # all bits set, in any length
    mask = whole(supported, 1 << 63)
    active = 0 if isinstance(value, Absent) else int(value)
    expected = tables.USUAL_REASONS if mask is None else mask
    for bit, word in tables.REASONS.items():
        if (expected | active) & bit:
            readings.add("throttled", value if isinstance(value, Absent) else float(active & bit != 0), word, _REASONS)
    unknown = active & ~every
    if unknown:
        readings.complain(f"{_REASONS}: unknown bits {unknown:#x}")


def _fields(fields: Mapping[str, Plain], recorded: dict[str, Plain], readings: Readings) -> None:
    for name, answer in fields.items():
        row = tables.FIELDS.get(name)
        if name == tables.RECOVERY:
            _recovery(answer, readings)
        elif row is None:
            if name not in tables.ECC_FIELDS:
                readings.draft.add_unknown(name)
        elif (reason := _why_none(name, answer, fields.get("power_average"), recorded)) is not None:
            readings.add(row.metric, reason, row.label)
        else:
            _row(row, answer, recorded, readings, name)


def _why_none(name: str, answer: Plain, average: Plain, recorded: dict[str, Plain]) -> Absent | None:
    """Return why a number is not valid, or None if it is."""
    if name == tables.MEMORY_POWER:
        return _why_no_part(answer, average)
    made_up = (
        (name == _MEMORY_TEMPERATURE and answer == 0)  # a card without that sensor
        or (name == _ENERGY and any(mark in (text(recorded.get("name")) or "") for mark in _MODULE_WIDE_ENERGY))
        or (name == tables.MODULE_POWER and _is_no_more(answer, average))  # a driver without support for modules
    )
    return Absent.NOT_SUPPORTED if made_up else None


def _is_no_more(answer: Plain, average: Plain) -> bool:
    """Return whether a number is at most the average power. The power of a module is above that of its GPU."""
    module, gpu = number(answer), number(average)
    return not isinstance(module, Absent) and not isinstance(gpu, Absent) and module <= gpu


def _why_no_part(answer: Plain, average: Plain) -> Absent | None:
    """Return why a power is not that of a part. A part is below the whole; some drivers return the whole, because nvml.h is ambiguous."""
    part, whole_of = number(answer), number(average)
    if isinstance(part, Absent) or part < 0:
        return None  # reported as is
    if isinstance(whole_of, Absent):
        return Absent.NOT_REPORTED
    return None if 0 < part < whole_of else Absent.NOT_SUPPORTED


def _recovery(answer: Plain, readings: Readings) -> None:
    value = readings.value(answer, tables.RECOVERY)
    action = None if isinstance(value, Absent) else tables.RECOVERY_ACTIONS.get(int(value))
    for word in BY_KEY["recovery_action"].words:
        if isinstance(value, Absent):
            readings.add("recovery_action", value, word, tables.RECOVERY)
        else:
            state = Absent.NOT_UNDERSTOOD if action is None else float(word == action)
            readings.add("recovery_action", state, word, tables.RECOVERY)


def _main_power(
    calls: Mapping[str, Plain], fields: Mapping[str, Plain], recorded: dict[str, Plain], readings: Readings
) -> None:
    """Keep the main power: the average if there is one, else the available one."""
    kind = devices.power_kind(recorded)
    if tables.POWER_USAGE in calls:
        row = Row("power_watts", over=1000)
        readings.row(row, calls[tables.POWER_USAGE], tables.POWER_USAGE)
        if kind is not None:
            readings.row(Row(f"power_{kind}_watts", over=1000), calls[tables.POWER_USAGE], tables.POWER_USAGE)
        return
    name = f"power_{kind or 'instant'}"
    if name in fields:
        readings.row(Row("power_watts", over=1000), fields[name], name)


def _ecc(calls: Mapping[str, Plain], fields: Mapping[str, Plain], readings: Readings) -> None:
    """Keep the errors of each location with a number; the total only if no location has a number."""
    answers = [(row, calls[name], name) for name, row in tables.ECC_CALLS.items() if name in calls]
    answers += [(row, fields[name], name) for name, row in tables.ECC_FIELDS.items() if name in fields]
    for metric in dict.fromkeys(row.metric for row, _, _ in answers):
        of_metric = [answer for answer in answers if answer[0].metric == metric]
        numbers = [answer for answer in of_metric if not isinstance(_number(answer[1]), Absent)]
        placed = [answer for answer in numbers if answer[0].label != _ALL]
        for row, answer, name in placed or numbers:
            readings.row(row, answer, name)
        if not numbers:
            row, answer, name = of_metric[-1]
            readings.row(Row(metric, _ALL), answer, name)


def _number(answer: Plain) -> Value:
    return Absent.NOT_SUPPORTED if error_in(answer) is not None else number(answer)


def _fans(calls: Mapping[str, Plain], readings: Readings) -> None:
    answers: dict[Row, dict[str, Plain]] = {}
    for name, answer in calls.items():
        row = _fan_row(name)
        if row is not None:
            answers.setdefault(row, {})[name] = answer
    for row, of_row in answers.items():
        readings.greatest(row, of_row)


def _fan_row(name: str) -> Row | None:
    return tables.FAN_CALLS.get(name.partition(".")[0])


def _gpm(answer: Plain, table: Mapping[str, tuple[Row, ...]], readings: Readings) -> None:
    """Keep the values counted since the previous poll. The first poll has none."""
    values = mapping(answer)
    for name in values:
        if name not in table and name != "error":
            readings.draft.add_unknown(f"GPM {name}")
    for name, rows in table.items():
        for row in rows:
            if answer is None or error_in(answer) is not None:
                readings.row(Row(row.metric, row.label), answer, "GPM")
            elif name in values:
                readings.row(row, values[name], f"GPM {name}")


_MOST_LINKS = 128
_NUMBERS = frozenset(map(str, range(_MOST_LINKS)))
# A sleeping link (2) wakes by itself; one whose traffic is disabled (3) carries nothing.
_STATES: Mapping[int, float] = {0: 0.0, 1: 1.0, 2: 1.0, 3: 0.0}
# The first name with a number counts: NVLink 5 counts bytes and recovery events, older links KiB and recoveries.
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


def read_links(answer: Plain, readings: Readings) -> None:
    """Keep the readings of all links of a device."""
    if error_in(answer) is not None:
        _absent(readings, readings.error(answer, "NVLink"))
        return
    by_link = mapping(answer).get("each")
    if not isinstance(by_link, dict):
        _absent(readings, Absent.NOT_UNDERSTOOD)
        return
    if not by_link:
        _absent(readings, Absent.NOT_SUPPORTED)
        return
    links = {link: mapping(answers) for link, answers in by_link.items() if link in _NUMBERS}
    if len(links) < len(by_link):
        readings.complain("NVLink: a link without a valid number")
    for link, answers in links.items():
        for name in answers.keys() - _KNOWN:
            readings.draft.add_unknown(f"link {name}")
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
    """Keep the number of each link; if no link has one, the number of all links together, or the absence."""
    has_number = False
    for link, of_link in links.items():
        row = _first_number(metric, link, of_link)
        if row is not None:
            readings.row(row[0], of_link[row[1]], f"link {link} {row[1]}")
            has_number = True
    if has_number:
        return
    row = _first_number(metric, _ALL, together)
    if row is not None:
        readings.row(row[0], together[row[1]], f"all links {row[1]}")
        return
    name = _COUNTERS[metric][0][0]
    reasons = [readings.error(of_link[name], name) for of_link in links.values() if error_in(of_link.get(name))]
    readings.add(metric, reasons[0] if reasons else Absent.NOT_REPORTED, _ALL, "NVLink")


def _first_number(metric: str, link: str, answers: dict[str, Plain]) -> tuple[Row, str] | None:
    """Return the first answer of the counter that is not an error, with its row."""
    for name, times in _COUNTERS[metric]:
        answer = answers.get(name)
        if answer is not None and error_in(answer) is None and number(answer) is not Absent.NOT_REPORTED:
            return Row(metric, link, times), name
    return None


def _absent(readings: Readings, reason: Absent) -> None:
    for metric in LINK_METRICS:
        readings.add(metric, reason, _ALL, "NVLink")


# A bus address, and the numbers of a GPU instance and a compute instance, as in facts.
_EventPlace = tuple[str | None, str | None, str | None]


def read_events(answer: Plain, draft: Draft) -> None:
    """Put the events into the draft, each at its instance or else at its GPU."""
    if not items(answer):
        return
    positions: dict[_EventPlace, int] = {}
    for position, device in enumerate(draft.devices()):
        positions.setdefault(_event_place(device), position)
    for recorded in items(answer):
        event = _event(mapping(recorded), positions)
        if event is None:
            dropped = whole(mapping(recorded).get("dropped"))
            too_fast = f"{dropped} came too fast to be kept and are not counted"
            draft.complain("events", "an invalid event" if dropped is None else too_fast)
        else:
            draft.events.append(event)


def _event_place(device: Device) -> _EventPlace:
    facts = dict(device.facts) if device.parent is not None else {}
    return device.bus_id, facts.get("gpu_instance"), facts.get("compute_instance")


def _event(recorded: dict[str, Plain], positions: Mapping[_EventPlace, int]) -> Event | None:
    bus_id = text(recorded.get("bus_id")) or ""
    ids = (whole(recorded.get(name), 1 << 32) for name in ("gpu_instance", "compute_instance"))
    gpu_instance, compute_instance = (None if number is None else str(number) for number in ids)
    position = positions.get((bus_id, gpu_instance, compute_instance), positions.get((bus_id, None, None)))
    wall_time = number(recorded.get("wall_time"))
    when = wall_time if not isinstance(wall_time, Absent) and 0 < wall_time < 1e11 else None
    xid, lost = whole(recorded.get("xid")), whole(recorded.get("lost"))
    if xid is not None:
        return Event(position, f"xid_{xid}", f"Xid {xid} on {quote(bus_id)}", when)
    if lost is not None:
        return Event(position, "gpu_lost", f"NVML error {lost} on {quote(bus_id)}", when)
    return None
