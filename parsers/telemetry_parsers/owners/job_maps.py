"""The folders in which other tools say which job has which card: of dcgm-exporter, of jobstats, of AMD's Device Metrics Exporter."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from telemetry_parsers.bounds import LONGEST_NAME, MOST_CLAIMS
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Library, Output, Plain, Poll, Problem, Report
from telemetry_parsers.owners.job_files import READER, device_name, job_keys, scheduler_of
from telemetry_parsers.ownership import Claim, DeviceName, Owner
from telemetry_parsers.text.answers import capped, failed, not_read
from telemetry_parsers.text.lines import quote

CALL = "job-map"
_DCGM_NAME = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?").fullmatch
_NUMBER = re.compile(r"[0-9]{1,4}").fullmatch
_JOB = re.compile(r"[0-9A-Za-zƒ_.+\[\]-]{1,128}").fullmatch
_UID = re.compile(r"[0-9]{1,10}").fullmatch
_FIRST_RENDER_NODE = 128


class _UnclearError(Exception):
    """A file that is not, or not yet, what its kind says; the text says what is wrong."""


def parse(capture: Capture) -> Report:
    """A claim for each job of each file. A file that is not understood is a problem, unless it is new: somebody writes it just now."""
    refusal = not_read(capture)
    if refusal is not None:
        return refusal
    folders = [output for output in capture.outputs if _text(output.data, "kind") in _KINDS]
    if not folders:
        return failed("not_understood", CALL, f"no folder of the kinds {' '.join(_KINDS)}")
    problems: list[Problem] = []
    claims: list[Claim] = []
    for output in folders:
        claims += _claims_of(output, problems)
    return Report(claims=tuple(claims[:MOST_CLAIMS]), problems=capped(problems), form="data")


def _claims_of(output: Output, problems: list[Problem]) -> Iterator[Claim]:
    """The claims of one folder; a file costs itself only."""
    if output.status:
        problems.append(Problem(quote(output.name), quote(output.stderr) or f"error {output.status}"))
    files = output.data.get("files")
    for file in files if isinstance(files, list) else ():
        place = quote(f"{output.name}/{_text(file, 'file')}")
        try:
            yield from _KINDS[output.data["kind"]](_text(file, "file"), _content(file), _users(file))
        except _UnclearError as error:
            if not (isinstance(file, dict) and file.get("is_new") is True):
                problems.append(Problem(place, str(error)))


def _dcgm(file: str, text: str, _users: Mapping[str, str]) -> Iterator[Claim]:
    """One job a line; the file is named after the number of the GPU as NVML counts, and of the instance on it."""
    match = _DCGM_NAME(file)
    if match is None:
        return
    name = DeviceName(file, "index", str(int(match[1])), "nvidia", match[2] or "")
    jobs = list(dict.fromkeys(text.split()))
    for place, job in enumerate(jobs):
        yield _claim(job, (name,), replica=str(place) if len(jobs) > 1 else "")


def _jobstats(file: str, text: str, users: Mapping[str, str]) -> Iterator[Claim]:
    """`JOB UID`; the file is named after the number that Slurm gave the card, or after its uuid."""
    if not text.strip() or not (_NUMBER(file) or file.startswith(("GPU-", "MIG-"))):
        return
    name = device_name(file, "minor")
    job, *rest = text.split()
    if len(rest) != 1 or _UID(rest[0]) is None:
        raise _UnclearError("is not the id of a job and that of its user")
    yield _claim(job, (name,), user=users.get(rest[0], rest[0]))


def _dme(file: str, text: str, _users: Mapping[str, str]) -> Iterator[Claim]:
    """An object of texts; the file is named after the card's render node, counted from the first."""
    if _NUMBER(file) is None or not text.strip():
        return
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise _UnclearError("is no JSON") from None
    job = _text(told, "SLURM_JOB_ID")
    if not job:
        raise _UnclearError("names no job")
    name = DeviceName(file, "render", str(int(file) + _FIRST_RENDER_NODE), "amd")
    yield _claim(job, (name,), user=_text(told, "SLURM_JOB_USER"), partition=_text(told, "SLURM_JOB_PARTITION"))


_KINDS: Mapping[str, Callable[[str, str, Mapping[str, str]], Iterator[Claim]]] = {
    "dcgm": _dcgm,
    "jobstats": _jobstats,
    "dme": _dme,
}


def _claim(job: str, names: tuple[DeviceName, ...], *, user: str = "", partition: str = "", replica: str = "") -> Claim:
    if _JOB(job) is None:
        raise _UnclearError(f"{quote(job)} is no id of a job")
    return Claim(
        Owner("job", job, job_id=job, user=user, partition=partition), job_keys(scheduler_of(job), job), names, replica
    )


def _content(file: Plain) -> str:
    problem = _text(file, "problem")
    if problem:
        raise _UnclearError(quote(problem))
    text = file.get("text") if isinstance(file, dict) else None
    return text if isinstance(text, str) else ""


def _users(file: Plain) -> Mapping[str, str]:
    """The names of the users whose numbers are in the file, as far as the reader knew them."""
    users = file.get("users") if isinstance(file, dict) else None
    return {uid: name for uid, name in users.items() if isinstance(name, str)} if isinstance(users, dict) else {}


def _text(data: Plain, key: str) -> str:
    value = data.get(key) if isinstance(data, dict) else None
    return value[:LONGEST_NAME] if isinstance(value, str) else ""


PARSER = SourceParser(
    name="job-map",
    vendor="",
    gives=(),
    polls=(Poll("jobs", Library(READER, (CALL,)), interval=5.0, deadline=2.0, lists_devices=False),),
    parse=parse,
)
