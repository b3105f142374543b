"""Reads the job from the environment of a scheduler's hook. Each variable may be missing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from telemetry_parsers.dataclass import dataclass

MAX_DEVICES = 256
_LONGEST = 256
_MAX_ID_LENGTH = 128
# Values that mean "no device".
_UUIDS = ("GPU-", "MIG-")
_NONE = frozenset({"", "-1", "none", "void", "nodevfiles", "all"})


@dataclass(frozen=True, slots=True)
class Job:
    """The fields of a job. The user chooses `job_name`; `run` distinguishes the runs of a job that is queued again."""

    scheduler: str
    id: str
    name: str
    sluid: str = ""
    run: str = ""
    user: str = ""
    uid: str = ""
    account: str = ""
    partition: str = ""
    devices: tuple[str, ...] = ()
    job_name: str = ""


@dataclass(frozen=True, slots=True)
class _Variables:
    """The names of a scheduler's variables for each field, in order of preference. The first non-empty one is used."""

    scheduler: str
    id: tuple[str, ...]
    job_name: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    uid: tuple[str, ...] = ()
    account: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK")
_SCHEDULERS = (
    _Variables(
        "slurm",
        id=("SLURM_JOB_ID", "SLURM_JOBID"),
        job_name=("SLURM_JOB_NAME",),
        run=("SLURM_JOB_RESTART_COUNT", "SLURM_RESTART_COUNT"),
        user=("SLURM_JOB_USER",),
        uid=("SLURM_JOB_UID",),
        account=("SLURM_JOB_ACCOUNT",),
        partition=("SLURM_JOB_PARTITION",),
        devices=("SLURM_JOB_GPUS", *_VISIBLE),
    ),
    # Our PBS hook sets these variables in addition to those of PBS.
    _Variables(
        "pbs",
        id=("PBS_JOBID",),
        job_name=("PBS_JOBNAME",),
        run=("PBS_RUN_COUNT",),
        user=("PBS_JOB_OWNER", "PBS_O_LOGNAME"),
        account=("PBS_ACCOUNT", "PBS_PROJECT"),
        partition=("PBS_QUEUE",),
        devices=_VISIBLE,
    ),
    _Variables(
        "flux",
        id=("FLUX_JOB_ID",),
        user=("FLUX_JOB_USER",),
        uid=("FLUX_JOB_USERID",),
        account=("FLUX_JOB_BANK",),
        partition=("FLUX_JOB_QUEUE",),
    ),
)


def job_of(environment: Mapping[str, str]) -> Job | None:
    """Return the job of the first scheduler whose job ID is set, or None."""
    for variables in _SCHEDULERS:
        job_id = _first_value(environment, variables.id)
        if job_id and len(job_id) <= _MAX_ID_LENGTH:
            return _job(job_id, variables, environment)
    return None


def _job(job_id: str, variables: _Variables, environment: Mapping[str, str]) -> Job:
    return Job(
        scheduler=variables.scheduler,
        id=job_id,
        name=_slurm_name(environment) or job_id if variables.scheduler == "slurm" else job_id,
        job_name=_first_value(environment, variables.job_name),
        sluid=_first_value(environment, ("SLURM_JOB_SLUID",)) if variables.scheduler == "slurm" else "",
        run=_first_value(environment, variables.run),
        user=_first_value(environment, variables.user),
        uid=_first_value(environment, variables.uid),
        account=_first_value(environment, variables.account),
        partition=_first_value(environment, variables.partition),
        devices=_flux_devices(environment) if variables.scheduler == "flux" else _devices(environment, variables),
    )


def _slurm_name(environment: Mapping[str, str]) -> str:
    """Return the ID that users see for a member of an array (`1230_7`) or a heterogeneous job (`1230+1`), else an empty text."""
    for job, part, joint in (
        ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "_"),
        ("SLURM_HET_JOB_ID", "SLURM_HET_JOB_OFFSET", "+"),
    ):
        number, which = _first_value(environment, (job,)), _first_value(environment, (part,))
        if _is_number(number) and _is_number(which):
            return f"{number}{joint}{which}"
    return ""


def _first_value(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    """Return the first non-empty value as one printable line of limited length."""
    values = (environment.get(name, "").strip() for name in names)
    value = next(filter(None, values), "")[:_LONGEST]
    return value if value.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in value)


def _devices(environment: Mapping[str, str], variables: _Variables) -> tuple[str, ...]:
    """Return the devices in the first variable with UUIDs, or else in the first variable with any device."""
    lists = [devices for name in variables.devices if (devices := _devices_in(environment.get(name, "")))]
    with_uuids = [devices for devices in lists if all(device.startswith(_UUIDS) for device in devices)]
    return next(iter(with_uuids or lists), ())


def _devices_in(text: str) -> tuple[str, ...]:
    """Return the devices of `0,1`, `0-3,5`, `[0-3]` or `GPU-…,MIG-…`."""
    found: dict[str, None] = {}
    for part in text.strip("[] ").split(","):
        found.update(dict.fromkeys(_expand(part.strip())))
        if len(found) >= MAX_DEVICES:
            break
    return tuple(found)[:MAX_DEVICES]


def _expand(part: str) -> Iterator[str]:
    first, dash, last = part.partition("-")
    if dash and _is_number(first) and _is_number(last) and len(part) <= len("9999-9999"):
        yield from map(str, range(int(first), min(int(last), int(first) + MAX_DEVICES) + 1))
    elif part.lower() not in _NONE and part.isprintable() and len(part) <= _LONGEST:
        yield part


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _flux_devices(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the cards of this rank from `FLUX_JOB_R`, in which our hook passes the job's resources (RFC 20)."""
    rank = environment.get("FLUX_RANK", "")
    try:
        ranks = json.loads(environment.get("FLUX_JOB_R", ""))["execution"]["R_lite"]
        rank_cards = [entry["children"].get("gpu", "") for entry in ranks if rank in _devices_in(entry["rank"])]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # missing or malformed
        return ()
    return _devices_in(",".join(cards for cards in rank_cards if isinstance(cards, str)))
