"""Bounds of a report: whatever exceeds them is dropped before the merge and becomes a problem."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TypeVar

from telemetry_parsers import bounds
from telemetry_parsers.combining import canonical_uuid
from telemetry_parsers.dataclass import dataclass, fields, replace
from telemetry_parsers.model import Device, Event, Identity, Problem, Process, Reading, Report
from telemetry_parsers.ownership import Claim, Owner, Task

TOO_MUCH = "too much"
_Pairs = tuple[tuple[str, str], ...]
_T = TypeVar("_T")
_ClaimOrTask = TypeVar("_ClaimOrTask", Claim, Task)
_OWNER_TEXTS = attrgetter(*(item.name for item in fields(Owner)))


@dataclass(frozen=True, slots=True)
class Admitted:
    """A report within the bounds, and how many of its devices were dropped."""

    report: Report
    refused: int = 0


def admit(report: Report, identities: Iterable[Identity]) -> Admitted:
    """Return the report cut to the bounds, usually unchanged. Of too many devices, the best known are kept."""
    if _is_within(report):
        return Admitted(report)
    problems: list[str] = []
    listed = _fewer_devices(report, identities, problems)
    cut = _with_short_texts(_fewer_of_each(listed, problems), problems)
    return Admitted(
        replace(cut, problems=(*cut.problems, *(Problem(TOO_MUCH, text) for text in problems))),
        refused=len(report.devices) - len(listed.devices),
    )


def _is_within(report: Report) -> bool:
    """Return whether the report exceeds no bound. Fast: it compares lengths and looks at distinct labels only."""
    words = {reading.label for reading in report.readings}
    names = (*words, *report.unknown_fields, *(process.name for process in report.processes), report.index_space)
    texts = (*(event.code for event in report.events), *(text for pair in report.facts for text in pair))
    return (
        len(report.devices) <= bounds.MOST_DEVICES
        and len(report.readings) <= bounds.MOST_READINGS
        and len(words) <= bounds.MOST_WORDS
        and len(report.events) <= bounds.MOST_EVENTS
        and len(report.processes) <= bounds.MOST_PROCESSES
        and len(report.claims) <= bounds.MOST_CLAIMS
        and len(report.tasks) <= bounds.MOST_PROCESSES
        and all(_is_modest_owner(claim) for claim in report.claims)
        and all(_is_modest_owner(task) for task in report.tasks)
        and len(report.problems) <= bounds.MOST_PROBLEMS
        and len(report.unknown_fields) <= bounds.MOST_UNKNOWN_FIELDS
        and len(report.facts) <= bounds.MOST_FACTS
        and max(map(len, (*names, *texts))) <= bounds.LONGEST_NAME
        and all(len(problem.where) + len(problem.text) <= bounds.LONGEST_TEXT for problem in report.problems)
        and all(map(_is_modest, report.devices))
    )


def _is_modest_owner(item: Claim | Task) -> bool:
    """Return whether no text about an owner is too long. Such names are never cut: a cut name could be another owner's."""
    texts = (*item.keys, *(() if item.owner is None else _OWNER_TEXTS(item.owner)))
    return max(map(len, texts), default=0) <= bounds.LONGEST_TEXT and len(item.keys) <= bounds.MOST_FACTS


def _is_modest(device: Device) -> bool:
    """Return whether no text of a device is too long. Usually even their total length is small enough."""
    texts = (*_names(device), *(text for pair in device.facts for text in pair))
    return len(device.facts) <= bounds.MOST_FACTS and (
        len("".join(texts)) <= bounds.LONGEST_NAME or max(map(len, texts)) <= bounds.LONGEST_NAME
    )


def _names(device: Device) -> tuple[str, ...]:
    texts = (device.model, device.uuid, device.bus_id, device.partition, device.serial, device.driver)
    return tuple(text for text in texts if text)


def _fewer_devices(report: Report, identities: Iterable[Identity], problems: list[str]) -> Report:
    """Return the report with the devices seen in the most polls, in the order of the list; partitions are dropped first."""
    devices = report.devices
    if len(devices) <= bounds.MOST_DEVICES:
        return report
    polls_of = {name: identity.polls for identity in identities for name in _ids(identity)}
    times_seen = [max((polls_of.get(name, 0) for name in _ids(device)), default=0) for device in devices]
    order = sorted(
        range(len(devices)), key=lambda position: (devices[position].parent is not None, -times_seen[position])
    )
    kept = set(order[: bounds.MOST_DEVICES])
    kept = {position for position in kept if devices[position].parent is None or devices[position].parent in kept}
    problems.append(f"{len(devices)} devices, of which the {len(kept)} that were seen in the most polls are kept")
    return only(report, {position: number for number, position in enumerate(sorted(kept))})


def _ids(device: Device | Identity) -> list[tuple[str, str | None, str]]:
    """Return the names that identify a device: uuid and address, or the index if there is neither."""
    names = [canonical_uuid(device.uuid), device.bus_id]
    names = [name for name in names if name] or [f"#{device.index}"]
    return [(device.vendor, device.partition, name) for name in names if name]


