"""The steps that jobs report of themselves: files `telemetry.steps/1`, and the samples that they become.

Whoever runs a job writes them, so everything in them is hostile: a file that is not as expected costs itself only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from telemetry_parsers.bounds import LONGEST_NAME
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.merge.device_names import DeviceNames
from telemetry_parsers.model import Capture, Library, MergedDevice, Plain, Poll, Problem, Report, Sample
from telemetry_parsers.ownership import Claim, DeviceName, Owner, PartSeconds, StepCounts
from telemetry_parsers.text.answers import capped, failed, not_read
from telemetry_parsers.text.lines import quote

SCHEMA = "telemetry.steps/1"
SOURCE = READER = "steps"
PARTS = ("compute", "communication", "copy", "data", "idle", "other")
MOST_FILES, MOST_FILES_OF_A_USER = 1024, 256
_LONGEST_LABEL = 64
_LARGEST = 1e24


class _BadStepsError(ValueError):
    """A file is no `telemetry.steps/1`."""


def parse(capture: Capture) -> Report:
    """The counts of each file; what is wrong with a file is a problem of its own."""
    refusal = not_read(capture)
    if refusal is not None:
        return refusal
    output = next((output for output in capture.outputs if output.name == SOURCE), None)
    if output is None or not isinstance(output.data, list):
        return failed("not_understood", SOURCE, "no list of files of steps")
    counts: list[StepCounts] = []
    problems: list[Problem] = []
    for file in output.data:
        try:
            counts.append(counts_in(file))
        except _BadStepsError as error:  # noqa: PERF203  # a bad file costs itself
            name = file.get("file") if isinstance(file, dict) else ""
            problems.append(Problem(quote(str(name)[:LONGEST_NAME]), str(error)))
    kept, refused = _first_of_each(counts)
    return Report(steps=tuple(kept), problems=capped([*problems, *refused]), form="data")


def counts_in(file: Plain) -> StepCounts:
    """What one file counts. Raises BadStepsError."""
    if not isinstance(file, dict) or "problem" in file:
        raise _BadStepsError((quote(str(file.get("problem", ""))) if isinstance(file, dict) else "") or "is no object")
    if file.get("schema") != SCHEMA:
        raise _BadStepsError(f'its `schema` is not "{SCHEMA}"')
    steps = _number(file, "steps")
    if steps is None:
        raise _BadStepsError("`steps` is missing: the number of steps that have ended")
    seconds = file.get("seconds", {})
    if not isinstance(seconds, dict) or not seconds.keys() <= set(PARTS):
        raise _BadStepsError(f"`seconds` has other parts than {', '.join(PARTS)}")
    return StepCounts(
        file=str(file.get("file", ""))[:LONGEST_NAME],
        user_id=_user_id(file.get("uid")),
        job_id=_label(file, "job_id"),
        rank=_label(file, "rank"),
        card=_card(file.get("card")),
        steps=steps,
        tokens=_number(file, "tokens"),
        flops=_number(file, "flops"),
        seconds=tuple(PartSeconds(part, value) for part in PARTS if (value := _number(seconds, part)) is not None),
        is_quiet=file.get("is_quiet") is True,
    )


def _user_id(told: Plain) -> int:
    is_one = isinstance(told, int) and not isinstance(told, bool) and 0 <= told < 1 << 32
    return told if is_one else -1


def _number(told: Mapping[str, Plain], key: str) -> float | None:
    value = told.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise _BadStepsError(f"`{key}` is no number from 0 on")
    return float(value)


def _label(told: Mapping[str, Plain], key: str) -> str:
    value = told.get(key)
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text or len(text) > _LONGEST_LABEL or not text.isprintable():
        raise _BadStepsError(f"`{key}` is not a text of 1 to {_LONGEST_LABEL} characters")
    return text


def _card(told: Plain) -> DeviceName:
    """The card by what the job knows of it. An index counts what `visible` lists, else the cards of the node."""
    card = told if isinstance(told, dict) else {}
    uuid, bus_id = (
        value if isinstance(value := card.get(key), str) and len(value) <= LONGEST_NAME else ""
        for key in ("uuid", "bus_id")
    )
    if uuid:
        return DeviceName(uuid, "uuid", uuid)
    if bus_id:
        return DeviceName(bus_id, "bus_id", _bus_id(bus_id))
    index, visible = card.get("index"), card.get("visible")
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < 1000:
        return _visible(index, visible if isinstance(visible, str) else "")
    raise _BadStepsError("`card` has neither `uuid`, `bus_id` nor `index`")


def _visible(index: int, visible: str) -> DeviceName:
    listed = [part.strip() for part in visible.split(",") if part.strip()]
    if not listed:
        return DeviceName(str(index), "index", str(index))
    if index >= len(listed):
        raise _BadStepsError("`card` has an `index` beyond what `visible` lists")
    name = listed[index][:LONGEST_NAME]
    return DeviceName(name, "index", name) if name.isascii() and name.isdigit() else DeviceName(name, "uuid", name)


def _bus_id(printed: str) -> str:
    """`00000000:3B:00.0` and `3b:00.0` as tools of the node write it: `0000:3b:00.0`."""
    parts = printed.lower().split(":")
    if len(parts) == 2:
        parts.insert(0, "0")
    return ":".join([parts[0][-4:].rjust(4, "0"), *parts[1:]])


def _first_of_each(counts: Sequence[StepCounts]) -> tuple[list[StepCounts], list[Problem]]:
    """One file of each rank, of each user a bounded number: who told of it first goes on telling, before one who is quiet."""
    owners: dict[str, int] = {}
    for one in counts:
        owners.setdefault(one.job_id, one.user_id)
    kept: dict[tuple[str, str, object], StepCounts] = {}
    of_user: Counter[int] = Counter()
    problems: list[Problem] = []
    for one in sorted(counts, key=lambda one: one.is_quiet):
        key = (one.job_id, one.rank, one.card)
        if owners[one.job_id] != one.user_id:
            problems.append(Problem(quote(one.file), "tells of a job of which another user told before"))
        elif key in kept:
            problems.append(Problem(quote(one.file), f"tells of the same rank as {quote(kept[key].file)}"))
        elif of_user[one.user_id] >= MOST_FILES_OF_A_USER or len(kept) >= MOST_FILES:
            limits = f"{MOST_FILES_OF_A_USER} of a user are read, {MOST_FILES} in all"
            problems.append(Problem(quote(one.file), f"is one too many: {limits}"))
        else:
            kept[key] = one
            of_user[one.user_id] += 1
    return [one for one in counts if kept.get((one.job_id, one.rank, one.card)) is one], problems


@dataclass(frozen=True, slots=True)
class Resolved:
    """The samples of all files whose card is known, and what is wrong with the others."""

    samples: Mapping[str, tuple[Sample, ...]]
    problems: tuple[Problem, ...]


def resolved(counts: Sequence[StepCounts], devices: Sequence[MergedDevice]) -> Resolved:
    """The counts as samples of the daemon's own metrics, each with the id of its card."""
    names = DeviceNames(devices)
    samples: dict[str, list[Sample]] = {metric: [] for metric in METRICS}
    problems: list[Problem] = []
    taken: set[tuple[tuple[str, str], ...]] = set()
    for one in counts:
        device = names.find(Claim(_NOBODY, (), (one.card,) if one.card else ()))
        if device is None:
            text = one.card.text if one.card else ""
            problems.append(
                Problem(quote(one.file), f"names the card {quote(text[:LONGEST_NAME])}, which fits none of this node")
            )
            continue
        labels = (("id", device.id), ("job_id", one.job_id), ("rank", one.rank))
        if labels not in taken:
            taken.add(labels)
            for metric, sample in _samples(one, labels):
                samples[metric].append(sample)
    return Resolved({metric: tuple(each) for metric, each in samples.items()}, tuple(capped(problems)))


def _samples(one: StepCounts, labels: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, Sample]]:
    for metric, value in zip(METRICS, (one.steps, one.tokens, one.flops), strict=False):
        if value is not None:
            yield metric, Sample(metric, value, labels)
    for spent in one.seconds:
        yield METRICS[-1], Sample(METRICS[-1], spent.seconds, (*labels, ("part", spent.part)))


METRICS = (
    "telemetry_steps_total",
    "telemetry_steps_tokens_total",
    "telemetry_steps_flops_total",
    "telemetry_steps_seconds_total",
)
_NOBODY = Owner("job", "")

PARSER = SourceParser(
    name=SOURCE,
    vendor="",
    gives=(),
    polls=(Poll("steps", Library(READER, (SOURCE,)), interval=5.0, deadline=2.0, lists_devices=False),),
    parse=parse,
)
