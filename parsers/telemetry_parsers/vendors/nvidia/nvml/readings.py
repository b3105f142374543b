"""Reads the readings and events of a GPU or MIG instance."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.library_answers import DeviceDraft, Row, error_in, integer, items, mapping, number, part_of, text
from telemetry_parsers.metrics import BY_KEY
from telemetry_parsers.model import Absent, Device, Event, Plain, Value
from telemetry_parsers.reports.draft import Draft
from telemetry_parsers.text.lines import quote
from telemetry_parsers.vendors.nvidia.nvml import devices, tables
from telemetry_parsers.vendors.nvidia.nvml.tables import LINK_METRICS

# Models whose energy counter includes the whole module with CPU and memory (ml-energy/zeus #172).
_MODELS_WITH_MODULE_ENERGY = ("GH200",)
_ENERGY = "total_energy_consumption"
_MEMORY_TEMPERATURE = "memory_temp"
_REASONS_SOURCE = "clocks event reasons"
# The label of a total over all links or over all error locations.
_TOTAL_LABEL = "all"


def read_gpu(record: dict[str, Plain], device_draft: DeviceDraft) -> None:
    """Store a GPU's readings from NVML's calls, field values and GPU performance monitoring (GPM)."""
    calls, fields = mapping(record.get("calls")), mapping(record.get("fields"))
    _read_calls(calls, record, device_draft)
    _read_fields(fields, record, device_draft)
    _store_main_power(calls, fields, record, device_draft)
    _read_ecc(calls, fields, device_draft)
    _read_fans(calls, device_draft)
    if "gpm" in record:
        _read_gpm(record["gpm"], tables.GPM, device_draft)


def read_instance(record: dict[str, Plain], device_draft: DeviceDraft) -> None:
    """Store a MIG instance's readings from NVML's calls and GPU performance monitoring (GPM)."""
    _read_calls(mapping(record.get("calls")), record, device_draft)
    if "gpm" in record:
        _read_gpm(record["gpm"], tables.GPM_OF_INSTANCE, device_draft)


def _read_calls(calls: Mapping[str, Plain], record: dict[str, Plain], device_draft: DeviceDraft) -> None:
    for name, answer in calls.items():
        if name in tables.MEMORY_CALLS:
            _read_memory(name, answer, device_draft, is_unified=devices.is_integrated(record))
        elif name in tables.CALLS:
            for row in tables.CALLS[name]:
                _store_row(row, answer, record, device_draft, name)
        elif name in tables.REASON_CALLS:
            _read_throttle_reasons(answer, record.get("supported_reasons"), device_draft)
        elif name == tables.PERFORMANCE_STATE:
            _read_performance_state(answer, device_draft)
        elif not _is_read_elsewhere(name):
            device_draft.draft.add_unknown(name)


def _store_row(row: Row, answer: Plain, record: dict[str, Plain], device_draft: DeviceDraft, source: str) -> None:
    if row.metric in tables.NOT_ON_INTEGRATED and devices.is_integrated(record):
        device_draft.add(row.metric, Absent.NOT_SUPPORTED, row.label)
    else:
        device_draft.add_row(row, answer, source)


def _is_read_elsewhere(call: str) -> bool:
    is_power_or_fan = call == tables.POWER_USAGE or _fan_row(call) is not None
    return is_power_or_fan or call in tables.FACT_CALLS or call in tables.ECC_CALLS


def _read_memory(name: str, answer: Plain, device_draft: DeviceDraft, *, is_unified: bool) -> None:
    """Store the memory readings. They are absent if the GPU shares the host's memory."""
    is_shared = is_unified or (error_in(answer) is None and part_of(answer, "total") == 0)
    for row in tables.CALLS[name]:
        if is_shared:
            device_draft.add(row.metric, Absent.NOT_SUPPORTED, row.label)
        else:
            device_draft.add_row(row, answer, name)


def _read_performance_state(answer: Plain, device_draft: DeviceDraft) -> None:
    is_unknown = answer == tables.PERFORMANCE_STATE_UNKNOWN
    value = Absent.NOT_REPORTED if is_unknown else device_draft.value(answer, tables.PERFORMANCE_STATE)
    device_draft.add("performance_state", value, source=tables.PERFORMANCE_STATE)


