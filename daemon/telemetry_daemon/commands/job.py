"""`telemetry job`: a scheduler's hook tells that a job begins or ends. The command line sees to it that no hook fails by it."""

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
    "telemetry job start": "Tell that a job begins, in its prolog.",
    "telemetry job end": "Tell that it ends, in its epilog.",
}

_STATE_DIRECTORY = "/var/lib/telemetry"
_FOLDER_MODE = 0o755


def configure(parser: argparse.ArgumentParser) -> None:
    """What happens to the job, and where that is written."""
    parser.add_argument("action", metavar="start|end", choices=("start", "end"), help="what happens to the job now")
    parser.add_argument(
        "--directory",
        metavar="FOLDER",
        help="where the files of jobs are (default: `attribution.job_directory` of the configuration)",
    )
    options.add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write what the environment says of the job, and tell the daemon."""
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
    """Return where jobs are recorded if the configuration cannot be used, and say so: the daemon may look elsewhere."""
    streams.say(
        f"the configuration does not say where jobs are recorded, so it is done in {DEFAULT_JOB_DIRECTORY}; "
        "`telemetry config check` shows what is wrong with it"
    )
    return DEFAULT_JOB_DIRECTORY


def _let_service_read(folder: OwnFolder, runtime_directory: str) -> None:
    """Give the folder to the group of the daemon's user, unless somebody gave it to another."""
    group = files.group_of_service(runtime_directory, _STATE_DIRECTORY)
    if os.geteuid() == 0 and folder.group == 0 != group:
        folder.lend(group)
