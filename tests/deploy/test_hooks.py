"""The hooks for PBS and Flux with stand-ins for their schedulers; none of them fails when telemetry does."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kits.captures import ROOT
from kits.waiting import PATIENT_JOB

TELEMETRY = Path(sys.executable).with_name("telemetry")
WRAPPER = f'#!/bin/sh\nPYTHONPATH={PATIENT_JOB["PYTHONPATH"]} exec {TELEMETRY} "$@"\n'
USELESS = {
    "absent": "",
    "broken": "#!/bin/sh\nexit 70\n",
    "crashing": "#!/bin/sh\nulimit -c 0\nkill -SEGV $$\n",
    "hanging": "#!/bin/sh\nexec sleep 600\n",
    "no program": "not a program",
}
RESOURCES = {"execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-3", "gpu": "1-2"}}]}}
# A stand-in for the module that the PBS hook imports. The environment sets the event, and whether it contains cards.
PBS = """
import os
EXECJOB_BEGIN, EXECJOB_LAUNCH, EXECJOB_END, EXECJOB_ABORT, LOG_WARNING = range(5)
class _Job:
    id, queue, euser, project, run_count = "42[3].head", "workq", "ben", "_pbs_project_default", 1
    Account_Name, Job_Name, Job_Owner = "physics", "train 7B", "ben@login"
class _Event:
    type, job = globals()[os.environ["EVENT"]], _Job()
    env = {"CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"} if type == EXECJOB_LAUNCH else None
event = _Event
def logmsg(level, text):
    print(text)
"""


HOOKS = ("slurm/prolog.sh", "slurm/epilog.sh", "flux/prolog.sh", "flux/epilog.sh", "pbs/telemetry_hook.py")
MAX_SECONDS = 2.0
_DEADLINE = r"(?:(?<=timeout -s KILL )|(?<=\n_MAX_SECONDS = ))[0-9.]+"


def hook(folder: Path, path: str, waits_for: str = "") -> Path:
    """Return a copy of a hook that looks for programs in the folder, too, and has longer timeouts for busy machines."""
    text = (ROOT / "deploy" / path).read_text()
    changed = text.replace("/usr/local/sbin:", f"{folder}/bin:")
    assert changed != text
    copy = folder / Path(path).name
    copy.write_text(re.sub(f"{_DEADLINE}(?=\\s({waits_for}))", "60", changed) if waits_for else changed)
    return copy


@pytest.mark.parametrize("path", HOOKS)
def test_the_deadlines_of_a_hook_add_up_to_two_seconds_at_most(path: str) -> None:
    found = re.findall(_DEADLINE, (ROOT / "deploy" / path).read_text())
    assert 0 < sum(map(float, found)) <= MAX_SECONDS


def put(folder: Path, name: str, text: str) -> None:
    program = folder / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.unlink(missing_ok=True)
    if text:
        program.write_text(text)
        program.chmod(0o755)


def run(command: list[str], folder: Path, **environment: str) -> str:
    """Run a hook as a scheduler does, with its variables alone; it must succeed before a hanging program would end."""
    given = {**environment, "TELEMETRY_ATTRIBUTION_JOB_DIRECTORY": str(folder / "jobs")}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def record(folder: Path) -> dict[str, Any]:
    (path,) = (folder / "jobs").iterdir()
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONHOME", "/nowhere"),
        ("PYTHONMALLOC", "nonsense"),
        ("PYTHONHASHSEED", "nonsense"),
        ("PYTHONIOENCODING", "nonsense"),
        ("PYTHONPATH", "{folder}/of_the_job"),
    ],
)
def test_no_variable_of_python_keeps_a_job_from_being_recorded(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "of_the_job").mkdir()
    (tmp_path / "of_the_job/json.py").write_text("raise SystemExit(1)\n")
    put(tmp_path, "telemetry", f'#!/bin/sh\nexec {TELEMETRY} "$@"\n')
    prolog = hook(tmp_path, "slurm/prolog.sh", waits_for="telemetry")
    run(["sh", str(prolog)], tmp_path, SLURM_JOB_ID="12", **{name: value.format(folder=tmp_path)})
    assert record(tmp_path)["id"] == "12"


def test_flux(tmp_path: Path) -> None:
    put(tmp_path, "telemetry", WRAPPER)
    put(
        tmp_path,
        "flux",
        f"#!/bin/sh\ncase \"$*\" in *getattr*) echo 1;; *info*) echo '{json.dumps(RESOURCES)}';; esac\n",
    )
    variables = {"FLUX_JOB_ID": "ƒ2Ek8Bx", "FLUX_JOB_USERID": "0"}
    run(["sh", str(hook(tmp_path, "flux/prolog.sh", waits_for=r"\w+"))], tmp_path, **variables)
    began = record(tmp_path)
    assert (began["scheduler"], began["id"], began["user"], began["devices"]) == ("flux", "ƒ2Ek8Bx", "root", ["1", "2"])
    run(["sh", str(hook(tmp_path, "flux/epilog.sh", waits_for=r"\w+"))], tmp_path, **variables)
    assert record(tmp_path)["ended"] >= began["started"]


def test_flux_that_does_not_answer(tmp_path: Path) -> None:
    put(tmp_path, "telemetry", WRAPPER)
    put(tmp_path, "flux", USELESS["hanging"])
    run(["sh", str(hook(tmp_path, "flux/prolog.sh", waits_for="telemetry|id"))], tmp_path, FLUX_JOB_ID="ƒ2Ek8Bx")
    assert record(tmp_path)["devices"] == []


def pbs(folder: Path, event: str, waits_for: str = "_PATH") -> str:
    (folder / "pbs.py").write_text(PBS)
    text = hook(folder, "pbs/telemetry_hook.py", waits_for).read_text()
    # The hook runs telemetry with another environment, without the test's folder of job files.
    text = text.replace('"PATH": _PATH,', f'"PATH": _PATH, "TELEMETRY_ATTRIBUTION_JOB_DIRECTORY": "{folder}/jobs",')
    (folder / "telemetry_hook.py").write_text(text)
    return run([sys.executable, str(folder / "telemetry_hook.py")], folder, EVENT=event)


def test_pbs(tmp_path: Path) -> None:
    put(tmp_path, "telemetry", WRAPPER)
    pbs(tmp_path, "EXECJOB_BEGIN")
    began = record(tmp_path)
    fields = [began[key] for key in ("id", "job_name", "user", "account", "partition")]
    assert fields == ["42[3].head", "train 7B", "ben", "physics", "workq"]
    assert began["devices"] == []
    pbs(tmp_path, "EXECJOB_LAUNCH")
    launched = record(tmp_path)
    assert (launched["started"], launched["devices"]) == (began["started"], ["GPU-1", "GPU-2"])
    pbs(tmp_path, "EXECJOB_END")
    assert record(tmp_path)["ended"] >= began["started"]


@pytest.mark.parametrize("what", USELESS)
@pytest.mark.parametrize("path", HOOKS)
def test_broken_telemetry_fails_no_hook(tmp_path: Path, path: str, what: str) -> None:
    put(tmp_path, "telemetry", USELESS[what])
    if path.startswith("pbs"):
        pbs(tmp_path, "EXECJOB_LAUNCH", waits_for="")
    else:
        run(["sh", str(hook(tmp_path, path))], tmp_path, SLURM_JOB_ID="1", FLUX_JOB_ID="ƒ2Ek8Bx", HOME=os.sep)