def _read_throttle_reasons(answer: Plain, supported_answer: Plain, device_draft: DeviceDraft) -> None:
    """Store 1 for each active throttling reason, and 0 for the other supported reasons."""
    value = device_draft.value(answer, _REASONS_SOURCE)
    known_bits = sum(tables.THROTTLE_REASONS) | tables.IDLE_REASON
    if not isinstance(value, Absent) and (value < 0 or int(value) & known_bits == known_bits):
        value = Absent.IMPLAUSIBLE  # a value with all known bits set is a placeholder
    supported_bits = integer(supported_answer, 1 << 63)
    active_bits = 0 if isinstance(value, Absent) else int(value)
    expected_bits = tables.DEFAULT_REASONS if supported_bits is None else supported_bits
    for bit, word in tables.THROTTLE_REASONS.items():
        if (expected_bits | active_bits) & bit:
            state = value if isinstance(value, Absent) else float(active_bits & bit != 0)
            device_draft.add("throttled", state, word, _REASONS_SOURCE)
    unknown_bits = active_bits & ~known_bits
    if unknown_bits:
        device_draft.add_problem(f"{_REASONS_SOURCE}: unknown bits {unknown_bits:#x}")


def _read_fields(fields: Mapping[str, Plain], record: dict[str, Plain], device_draft: DeviceDraft) -> None:
    for name, answer in fields.items():
        row = tables.FIELDS.get(name)
        if name == tables.RECOVERY_FIELD:
            _read_recovery_action(answer, device_draft)
        elif row is None:
            if name not in tables.ECC_FIELDS:
                device_draft.draft.add_unknown(name)
        elif (absence := _why_unusable(name, answer, fields.get("power_average"), record)) is not None:
            device_draft.add(row.metric, absence, row.label)
        else:
            _store_row(row, answer, record, device_draft, name)


def _why_unusable(name: str, answer: Plain, average_power: Plain, record: dict[str, Plain]) -> Absent | None:
    """Return why the number in a field must not be used, or None if it may be used."""
    if name == tables.MEMORY_POWER:
        return _why_memory_power_unusable(answer, average_power)
    is_invalid = (
        (name == _MEMORY_TEMPERATURE and answer == 0)  # 0 means that the card has no such sensor
        or (name == _ENERGY and any(mark in (text(record.get("name")) or "") for mark in _MODELS_WITH_MODULE_ENERGY))
        or (name == tables.MODULE_POWER and _is_at_most_gpu_power(answer, average_power))  # the field is not supported
    )
    return Absent.NOT_SUPPORTED if is_invalid else None


def _is_at_most_gpu_power(answer: Plain, average_power: Plain) -> bool:
    module, gpu = number(answer), number(average_power)
    return not isinstance(module, Absent) and not isinstance(gpu, Absent) and module <= gpu


def _why_memory_power_unusable(answer: Plain, average_power: Plain) -> Absent | None:
    memory, gpu = number(answer), number(average_power)
    if isinstance(memory, Absent) or memory < 0:
        return None  # the value is reported unchanged
    if isinstance(gpu, Absent):
        return Absent.NOT_REPORTED
    return None if 0 < memory < gpu else Absent.NOT_SUPPORTED


def _read_recovery_action(answer: Plain, device_draft: DeviceDraft) -> None:
    value = device_draft.value(answer, tables.RECOVERY_FIELD)
    action = None if isinstance(value, Absent) else tables.RECOVERY_ACTIONS.get(int(value))
    for word in BY_KEY["recovery_action"].words:
        if isinstance(value, Absent):
            device_draft.add("recovery_action", value, word, tables.RECOVERY_FIELD)
        else:
            state = Absent.NOT_UNDERSTOOD if action is None else float(word == action)
            device_draft.add("recovery_action", state, word, tables.RECOVERY_FIELD)


def _store_main_power(
    calls: Mapping[str, Plain], fields: Mapping[str, Plain], record: dict[str, Plain], device_draft: DeviceDraft
) -> None:
    """Store the main power: the average if it is available, else the instantaneous power."""
    kind = devices.power_kind(record)
    if tables.POWER_USAGE in calls:
        row = Row("power_watts", over=1000)
        device_draft.add_row(row, calls[tables.POWER_USAGE], tables.POWER_USAGE)
        if kind is not None:
            device_draft.add_row(Row(f"power_{kind}_watts", over=1000), calls[tables.POWER_USAGE], tables.POWER_USAGE)
        return
    name = f"power_{kind or 'instant'}"
    if name in fields:
        device_draft.add_row(Row("power_watts", over=1000), fields[name], name)


