# ruff: noqa: INP001  # PBS runs it by itself
"""Tells the telemetry daemon of the jobs that PBS begins and ends on this node. README.md says how to import it.

It never rejects an event: PBS takes a node out of service whose hook fails.
"""

import shutil
import subprocess

import pbs

_LONGEST_SECONDS = 1.8
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK")


def _told(event: "pbs.event") -> "dict[str, str]":
    """What `telemetry job` finds in its environment."""
    job = event.job
    told = {
        "PATH": _PATH,
        "PBS_JOBID": job.id,
        "PBS_JOBNAME": getattr(job, "Job_Name", None),
        "PBS_JOB_OWNER": getattr(job, "euser", None) or str(getattr(job, "Job_Owner", "")).partition("@")[0],
        "PBS_QUEUE": getattr(job, "queue", None),
        "PBS_ACCOUNT": getattr(job, "Account_Name", None) or getattr(job, "project", None),
        "PBS_RUN_COUNT": getattr(job, "run_count", None),
    }
    # Which cards, the hook pbs_cgroups says when the job is launched.
    given = getattr(event, "env", None)
    for name in _DEVICES if given is not None else ():
        if name in given:
            told[name] = given[name]
    return {name: str(value) for name, value in told.items() if value not in (None, "")}


def _run(action: str, environment: "dict[str, str]") -> None:
    """Call it, and wait for as long as it may take."""
    program = shutil.which("telemetry", path=_PATH)
    if program is None:
        return
    nothing = subprocess.DEVNULL
    called = subprocess.Popen([program, "job", action], env=environment, stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        called.wait(timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        called.kill()


try:
    _event = pbs.event()
    _ends = _event.type in (pbs.EXECJOB_END, pbs.EXECJOB_ABORT)
    _run("end" if _ends else "start", _told(_event))
except Exception as error:  # noqa: BLE001  # whatever it is, the job and the node must not suffer from it
    pbs.logmsg(pbs.LOG_WARNING, f"telemetry: {error}")
