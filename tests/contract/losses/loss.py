"""Texts without one of their lines, cells or ends, and what a parser reads in them compared with the whole."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from contract.losses.unnoticeable import UNNOTICEABLE
from kits.captures import in_ci, own_cases, registered_parsers, shared_files, shared_folder, shared_text, text_capture
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Absent, Capture, Device, Report

# The text between two bars, commas, colons or wide gaps: a cell of a table, or a value after its key.
_CELL = re.compile(r"[^\s|,:](?:[^|,:\n]*?[^\s|,:])??(?=\s{2,}|\s*[|,:]|\s*$)", re.MULTILINE)
# The weight of each field in the identity of a device.
_IDENTITIES = (("uuid", 8), ("bus_id", 4), ("index", 2), ("partition", 2), ("serial", 1))
_NAMES = ("model", "uuid", "bus_id", "serial", "driver")

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Loss:
    """A text with a loss: a line, a blank cell, a missing cell, or everything from a line on."""

    kind: str
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """An effect of a loss without a problem: a `wrong` number, a `silent` loss, or an `unnoticeable` one."""

    kind: str
    loss: Loss
    what: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A text of one of a capture's outputs, and its origin."""

    name: str
    capture: Capture
    position: int = 0

    @property
    def text(self) -> str:
        return self.capture.outputs[self.position].text

    def with_text(self, text: str) -> Capture:
        outputs = list(self.capture.outputs)
        outputs[self.position] = replace(outputs[self.position], text=text)
        return replace(self.capture, outputs=tuple(outputs))


