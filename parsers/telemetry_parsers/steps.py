"""Parses the untrusted `telemetry.steps/1` files in which jobs report their steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from telemetry_parsers.bounds import MAX_NAME_LENGTH
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.dataclass import dataclass
from telemetry_parsers.merge.device_names import DeviceNames
from telemetry_parsers.model import Capture, Library, MergedDevice, Plain, Poll, Problem, Report, Sample
from telemetry_parsers.ownership import Claim, DeviceName, Owner, PartSeconds, StepCounts
from telemetry_parsers.text.answers import capped, failed, reader_failure
from telemetry_parsers.text.lines import quote

SCHEMA = "telemetry.steps/1"
SOURCE = READER = "steps"
PARTS = ("compute", "communication", "copy", "data", "idle", "other")
MAX_FILES, MAX_FILES_PER_USER = 1024, 256
_MAX_LABEL_LENGTH = 64
_MAX_NUMBER = 1e24


class _InvalidStepsError(ValueError):
    """A file is not valid `telemetry.steps/1`."""


def parse(capture: Capture) -> Report:
    """Return the step counts in each file."""
    failure = reader_failure(capture)
    if failure is not None:
        return failure
    output = next((output for output in capture.outputs if output.name == SOURCE), None)
    if output is None or not isinstance(output.data, list):
        return failed("not_understood", SOURCE, "the list of step files is missing")
    counts: list[StepCounts] = []
    problems: list[Problem] = []
    for file in output.data:
        try:
            counts.append(parse_file(file))
        except _InvalidStepsError as error:  # noqa: PERF203  # other files are still read
            name = file.get("file") if isinstance(file, dict) else ""
            problems.append(Problem(quote(str(name)[:MAX_NAME_LENGTH]), str(error)))
    selected, ignored = _select_files(counts)
    return Report(steps=tuple(selected), problems=capped([*problems, *ignored]), form="data")


def parse_file(file: Plain) -> StepCounts:
    """Return the step counts in one file. Raise _InvalidStepsError for a malformed file."""
    if not isinstance(file, dict) or "problem" in file:
        raise _InvalidStepsError(
            (quote(str(file.get("problem", ""))) if isinstance(file, dict) else "") or "is not an object"
        )
    if file.get("schema") != SCHEMA:
        raise _InvalidStepsError(f'its `schema` is not "{SCHEMA}"')
    steps = _read_number(file, "steps")
    if steps is None:
        raise _InvalidStepsError("`steps`, the number of completed steps, is missing")
    seconds = file.get("seconds", {})
    if not isinstance(seconds, dict) or not seconds.keys() <= set(PARTS):
        raise _InvalidStepsError(f"the parts in `seconds` must be among {', '.join(PARTS)}")
    return StepCounts(
        file=str(file.get("file", ""))[:MAX_NAME_LENGTH],
        user_id=_user_id(file.get("uid")),
        job_id=_read_label(file, "job_id"),
        rank=_read_label(file, "rank"),
        card=_card_name(file.get("card")),
        steps=steps,
        tokens=_read_number(file, "tokens"),
        flops=_read_number(file, "flops"),
        seconds=tuple(PartSeconds(part, value) for part in PARTS if (value := _read_number(seconds, part)) is not None),
        is_quiet=file.get("is_quiet") is True,
    )


def _user_id(value: Plain) -> int:
    is_valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32
    return value if is_valid else -1


def _read_number(data: Mapping[str, Plain], key: str) -> float | None:
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_NUMBER:
        raise _InvalidStepsError(f"`{key}` must be a number from 0 to {_MAX_NUMBER:g}")
    return float(value)


def _read_label(data: Mapping[str, Plain], key: str) -> str:
    value = data.get(key)
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text or len(text) > _MAX_LABEL_LENGTH or not text.isprintable():
        raise _InvalidStepsError(f"`{key}` must be a string of 1 to {_MAX_LABEL_LENGTH} printable characters")
    return text


def _card_name(data: Plain) -> DeviceName:
    """Return the card's name. If the list `visible` exists, `index` is a position in this list."""
    card = data if isinstance(data, dict) else {}
    uuid, bus_id = (
        value if isinstance(value := card.get(key), str) and len(value) <= MAX_NAME_LENGTH else ""
        for key in ("uuid", "bus_id")
    )
    if uuid:
        return DeviceName(uuid, "uuid", uuid)
    if bus_id:
        return DeviceName(bus_id, "bus_id", _normalize_bus_id(bus_id))
    index, visible = card.get("index"), card.get("visible")
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < 1000:
        return _visible_card(index, visible if isinstance(visible, str) else "")
    raise _InvalidStepsError("`card` must have a `uuid`, a `bus_id` or an `index`")


