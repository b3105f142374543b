"""`telemetry job`: a scheduler's hook reports that a job begins or ends. `cli.py` keeps errors from failing the hook."""

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
from telemetry_daemon.readers.jobs.environment import job_of
from telemetry_daemon.readers.jobs.files import nudge
from telemetry_daemon.terminal import exits, streams
from telemetry_daemon.terminal.exits import CommandError

EXAMPLES = {
    "telemetry job start": "Report the start of a job, in its prolog.",
    "telemetry job end": "Report its end, in its epilog.",
}

_STATE_DIRECTORY = "/var/lib/telemetry"
_FOLDER_MODE = 0o755


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("action", metavar="start|end", choices=("start", "end"), help="what happens to the job now")
    parser.add_argument(
        "--directory",
        metavar="FOLDER",
        help="where the files of jobs are (default: `attribution.job_directory` of the configuration)",
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the job's file from the environment, and notify the daemon."""
    now = time.time()
    job = job_of(os.environ)
    if job is None:
        remedy = "call it from the prolog and epilog of Slurm or Flux, or from a hook of PBS"
        raise CommandError(f"no SLURM_JOB_ID, PBS_JOBID or FLUX_JOB_ID in the environment; {remedy}")
    directory = arguments.directory or job_directory(arguments.config, os.environ) or _usual_directory()
    of_daemon = runtime_directory(arguments.config, os.environ) or DEFAULT_RUNTIME_DIRECTORY
    try:
        with OwnFolder.made(Path(directory), _FOLDER_MODE) as folder:
            _let_service_read(folder, of_daemon)
            (files.begin if arguments.action == "start" else files.end)(folder, job, now)
    except (OSError, files.NoRoomError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CommandError(f"{job.scheduler} job {job.id} is not recorded: {directory}: {why}") from None
    nudge(of_daemon, job.scheduler)
    return exits.OK


def _usual_directory() -> str:
    """Return the default folder of jobs after a warning: the daemon may read another folder."""
    streams.say(
        f"the configuration does not define where jobs are recorded; using {DEFAULT_JOB_DIRECTORY}; "
        "`telemetry config check` shows what is wrong with it"
    )
    return DEFAULT_JOB_DIRECTORY


def _let_service_read(folder: OwnFolder, runtime_directory: str) -> None:
    """Give the folder to the group of the daemon's user, unless it already has another group."""
    group = files.group_of_service(runtime_directory, _STATE_DIRECTORY)
    if os.geteuid() == 0 and folder.group == 0 != group:
        folder.lend(group)