def losses(text: str) -> Iterator[Loss]:
    """Yield every loss of one line, one cell or one tail of whole lines."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        where = f"line {number + 1} {line.strip()[:60]!r}"
        before, after = "".join(lines[:number]), "".join(lines[number + 1 :])
        yield Loss("line", where, before + after)
        if number:
            yield Loss("tail", "from " + where, before)
        for cell in _CELL.finditer(line):
            if not any(sign.isalnum() for sign in cell.group()) or cell.group() == line.strip():
                continue  # a rule or a frame, or the whole line
            there = f"{cell.group()!r} of {where}"
            blank = line[: cell.start()] + " " * len(cell.group()) + line[cell.end() :]
            yield Loss("blank", there, before + blank + after)
            gone = line[: cell.start()] + line[cell.end() :].lstrip(" \t")
            yield Loss("cell", there, before + gone + after)


def findings(parser: Parser, sample: Sample, loss: Loss, whole: Report) -> list[Finding]:
    """Return what is wrong or silently missing in the report on the rest, compared with that on the whole."""
    try:
        left = parser.parse(sample.with_text(loss.text))
    except Exception as error:  # any exception of a parser is a finding
        return [Finding("wrong", loss, f"raises {type(error).__name__}: {error}")]
    if is_reported(whole, left) or (loss.kind == "tail" and left.problems):  # the text was cut before
        return []
    wrong = [Finding("wrong", loss, what) for what in _wrong(whole, left)]
    silent = [Finding("silent", loss, what) for what in _silent(whole, left, loss.kind)]
    return [
        replace(finding, kind="unnoticeable") if is_unnoticeable(parser.name, sample.name, finding) else finding
        for finding in wrong + silent
    ]


def is_unnoticeable(parser: str, sample: str, finding: Finding) -> bool:
    """Return whether no reader of the rest could see the loss; `unnoticeable.py` says why."""
    return any(
        row.parser in ("", parser)
        and row.kind in ("", finding.loss.kind)
        and re.search(row.sample, sample)
        and re.search(row.where, finding.loss.where)
        and re.search(row.what, finding.what)
        for row in UNNOTICEABLE
    )


def is_reported(whole: Report, left: Report) -> bool:
    """Return whether the report on the rest contains a problem or an absence that explains the loss."""
    more = {problem.text for problem in left.problems} - {problem.text for problem in whole.problems}
    return bool(more) or len(left.problems) > len(whole.problems) or left.outcome not in (whole.outcome, "no_devices")


def _wrong(whole: Report, left: Report) -> Iterator[str]:
    """Return numbers and names that the whole does not give to this device."""
    for position, origin in enumerate(_origins(whole, left)):
        numbers = _numbers(left, position)
        if origin is None:
            if numbers:
                yield f"{_name(left.devices[position])}: a device that is none of the whole text"
            continue
        before = _numbers(whole, origin)
        for (metric, label), value in numbers.items():
            if before.get((metric, label)) != value:
                yield f"{_name(left.devices[position])}: {metric}{{{label}}} {before.get((metric, label))} -> {value}"
        for name in _NAMES:
            now, was = getattr(left.devices[position], name), getattr(whole.devices[origin], name)
            if now is not None and now != was:
                yield f"{_name(left.devices[position])}: {name} {was!r} -> {now!r}"


def _silent(whole: Report, left: Report, kind: str) -> Iterator[str]:
    """Return readings of the whole that the rest neither gives nor calls absent, for devices that are still there."""
    if kind == "line" or set(left.unknown_fields) - set(whole.unknown_fields):
        return
    origins = _origins(whole, left)
    for position, device in enumerate(whole.devices):
        if position not in origins:
            yield f"{_name(device)}: gone"
            continue
        now = _reading_keys(left, origins.index(position))
        for metric, label in _numbers(whole, position):
            if (metric, label) not in now and not any(key[0] == metric and not key[1] for key in now):
                yield f"{_name(device)}: {metric}{{{label}}} gone"


def _origins(whole: Report, left: Report) -> list[int | None]:
    """Return the position in the whole report of each device of the rest."""
    return [_origin(whole, left, position) for position in range(len(left.devices))]


def _origin(whole: Report, left: Report, position: int) -> int | None:
    """Find a device by identity; if it has none, or shares it, by its numbers, then by position."""
    numbers = _numbers(left, position).items()
    scores = [
        (_likeness(left.devices[position], other), len(numbers & _numbers(whole, at).items()), at == position)
        for at, other in enumerate(whole.devices)
    ]
    if not scores:
        return None
    best = max(scores)
    nameless = not any(getattr(left.devices[position], name) is not None for name, _ in _IDENTITIES)
    return scores.index(best) if best[0] or nameless else None


def _likeness(device: Device, other: Device) -> int:
    return sum(weight for name, weight in _IDENTITIES if _is_same(getattr(device, name), getattr(other, name)))


def _is_same(value: object, other: object) -> bool:
    return value is not None and value == other


def _numbers(report: Report, position: int) -> dict[Key, float]:
    return {
        (item.metric, item.label): item.value
        for item in report.readings
        if item.device == position and not isinstance(item.value, Absent)
    }


def _reading_keys(report: Report, position: int) -> set[Key]:
    return {(item.metric, item.label) for item in report.readings if item.device == position}


def _name(device: Device) -> str:
    return f"device {device.index if device.index is not None else device.bus_id or device.uuid}"


def own_samples(tool: str = "*") -> list[tuple[Parser, Sample]]:
    """Return the texts of our own captures, with their parsers."""
    parsers = registered_parsers()
    return [
        (parsers[case.tool], Sample(case.id, capture, position))
        for case in own_cases(tool)
        for capture in case.captures(parsers[case.tool])
        for position, output in enumerate(capture.outputs)
        if output.text
    ]


def real_samples(folders: dict[str, str], tool: str = "") -> list[tuple[Parser, Sample]]:
    """Return the real outputs if they are present; `folders` maps a parser to its folder."""
    if shared_folder() is None:
        assert not in_ci(), "no shared captures although this is CI"
        return []
    parsers = registered_parsers()
    return [
        (parsers[name], Sample(f"{name}/{path.name}", text_capture(parsers[name], shared_text(path))))
        for name, folder in sorted(folders.items())
        if tool in ("", name)
        for path in shared_files(folder)
    ]