def _visible_card(index: int, visible: str) -> DeviceName:
    names = [part.strip() for part in visible.split(",") if part.strip()]
    if not names:
        return DeviceName(str(index), "index", str(index))
    if index >= len(names):
        raise _InvalidStepsError("the `index` of `card` is not a position in `visible`")
    name = names[index][:MAX_NAME_LENGTH]
    return DeviceName(name, "index", name) if name.isascii() and name.isdigit() else DeviceName(name, "uuid", name)


def _normalize_bus_id(printed: str) -> str:
    """Convert a bus id, such as `00000000:3B:00.0` or `3b:00.0`, to the form `0000:3b:00.0`."""
    parts = printed.lower().split(":")
    if len(parts) == 2:
        parts.insert(0, "0")
    return ":".join([parts[0][-4:].rjust(4, "0"), *parts[1:]])


def _select_files(counts: Sequence[StepCounts]) -> tuple[list[StepCounts], list[Problem]]:
    """Return the step counts of one file per rank, and a problem for each ignored file."""
    first_user_by_job: dict[str, int] = {}
    for item in counts:
        first_user_by_job.setdefault(item.job_id, item.user_id)
    selected: dict[tuple[str, str, object], StepCounts] = {}
    file_counts_by_user: Counter[int] = Counter()
    problems: list[Problem] = []
    for item in sorted(counts, key=lambda item: item.is_quiet):
        key = (item.job_id, item.rank, item.card)
        if first_user_by_job[item.job_id] != item.user_id:
            problems.append(Problem(quote(item.file), "reports a job that another user already reports"))
        elif key in selected:
            problems.append(Problem(quote(item.file), f"reports the same rank as {quote(selected[key].file)}"))
        elif file_counts_by_user[item.user_id] >= MAX_FILES_PER_USER or len(selected) >= MAX_FILES:
            limits = f"at most {MAX_FILES_PER_USER} files per user and {MAX_FILES} files in total are read"
            problems.append(Problem(quote(item.file), f"is ignored: {limits}"))
        else:
            selected[key] = item
            file_counts_by_user[item.user_id] += 1
    return [item for item in counts if selected.get((item.job_id, item.rank, item.card)) is item], problems


@dataclass(frozen=True, slots=True)
class ResolvedSteps:
    """The samples by metric name, and a problem for each file whose card was not found."""

    samples: Mapping[str, tuple[Sample, ...]]
    problems: tuple[Problem, ...]


def resolve(counts: Sequence[StepCounts], devices: Sequence[MergedDevice]) -> ResolvedSteps:
    """Convert step counts to samples of the daemon's metrics, labelled with the cards' ids."""
    names = DeviceNames(devices)
    samples: dict[str, list[Sample]] = {metric: [] for metric in METRICS}
    problems: list[Problem] = []
    used_labels: set[tuple[tuple[str, str], ...]] = set()
    for item in counts:
        device = names.find(Claim(_NO_OWNER, (), (item.card,) if item.card else ()))
        if device is None:
            card = item.card.text if item.card else ""
            problems.append(
                Problem(quote(item.file), f"names the card {quote(card[:MAX_NAME_LENGTH])}, which is not on this node")
            )
            continue
        labels = (("id", device.id), ("job_id", item.job_id), ("rank", item.rank))
        if labels not in used_labels:
            used_labels.add(labels)
            for metric, sample in _samples(item, labels):
                samples[metric].append(sample)
    return ResolvedSteps(
        {metric: tuple(metric_samples) for metric, metric_samples in samples.items()}, tuple(capped(problems))
    )


def _samples(counts: StepCounts, labels: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, Sample]]:
    for metric, value in zip(METRICS, (counts.steps, counts.tokens, counts.flops), strict=False):
        if value is not None:
            yield metric, Sample(metric, value, labels)
    for part_seconds in counts.seconds:
        yield METRICS[-1], Sample(METRICS[-1], part_seconds.seconds, (*labels, ("part", part_seconds.part)))


METRICS = (
    "telemetry_steps_total",
    "telemetry_steps_tokens_total",
    "telemetry_steps_flops_total",
    "telemetry_steps_seconds_total",
)
_NO_OWNER = Owner("job", "")

PARSER = SourceParser(
    name=SOURCE,
    vendor="",
    gives=(),
    polls=(Poll("steps", Library(READER, (SOURCE,)), interval=5.0, deadline=2.0, lists_devices=False),),
    parse=parse,
)
