"""`telemetry job`: reports the start or end of a job from a scheduler's hook."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from telemetry_daemon.commands import options
from telemetry_daemon.config.inputs import (
    DEFAULT_JOB_DIRECTORY,
    DEFAULT_RUNTIME_DIRECTORY,
    job_directory,
    runtime_directory,
)
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.readers.jobs import files
from telemetry_daemon.readers.jobs.environment import find_job
from telemetry_daemon.readers.jobs.files import request_poll
from telemetry_daemon.terminal import exits, streams
from telemetry_daemon.terminal.exits import CommandError

EXAMPLES = {
    "telemetry job start": "Report the start of a job (in its prolog).",
    "telemetry job end": "Report the end of a job (in its epilog).",
}

_STATE_DIRECTORY = "/var/lib/telemetry"
_FOLDER_MODE = 0o755


def configure(parser: argparse.ArgumentParser) -> None:
    """Add this command's arguments to the parser."""
    parser.add_argument("action", metavar="start|end", choices=("start", "end"), help="whether the job starts or ends")
    parser.add_argument(
        "--directory",
        metavar="FOLDER",
        help="the folder for job files (default: the setting `attribution.job_directory`)",
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Record the start or end of the job that the environment describes, and notify the daemon."""
    now = time.time()
    job = find_job(os.environ)
    if job is None:
        remedy = "call this command in the prolog and epilog of Slurm or Flux, or in a PBS hook"
        raise CommandError(f"no SLURM_JOB_ID, PBS_JOBID or FLUX_JOB_ID in the environment; {remedy}")
    directory = arguments.directory or job_directory(arguments.config, os.environ) or _default_directory_with_warning()
    daemon_directory = runtime_directory(arguments.config, os.environ) or DEFAULT_RUNTIME_DIRECTORY
    try:
        with OwnFolder.create_at(Path(directory), _FOLDER_MODE) as folder:
            _grant_group_access(folder, daemon_directory)
            (files.record_start if arguments.action == "start" else files.record_end)(folder, job, now)
    except (OSError, files.TooManyFilesError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CommandError(f"{job.scheduler} job {job.id} was not recorded in {directory}: {reason}") from None
    request_poll(daemon_directory, job.scheduler)
    return exits.OK


def _default_directory_with_warning() -> str:
    streams.say(
        f"the configuration has no valid folder for job files, so {DEFAULT_JOB_DIRECTORY} is used; "
        "`telemetry config check` shows the error"
    )
    return DEFAULT_JOB_DIRECTORY


def _grant_group_access(folder: OwnFolder, runtime_directory: str) -> None:
    service_group = files.service_group_id(runtime_directory, _STATE_DIRECTORY)
    if os.geteuid() == 0 and folder.group == 0 and service_group != 0:
        folder.set_group(service_group)
