# ruff: noqa: INP001  # PBS runs this file by itself
"""Reports jobs that PBS starts and ends on this node to the telemetry daemon. README.md describes how to import it.

It never rejects an event, because PBS takes a node out of service if its hook fails.
"""

import shutil
import subprocess

import pbs

_MAX_SECONDS = 1.8
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK")


def _command_environment(event: "pbs.event") -> "dict[str, str]":
    job = event.job
    environment = {
        "PATH": _PATH,
        "PBS_JOBID": job.id,
        "PBS_JOBNAME": getattr(job, "Job_Name", None),
        "PBS_JOB_OWNER": getattr(job, "euser", None) or str(getattr(job, "Job_Owner", "")).partition("@")[0],
        "PBS_QUEUE": getattr(job, "queue", None),
        "PBS_ACCOUNT": getattr(job, "Account_Name", None) or getattr(job, "project", None),
        "PBS_RUN_COUNT": getattr(job, "run_count", None),
    }
    # The hook pbs_cgroups sets a job's cards when the job is launched.
    job_environment = getattr(event, "env", None)
    for name in _DEVICES if job_environment is not None else ():
        if name in job_environment:
            environment[name] = job_environment[name]
    return {name: str(value) for name, value in environment.items() if value not in (None, "")}


def _run(action: str, environment: "dict[str, str]") -> None:
    """Run `telemetry job` within the time limit."""
    program = shutil.which("telemetry", path=_PATH)
    if program is None:
        return
    devnull = subprocess.DEVNULL
    process = subprocess.Popen([program, "job", action], env=environment, stdin=devnull, stdout=devnull, stderr=devnull)
    try:
        process.wait(timeout=_MAX_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


try:
    _event = pbs.event()
    _is_end = _event.type in (pbs.EXECJOB_END, pbs.EXECJOB_ABORT)
    _run("end" if _is_end else "start", _command_environment(_event))
except Exception as error:  # noqa: BLE001  # no error may affect the job or the node
    pbs.logmsg(pbs.LOG_WARNING, f"telemetry: {error}")