def _read_ecc(calls: Mapping[str, Plain], fields: Mapping[str, Plain], device_draft: DeviceDraft) -> None:
    """Store the error counts by location, or the total if no location has a number."""
    answers = [(row, calls[name], name) for name, row in tables.ECC_CALLS.items() if name in calls]
    answers += [(row, fields[name], name) for name, row in tables.ECC_FIELDS.items() if name in fields]
    for metric in dict.fromkeys(row.metric for row, _, _ in answers):
        candidates = [(row, answer, name) for row, answer, name in answers if row.metric == metric]
        counts = [(row, answer, name) for row, answer, name in candidates if _is_number(answer)]
        counts_by_location = [(row, answer, name) for row, answer, name in counts if row.label != _TOTAL_LABEL]
        for row, answer, name in counts_by_location or counts:
            device_draft.add_row(row, answer, name)
        if not counts:
            row, answer, name = candidates[-1]
            device_draft.add_row(Row(metric, _TOTAL_LABEL), answer, name)


def _is_number(answer: Plain) -> bool:
    return error_in(answer) is None and not isinstance(number(answer), Absent)


def _read_fans(calls: Mapping[str, Plain], device_draft: DeviceDraft) -> None:
    answers_by_row: dict[Row, dict[str, Plain]] = {}
    for name, answer in calls.items():
        row = _fan_row(name)
        if row is not None:
            answers_by_row.setdefault(row, {})[name] = answer
    for row, answers in answers_by_row.items():
        device_draft.add_highest(row, answers)


def _fan_row(call: str) -> Row | None:
    return tables.FAN_CALLS.get(call.partition(".")[0])


def _read_gpm(answer: Plain, table: Mapping[str, tuple[Row, ...]], device_draft: DeviceDraft) -> None:
    """Store the GPM values, which are averages over the time since the previous poll."""
    values = mapping(answer)
    for name in values:
        if name not in table and name != "error":
            device_draft.draft.add_unknown(f"GPM {name}")
    for name, rows in table.items():
        for row in rows:
            if answer is None or error_in(answer) is not None:
                device_draft.add_row(Row(row.metric, row.label), answer, "GPM")
            elif name in values:
                device_draft.add_row(row, values[name], f"GPM {name}")


_MAX_LINKS = 128
_LINK_NUMBERS = frozenset(map(str, range(_MAX_LINKS)))
# A sleeping link (2) counts as up, because it wakes by itself. A link with disabled traffic (3) is down.
_UP_BY_LINK_STATE: Mapping[int, float] = {0: 0.0, 1: 1.0, 2: 1.0, 3: 0.0}
# For each metric: the possible counters and their factors, in order of preference.
_COUNTERS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "link_receive_bytes_total": (("rx_bytes", 1), ("data_rx_kib", 1024)),
    "link_transmit_bytes_total": (("tx_bytes", 1), ("data_tx_kib", 1024)),
    "link_crc_errors_total": (("crc", 1),),
    "link_replay_errors_total": (("replay", 1),),
    "link_recovery_errors_total": (("recovery", 1), ("recovery_events", 1)),
    "link_receive_errors_total": (("receive_errors", 1),),
    "link_transmit_errors_total": (("transmit_discards", 1),),
}
_LINK_FIELDS = frozenset({"state", *(name for names in _COUNTERS.values() for name, _ in names)})


def read_links(answer: Plain, device_draft: DeviceDraft) -> None:
    """Store the readings of a device's links."""
    if error_in(answer) is not None:
        _store_absent_links(device_draft, device_draft.absence_of(answer, "NVLink"))
        return
    results_by_link = mapping(answer).get("each")
    if not isinstance(results_by_link, dict):
        _store_absent_links(device_draft, Absent.NOT_UNDERSTOOD)
        return
    if not results_by_link:
        _store_absent_links(device_draft, Absent.NOT_SUPPORTED)
        return
    links = {link: mapping(answers) for link, answers in results_by_link.items() if link in _LINK_NUMBERS}
    if len(links) < len(results_by_link):
        device_draft.add_problem("NVLink: a link has no valid number")
    for link, answers in links.items():
        for name in answers.keys() - _LINK_FIELDS:
            device_draft.draft.add_unknown(f"link {name}")
        device_draft.add("link_up", _link_up_value(answers.get("state"), device_draft), link, "NvLinkState")
    totals = mapping(mapping(answer).get("together"))
    for metric in _COUNTERS:
        _store_counter(metric, links, totals, device_draft)


