"""The job in the environment of a hook."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry_daemon.readers.jobs.environment import MAX_DEVICES, Job, find_job

SLURM = {"SLURM_JOB_ID": "1234"}
FLUX = {"FLUX_JOB_ID": "ƒ2Ek8Bx", "FLUX_RANK": "1"}


def flux_resources(*ranks: dict[str, object]) -> dict[str, str]:
    return {**FLUX, "FLUX_JOB_R": json.dumps({"version": 1, "execution": {"R_lite": ranks}})}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param(
            {
                **SLURM,
                "SLURM_JOB_SLUID": "sEKNKTV3WPV500",
                "SLURM_JOB_RESTART_COUNT": "2",
                "SLURM_JOB_USER": "anna",
                "SLURM_JOB_UID": "1000",
                "SLURM_JOB_ACCOUNT": "physics",
                "SLURM_JOB_PARTITION": "gpu",
                "SLURM_JOB_GPUS": "0,1",
                "SLURM_JOB_NAME": "llm 7B",
            },
            Job("slurm", "1234", "1234", "sEKNKTV3WPV500", "2", "anna", "1000", "physics", "gpu", ("0", "1"), "llm 7B"),
            id="all variables of Slurm",
        ),
        pytest.param(SLURM, Job("slurm", "1234", "1234"), id="a job id alone"),
        pytest.param({"SLURM_JOBID": "7"}, Job("slurm", "7", "7"), id="the old name of the job id"),
        pytest.param(
            {**SLURM, "SLURM_ARRAY_JOB_ID": "1230", "SLURM_ARRAY_TASK_ID": "7"},
            Job("slurm", "1234", "1230_7"),
            id="one of an array",
        ),
        pytest.param(
            {**SLURM, "SLURM_HET_JOB_ID": "1230", "SLURM_HET_JOB_OFFSET": "1"},
            Job("slurm", "1234", "1230+1"),
            id="a part of a heterogeneous job",
        ),
        pytest.param(
            {**SLURM, "SLURM_JOB_USER": "1007"}, Job("slurm", "1234", "1234", user="1007"), id="a number as name"
        ),
        pytest.param(
            {**SLURM, "SLURM_JOB_GPUS": "2", "CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"},
            Job("slurm", "1234", "1234", devices=("MIG-1", "MIG-2")),
            id="instances by uuid",
        ),
        pytest.param(
            {**SLURM, "SLURM_JOB_GPUS": "0-2,5", "CUDA_VISIBLE_DEVICES": ""},
            Job("slurm", "1234", "1234", devices=("0", "1", "2", "5")),
            id="AMD: no CUDA_VISIBLE_DEVICES; a range",
        ),
        pytest.param(
            {**SLURM, "ROCR_VISIBLE_DEVICES": "3", "CUDA_VISIBLE_DEVICES": "NoDevFiles"},
            Job("slurm", "1234", "1234", devices=("3",)),
            id="AMD: without the list of the job",
        ),
        *(
            pytest.param({**SLURM, "CUDA_VISIBLE_DEVICES": word}, Job("slurm", "1234", "1234"), id=f"no device: {word}")
            for word in ("void", "none", "all", "-1", "NoDevFiles", ",", "[]")
        ),
        pytest.param(
            {
                "PBS_JOBID": "42[3].head",
                "PBS_JOB_OWNER": "ben",
                "PBS_O_LOGNAME": "root",
                "PBS_QUEUE": "workq",
                "PBS_ACCOUNT": "physics",
                "PBS_RUN_COUNT": "2",
                "PBS_JOBNAME": "train 7B",
                "CUDA_VISIBLE_DEVICES": "GPU-1",
            },
            Job("pbs", "42[3].head", "42[3].head", "", "2", "ben", "", "physics", "workq", ("GPU-1",), "train 7B"),
            id="all variables of the hook of PBS",
        ),
        pytest.param(
            {
                **flux_resources(
                    {"rank": "0", "children": {"core": "0-7", "gpu": "0-3"}},
                    {"rank": "1-4", "children": {"core": "0", "gpu": "1,3"}},
                ),
                "FLUX_JOB_USERID": "1000",
            },
            Job("flux", "ƒ2Ek8Bx", "ƒ2Ek8Bx", uid="1000", devices=("1", "3")),
            id="the cards of this rank of Flux",
        ),
        pytest.param(
            flux_resources({"rank": "1", "children": {"core": "0"}}),
            Job("flux", "ƒ2Ek8Bx", "ƒ2Ek8Bx"),
            id="a job of Flux without cards",
        ),
        pytest.param({**FLUX, "FLUX_JOB_R": "{"}, Job("flux", "ƒ2Ek8Bx", "ƒ2Ek8Bx"), id="resources cut short"),
        pytest.param(
            {**FLUX, "FLUX_JOB_R": "[[]]"}, Job("flux", "ƒ2Ek8Bx", "ƒ2Ek8Bx"), id="resources of another shape"
        ),
        pytest.param({}, None, id="nothing"),
        pytest.param({"SLURM_JOB_ID": " "}, None, id="an empty id"),
        pytest.param({"SLURM_JOB_ID": "9" * 200}, None, id="an id that is too long"),
        pytest.param(
            {**SLURM, "SLURM_JOB_ACCOUNT": "a\x1b[31m\nb" + "c" * 9999},
            Job("slurm", "1234", "1234", account="a\ufffd[31m\ufffdb" + "c" * 248),
            id="control characters, and too much",
        ),
    ],
)
def test_job_of_an_environment(environment: dict[str, str], expected: Job | None) -> None:
    assert find_job(environment) == expected


NAMES = [
    "SLURM_JOB_ID",
    "SLURM_JOB_GPUS",
    "CUDA_VISIBLE_DEVICES",
    "FLUX_JOB_ID",
    "FLUX_JOB_R",
    "FLUX_RANK",
    "PBS_JOBID",
]
VALUES = st.text(max_size=40) | st.from_regex(r"[0-9,-]{1,30}", fullmatch=True) | st.just("[" * 5000)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_any_environment_is_accepted(environment: dict[str, str]) -> None:
    job = find_job(environment)
    assert job is None or (job.id and len(job.devices) <= MAX_DEVICES)
