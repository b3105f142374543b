"""Parses files that schedulers write for other exporters. The files map cards to jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping

from telemetry_parsers.bounds import MAX_CLAIMS, MAX_NAME_LENGTH
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Library, Output, Plain, Poll, Problem, Report
from telemetry_parsers.owners.job_files import READER, device_name, job_keys, scheduler_of
from telemetry_parsers.ownership import Claim, DeviceName, Owner
from telemetry_parsers.text.answers import capped, failed, reader_failure
from telemetry_parsers.text.lines import quote

CALL = "job-map"
_match_dcgm_name = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?").fullmatch
_match_number = re.compile(r"[0-9]{1,4}").fullmatch
_match_job_id = re.compile(r"[0-9A-Za-zƒ_.+\[\]-]{1,128}").fullmatch
_match_user_id = re.compile(r"[0-9]{1,10}").fullmatch
_FIRST_RENDER_NODE = 128


class _InvalidFileError(Exception):
    """A file is malformed or incomplete."""


def parse(capture: Capture) -> Report:
    """Return a claim for each job in each file, and a problem for each malformed file."""
    failure = reader_failure(capture)
    if failure is not None:
        return failure
    folders = [output for output in capture.outputs if _text_at(output.data, "kind") in _CLAIM_PARSERS]
    if not folders:
        return failed("not_understood", CALL, f"the capture has no folder of a job map ({', '.join(_CLAIM_PARSERS)})")
    problems: list[Problem] = []
    claims: list[Claim] = []
    for output in folders:
        claims += _claims_of(output, problems)
    return Report(claims=tuple(claims[:MAX_CLAIMS]), problems=capped(problems), form="data")


def _claims_of(output: Output, problems: list[Problem]) -> Iterator[Claim]:
    if output.status:
        problems.append(Problem(quote(output.name), quote(output.stderr) or f"error {output.status}"))
    files = output.data.get("files")
    for file in files if isinstance(files, list) else ():
        path = quote(f"{output.name}/{_text_at(file, 'file')}")
        try:
            yield from _CLAIM_PARSERS[output.data["kind"]](_text_at(file, "file"), _read_text(file), _user_names(file))
        except _InvalidFileError as error:
            if not (isinstance(file, dict) and file.get("is_new") is True):
                problems.append(Problem(path, str(error)))


def _dcgm_claims(file_name: str, text: str, _user_names: Mapping[str, str]) -> Iterator[Claim]:
    """Yield a claim for each job id in the file. The file's name is an NVML index."""
    match = _match_dcgm_name(file_name)
    if match is None:
        return
    name = DeviceName(file_name, "index", str(int(match[1])), "nvidia", match[2] or "")
    jobs = list(dict.fromkeys(text.split()))
    for replica, job in enumerate(jobs):
        yield _claim(job, (name,), replica=str(replica) if len(jobs) > 1 else "")


def _jobstats_claims(file_name: str, text: str, users: Mapping[str, str]) -> Iterator[Claim]:
    """Yield the claim in a text such as `4711 1000` (job id, user id). The file's name is a minor number or UUID."""
    if not text.strip() or not (_match_number(file_name) or file_name.startswith(("GPU-", "MIG-"))):
        return
    name = device_name(file_name, "minor")
    job, *rest = text.split()
    if len(rest) != 1 or _match_user_id(rest[0]) is None:
        raise _InvalidFileError("must contain a job id and a user id")
    yield _claim(job, (name,), user=users.get(rest[0], rest[0]))


def _amd_exporter_claims(file_name: str, text: str, _user_names: Mapping[str, str]) -> Iterator[Claim]:
    """Yield the claim in a JSON object. The file's name is a render node's number, counted from 0."""
    if _match_number(file_name) is None or not text.strip():
        return
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise _InvalidFileError("is not JSON") from None
    job = _text_at(data, "SLURM_JOB_ID")
    if not job:
        raise _InvalidFileError("contains no job id")
    name = DeviceName(file_name, "render", str(int(file_name) + _FIRST_RENDER_NODE), "amd")
    yield _claim(job, (name,), user=_text_at(data, "SLURM_JOB_USER"), partition=_text_at(data, "SLURM_JOB_PARTITION"))


_CLAIM_PARSERS: Mapping[str, Callable[[str, str, Mapping[str, str]], Iterator[Claim]]] = {
    "dcgm": _dcgm_claims,
    "jobstats": _jobstats_claims,
    "dme": _amd_exporter_claims,
}


def _claim(job: str, names: tuple[DeviceName, ...], *, user: str = "", partition: str = "", replica: str = "") -> Claim:
    if _match_job_id(job) is None:
        raise _InvalidFileError(f"{quote(job)} is not a valid job id")
    return Claim(
        Owner("job", job, job_id=job, user=user, partition=partition), job_keys(scheduler_of(job), job), names, replica
    )


def _read_text(file: Plain) -> str:
    problem = _text_at(file, "problem")
    if problem:
        raise _InvalidFileError(quote(problem))
    text = file.get("text") if isinstance(file, dict) else None
    return text if isinstance(text, str) else ""


def _user_names(file: Plain) -> Mapping[str, str]:
    users = file.get("users") if isinstance(file, dict) else None
    return {uid: name for uid, name in users.items() if isinstance(name, str)} if isinstance(users, dict) else {}


def _text_at(data: Plain, key: str) -> str:
    value = data.get(key) if isinstance(data, dict) else None
    return value[:MAX_NAME_LENGTH] if isinstance(value, str) else ""


PARSER = SourceParser(
    name="job-map",
    vendor="",
    gives=(),
    polls=(Poll("jobs", Library(READER, (CALL,)), interval=5.0, deadline=2.0, lists_devices=False),),
    parse=parse,
)