def _link_up_value(answer: Plain, device_draft: DeviceDraft) -> Value:
    value = device_draft.value(answer, "NvLinkState")
    return value if isinstance(value, Absent) else _UP_BY_LINK_STATE.get(int(value), Absent.NOT_UNDERSTOOD)


def _store_counter(
    metric: str, links: Mapping[str, dict[str, Plain]], totals: dict[str, Plain], device_draft: DeviceDraft
) -> None:
    """Store the counter of each link, or the total over all links if no link reports the counter."""
    is_stored = False
    for link, answers in links.items():
        row_and_name = _first_counter_without_error(metric, link, answers)
        if row_and_name is not None:
            row, name = row_and_name
            device_draft.add_row(row, answers[name], f"link {link} {name}")
            is_stored = True
    if is_stored:
        return
    row_and_name = _first_counter_without_error(metric, _TOTAL_LABEL, totals)
    if row_and_name is not None:
        row, name = row_and_name
        device_draft.add_row(row, totals[name], f"all links {name}")
        return
    name = _COUNTERS[metric][0][0]
    absent_values = [
        device_draft.absence_of(answers[name], name) for answers in links.values() if error_in(answers.get(name))
    ]
    device_draft.add(metric, absent_values[0] if absent_values else Absent.NOT_REPORTED, _TOTAL_LABEL, "NVLink")


def _first_counter_without_error(metric: str, link: str, answers: dict[str, Plain]) -> tuple[Row, str] | None:
    """Return (row, counter name) for the first counter whose answer is not an error, if any."""
    for name, factor in _COUNTERS[metric]:
        answer = answers.get(name)
        if answer is not None and error_in(answer) is None:
            return Row(metric, link, factor), name
    return None


def _store_absent_links(device_draft: DeviceDraft, absence: Absent) -> None:
    for metric in LINK_METRICS:
        device_draft.add(metric, absence, _TOTAL_LABEL, "NVLink")


# (bus address, GPU instance id, compute instance id), with ids as decimal text
_InstanceKey = tuple[str | None, str | None, str | None]


def read_events(answer: Plain, draft: Draft) -> None:
    """Add the events to the draft. Each event is assigned to its MIG instance, or else to its GPU."""
    if not items(answer):
        return
    position_by_key: dict[_InstanceKey, int] = {}
    for position, device in enumerate(draft.devices()):
        position_by_key.setdefault(_instance_key(device), position)
    for record in items(answer):
        event = _parse_event(mapping(record), position_by_key)
        if event is None:
            count = integer(mapping(record).get("dropped"))
            problem = f"{count} events were dropped, because they came too fast; they are not counted"
            draft.add_problem("events", "an event has neither an Xid nor an NVML error" if count is None else problem)
        else:
            draft.events.append(event)


def _instance_key(device: Device) -> _InstanceKey:
    facts = dict(device.facts) if device.parent is not None else {}
    return device.bus_id, facts.get("gpu_instance"), facts.get("compute_instance")


def _parse_event(record: dict[str, Plain], position_by_key: Mapping[_InstanceKey, int]) -> Event | None:
    bus_id = text(record.get("bus_id")) or ""
    ids = (integer(record.get(name), 1 << 32) for name in ("gpu_instance", "compute_instance"))
    gpu_instance, compute_instance = (None if number is None else str(number) for number in ids)
    gpu_position = position_by_key.get((bus_id, None, None))
    position = position_by_key.get((bus_id, gpu_instance, compute_instance), gpu_position)
    wall_time = number(record.get("wall_time"))
    event_time = wall_time if not isinstance(wall_time, Absent) and 0 < wall_time < 1e11 else None
    xid, lost_code = integer(record.get("xid")), integer(record.get("lost"))
    if xid is not None:
        return Event(position, f"xid_{xid}", f"Xid {xid} on {quote(bus_id)}", event_time)
    if lost_code is not None:
        return Event(position, "gpu_lost", f"NVML error {lost_code} on {quote(bus_id)}", event_time)
    return None
