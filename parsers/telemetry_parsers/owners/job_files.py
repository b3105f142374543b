"""Parses jobs and their devices, from `telemetry job` and from Slurm's device lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from telemetry_parsers.bounds import MAX_CLAIMS, MAX_DEVICES, MAX_NAME_LENGTH
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Library, Plain, Poll, Problem, Report
from telemetry_parsers.ownership import Claim, DeviceName, NameKind, Owner
from telemetry_parsers.text.answers import capped, failed, reader_failure
from telemetry_parsers.text.lines import quote

READER = "jobs"
_NUMBER_KINDS: Mapping[str, NameKind] = {"slurm": "minor", "pbs": "minor", "flux": "index"}
_FLUX_PREFIXES = "ƒf"
_MAX_UNIX_SECONDS = 1e12
# Device numbers from the kernel's devices.txt. 254 and 255 are NVIDIA's control devices.
_NVIDIA_MAJOR, _NVIDIA_CARDS = 195, range(254)
_DRM_MAJOR, _RENDER_NODES = 226, range(128, 192)


def _parse_jobs(scheduler: str, capture: Capture) -> Report:
    failure = reader_failure(capture)
    if failure is not None:
        return failure
    output = next((output for output in capture.outputs if output.name == scheduler), None)
    if output is None or not isinstance(output.data, list):
        return failed("not_understood", scheduler, f"the list of {scheduler} jobs is missing")
    problems: list[Problem] = []
    claims: list[Claim] = []
    for job in output.data:
        if not isinstance(job, dict) or "problem" in job:
            problems.append(_job_problem(scheduler, job))
        elif not (job_claims := list(_claims_of_job(scheduler, job))):
            problems.append(Problem(quote(_text_at(job, "file")), "contains no job id"))
        else:
            claims += job_claims
    if len(claims) > MAX_CLAIMS:
        problems.append(Problem(scheduler, f"{len(claims)} claims reported; only {MAX_CLAIMS} are kept"))
        claims.sort(key=lambda claim: claim.lives is False)  # ended jobs come last, so that they are dropped first
    return Report(claims=tuple(claims[:MAX_CLAIMS]), problems=capped(problems), form="data")


def job_keys(scheduler: str, job_id: str) -> tuple[str, ...]:
    """Return the keys that identify the job in other sources."""
    if scheduler == "flux" and job_id[:1] in _FLUX_PREFIXES:
        return tuple(f"flux:{letter}{job_id[1:]}" for letter in _FLUX_PREFIXES)
    return (f"{scheduler}:{job_id}",)


def scheduler_of(job_id: str) -> str:
    """Return the scheduler that probably assigned this job id."""
    if job_id.isascii() and job_id.isdigit():
        return "slurm"
    return "pbs" if "." in job_id else "flux"


def device_name(text: str, number_kind: NameKind) -> DeviceName:
    """Create a device name from a UUID or a number. A number is a name of the kind `number_kind`, such as `index`."""
    if text.isascii() and text.isdigit() and len(text) <= 4:
        return DeviceName(text, number_kind, str(int(text)))
    return DeviceName(text[:MAX_NAME_LENGTH], "uuid", text[:MAX_NAME_LENGTH])


def _claims_of_job(scheduler: str, job: Mapping[str, Plain]) -> Iterator[Claim]:
    """Yield a claim for each device of the job. A job without devices has a single claim."""
    job_id = _text_at(job, "id")
    if not job_id:
        return
    name = _text_at(job, "name") or job_id
    owner = Owner(
        "job",
        name,
        job_id=name,
        job_name=_text_at(job, "job_name"),
        user=_text_at(job, "user"),
        account=_text_at(job, "account"),
        partition=_text_at(job, "partition"),
    )
    sluid = _text_at(job, "sluid")
    keys = (*job_keys(scheduler, job_id), *((f"sluid:{sluid}",) if sluid else ()))
    lives = job.get("lives") if isinstance(job.get("lives"), bool) else None
    ended = _unix_seconds(job, "ended")
    claim = Claim(owner, keys, (), "", False if ended is not None else lives, _unix_seconds(job, "started"), ended)
    devices = [device_name(text, _NUMBER_KINDS[scheduler]) for text in _texts_at(job, "devices")]
    devices += [device for text in _texts_at(job, "nodes") if (device := _name_from_device_number(text)) is not None]
    if not devices:
        yield claim
    for device in dict.fromkeys(devices):
        yield replace(claim, names=(device,))


def _name_from_device_number(text: str) -> DeviceName | None:
    major, colon, minor = text.partition(":")
    if not colon or not all(part.isascii() and part.isdigit() and len(part) <= 7 for part in (major, minor)):
        return None
    if int(major) == _NVIDIA_MAJOR and int(minor) in _NVIDIA_CARDS:
        return DeviceName(text, "minor", str(int(minor)), "nvidia")
    if int(major) == _DRM_MAJOR and int(minor) in _RENDER_NODES:
        return DeviceName(text, "render", str(int(minor)))
    return None


def _job_problem(scheduler: str, job: Plain) -> Problem:
    if not isinstance(job, dict):
        return Problem(scheduler, f"expected an object for each job, found {type(job).__name__}")
    return Problem(quote(_text_at(job, "file")) or scheduler, quote(_text_at(job, "problem")) or "could not be read")


def _text_at(data: Mapping[str, Plain], key: str) -> str:
    value = data.get(key)
    return value[:MAX_NAME_LENGTH] if isinstance(value, str) else ""


def _texts_at(data: Mapping[str, Plain], key: str) -> list[str]:
    value = data.get(key)
    return [text for text in value if isinstance(text, str)][:MAX_DEVICES] if isinstance(value, list) else []


def _unix_seconds(data: Mapping[str, Plain], key: str) -> float | None:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < _MAX_UNIX_SECONDS else None


def _create_parser(scheduler: str) -> SourceParser:
    poll = Poll("jobs", Library(READER, (scheduler,)), interval=5.0, deadline=2.0, lists_devices=False)
    return SourceParser(name=scheduler, vendor="", gives=(), polls=(poll,), parse=partial(_parse_jobs, scheduler))


SLURM = _create_parser("slurm")
PBS = _create_parser("pbs")
FLUX = _create_parser("flux")