def only(report: Report, new_positions: Mapping[int, int]) -> Report:
    """Return the report about some of its devices; `new_positions` maps old positions to new ones."""

    def is_kept(item: Reading | Event | Process) -> bool:
        return item.device is None or item.device in new_positions

    def moved(position: int | None) -> int | None:
        return None if position is None else new_positions[position]

    return replace(
        report,
        devices=tuple(
            device if device.parent is None else replace(device, parent=moved(device.parent))
            for position, device in enumerate(report.devices)
            if position in new_positions
        ),
        readings=tuple(replace(item, device=moved(item.device)) for item in report.readings if is_kept(item)),
        events=tuple(replace(item, device=moved(item.device)) for item in report.events if is_kept(item)),
        processes=tuple(replace(item, device=new_positions[item.device]) for item in report.processes if is_kept(item)),
    )


def _fewer_of_each(report: Report, problems: list[str]) -> Report:
    """Return the report within all bounds except the one on devices. The first items of each kind are kept."""

    def first(items: tuple[_T, ...], most: int, name: str) -> tuple[_T, ...]:
        if len(items) > most:
            problems.append(f"{len(items)} {name}, of which the first {most} are kept")
        return items[:most]

    def modest(items: tuple[_ClaimOrTask, ...], name: str) -> tuple[_ClaimOrTask, ...]:
        kept = tuple(item for item in items if _is_modest_owner(item))
        if len(kept) < len(items):
            problems.append(f"{len(items) - len(kept)} {name} with texts of more than {bounds.LONGEST_TEXT} characters")
        return kept

    return replace(
        report,
        devices=tuple(
            replace(device, facts=first(device.facts, bounds.MOST_FACTS, "facts")) for device in report.devices
        ),
        readings=first(_fewer_words(report.readings, problems), bounds.MOST_READINGS, "readings"),
        events=first(report.events, bounds.MOST_EVENTS, "events"),
        processes=first(report.processes, bounds.MOST_PROCESSES, "processes"),
        claims=first(modest(report.claims, "claims"), bounds.MOST_CLAIMS, "claims"),
        tasks=first(modest(report.tasks, "processes"), bounds.MOST_PROCESSES, "processes"),
        problems=first(report.problems, bounds.MOST_PROBLEMS, "problems"),
        unknown_fields=first(report.unknown_fields, bounds.MOST_UNKNOWN_FIELDS, "unknown fields"),
        facts=first(report.facts, bounds.MOST_FACTS, "facts"),
    )


def _fewer_words(readings: tuple[Reading, ...], problems: list[str]) -> tuple[Reading, ...]:
    """Return the readings with the first labels of each metric and device."""
    words: Counter[tuple[int | None, str]] = Counter()
    kept = []
    for reading in readings:
        words[reading.device, reading.metric] += 1
        if words[reading.device, reading.metric] <= bounds.MOST_WORDS:
            kept.append(reading)
    if len(kept) < len(readings):
        metric = words.most_common(1)[0][0][1]
        problems.append(
            f"{len(readings) - len(kept)} readings beyond {bounds.MOST_WORDS} words of one metric, as {metric}"
        )
    return tuple(kept)


def _with_short_texts(report: Report, problems: list[str]) -> Report:
    """Return the report with long names and lines cut."""
    shortened = replace(
        report,
        devices=tuple(map(_short_device, report.devices)),
        readings=tuple(replace(item, label=short(item.label)) for item in report.readings),
        events=tuple(replace(item, code=short(item.code)) for item in report.events),
        processes=tuple(replace(item, name=short(item.name)) for item in report.processes),
        problems=tuple(map(short_problem, report.problems)),
        unknown_fields=tuple(map(short, report.unknown_fields)),
        facts=_short_pairs(report.facts),
        index_space=short(report.index_space),
    )
    if shortened != report:
        problems.append(f"texts of more than {bounds.LONGEST_NAME} characters, of which the beginning is kept")
    return shortened


def _short_device(device: Device) -> Device:
    return replace(
        device,
        model=device.model and short(device.model),
        uuid=device.uuid and short(device.uuid),
        bus_id=device.bus_id and short(device.bus_id),
        partition=device.partition and short(device.partition),
        serial=device.serial and short(device.serial),
        driver=device.driver and short(device.driver),
        facts=_short_pairs(device.facts),
    )


def _short_pairs(pairs: Iterable[tuple[str, str]]) -> _Pairs:
    return tuple((short(key), short(text)) for key, text in pairs)


def short(text: str, longest: int = bounds.LONGEST_NAME) -> str:
    """Return the text, cut to `longest` characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def short_problem(problem: Problem) -> Problem:
    """Return the problem with its text cut to the length that is shown."""
    return Problem(short(problem.where), short(problem.text, bounds.LONGEST_TEXT - bounds.LONGEST_NAME))
