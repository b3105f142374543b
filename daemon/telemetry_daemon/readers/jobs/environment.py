"""Reads the job from the environment of a scheduler's hook."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from telemetry_parsers.dataclass import dataclass

MAX_DEVICES = 256
_MAX_VALUE_LENGTH = 256
_MAX_ID_LENGTH = 128
_UUID_PREFIXES = ("GPU-", "MIG-")
# These values are not names of devices.
_NOT_A_DEVICE = frozenset({"", "-1", "none", "void", "nodevfiles", "all"})


@dataclass(frozen=True, slots=True)
class Job:
    """A scheduler's job. `name` is the ID that users see, and `sluid` is Slurm's unique ID."""

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
class _VariableNames:
    """The names of a scheduler's environment variables for each field of `Job`."""

    scheduler: str
    id: tuple[str, ...]
    job_name: tuple[str, ...] = ()
    run: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    uid: tuple[str, ...] = ()
    account: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


_DEVICE_VARIABLES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK")
_SCHEDULERS = (
    _VariableNames(
        "slurm",
        id=("SLURM_JOB_ID", "SLURM_JOBID"),
        job_name=("SLURM_JOB_NAME",),
        run=("SLURM_JOB_RESTART_COUNT", "SLURM_RESTART_COUNT"),
        user=("SLURM_JOB_USER",),
        uid=("SLURM_JOB_UID",),
        account=("SLURM_JOB_ACCOUNT",),
        partition=("SLURM_JOB_PARTITION",),
        devices=("SLURM_JOB_GPUS", *_DEVICE_VARIABLES),
    ),
    # Our PBS hook sets some of these variables, which PBS itself does not set.
    _VariableNames(
        "pbs",
        id=("PBS_JOBID",),
        job_name=("PBS_JOBNAME",),
        run=("PBS_RUN_COUNT",),
        user=("PBS_JOB_OWNER", "PBS_O_LOGNAME"),
        account=("PBS_ACCOUNT", "PBS_PROJECT"),
        partition=("PBS_QUEUE",),
        devices=_DEVICE_VARIABLES,
    ),
    _VariableNames(
        "flux",
        id=("FLUX_JOB_ID",),
        user=("FLUX_JOB_USER",),
        uid=("FLUX_JOB_USERID",),
        account=("FLUX_JOB_BANK",),
        partition=("FLUX_JOB_QUEUE",),
    ),
)


def find_job(environment: Mapping[str, str]) -> Job | None:
    """Return the job of the first scheduler whose job ID is set, or None if no job ID is set."""
    for variables in _SCHEDULERS:
        job_id = _first_value(environment, variables.id)
        if job_id and len(job_id) <= _MAX_ID_LENGTH:
            return _create_job(job_id, variables, environment)
    return None


def _create_job(job_id: str, variables: _VariableNames, environment: Mapping[str, str]) -> Job:
    is_slurm = variables.scheduler == "slurm"
    return Job(
        scheduler=variables.scheduler,
        id=job_id,
        name=(_slurm_display_id(environment) if is_slurm else "") or job_id,
        job_name=_first_value(environment, variables.job_name),
        sluid=_first_value(environment, ("SLURM_JOB_SLUID",)) if is_slurm else "",
        run=_first_value(environment, variables.run),
        user=_first_value(environment, variables.user),
        uid=_first_value(environment, variables.uid),
        account=_first_value(environment, variables.account),
        partition=_first_value(environment, variables.partition),
        devices=_flux_devices(environment) if variables.scheduler == "flux" else _first_devices(environment, variables),
    )


def _slurm_display_id(environment: Mapping[str, str]) -> str:
    """Return the ID that users see, such as `12_3` for a member of a job array, or ""."""
    for job_variable, member_variable, separator in (
        ("SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "_"),
        ("SLURM_HET_JOB_ID", "SLURM_HET_JOB_OFFSET", "+"),
    ):
        job_id = _first_value(environment, (job_variable,))
        member_id = _first_value(environment, (member_variable,))
        if _is_number(job_id) and _is_number(member_id):
            return f"{job_id}{separator}{member_id}"
    return ""


def _first_value(environment: Mapping[str, str], variables: tuple[str, ...]) -> str:
    """Return the value of the first variable that is set. Shorten it, and replace unprintable characters."""
    values = (environment.get(name, "").strip() for name in variables)
    value = next(filter(None, values), "")[:_MAX_VALUE_LENGTH]
    return value if value.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in value)


def _first_devices(environment: Mapping[str, str], variables: _VariableNames) -> tuple[str, ...]:
    """Return the devices of the first variable that lists only UUIDs, or else of the first that lists devices."""
    device_lists = [devices for name in variables.devices if (devices := _parse_devices(environment.get(name, "")))]
    uuid_lists = [devices for devices in device_lists if all(device.startswith(_UUID_PREFIXES) for device in devices)]
    return next(iter(uuid_lists or device_lists), ())


def _parse_devices(text: str) -> tuple[str, ...]:
    """Return the devices in a list such as `0-3,5`."""
    devices: dict[str, None] = {}
    for range_text in text.strip("[] ").split(","):
        devices.update(dict.fromkeys(_expand_range(range_text.strip())))
        if len(devices) >= MAX_DEVICES:
            break
    return tuple(devices)[:MAX_DEVICES]


def _expand_range(range_text: str) -> Iterator[str]:
    first, dash, last = range_text.partition("-")
    if dash and _is_number(first) and _is_number(last) and len(range_text) <= len("9999-9999"):
        yield from map(str, range(int(first), min(int(last), int(first) + MAX_DEVICES) + 1))
    elif range_text.lower() not in _NOT_A_DEVICE and range_text.isprintable() and len(range_text) <= _MAX_VALUE_LENGTH:
        yield range_text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _flux_devices(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the cards of this rank from `FLUX_JOB_R`, which our hook sets."""
    rank = environment.get("FLUX_RANK", "")
    try:
        entries = json.loads(environment.get("FLUX_JOB_R", ""))["execution"]["R_lite"]
        rank_cards = [entry["children"].get("gpu", "") for entry in entries if rank in _parse_devices(entry["rank"])]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # missing or malformed
        return ()
    return _parse_devices(",".join(cards for cards in rank_cards if isinstance(cards, str)))
