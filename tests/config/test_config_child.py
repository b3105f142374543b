"""The daemon gets its settings from a short-lived process; if the process fails, it gets a ConfigError."""

import sys
from pathlib import Path

import pytest

from config.workbench import FULL, FULL_FILE, Workbench
from telemetry_daemon.config.child import load_in_child
from telemetry_daemon.config.file import load
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.terminal import exits


def test_child_returns_the_same_configuration_as_this_process(bench: Workbench) -> None:
    inputs = bench.inputs(
        FULL_FILE,
        {"TELEMETRY_LOG_FORMAT": "text", "PATH": "/nowhere", "SECRET": "x"},
        {"web.listen_address": (":1", ":2")},
    )
    assert load_in_child(inputs) == load(inputs) != FULL
    assert load_in_child(bench.inputs("[sources.cnmon]", known_sources=None)) == Settings()
    with pytest.raises(ConfigError, match="no such source"):
        load_in_child(bench.inputs("[sources.cnmon]"))


def test_child_reports_the_same_errors_as_this_process(bench: Workbench) -> None:
    text = '[log]\nlevel = "größer"\nx = 1\n'
    inputs = bench.inputs(text, {"TELEMETRY_X": "\udcff", "TELEMETRY_STATE_DIRECTORY": "\udcff"})
    with pytest.raises(ConfigError) as here:
        load(inputs)
    with pytest.raises(ConfigError) as there:
        load_in_child(inputs)
    assert there.value.lines == here.value.lines
    assert len(there.value.lines) == 4


def test_no_module_of_the_working_directory_is_imported(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pydantic.py", "telemetry_daemon.py", "json.py", "tomllib.py"):
        (tmp_path / name).write_text("raise SystemExit('a module of the working directory ran')\n")
    monkeypatch.chdir(tmp_path)
    assert load_in_child(bench.inputs("")) == Settings()


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import sys; sys.exit('broken on purpose')", "exited with status 1: broken on purpose"),
        ("print('hello')", "returned no valid settings: JSONDecodeError"),
        ("print('{}')", "returned no valid settings: CodecError('candidates: missing')"),
    ],
)
def test_a_child_that_fails_is_an_error_of_one_line(program: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_in_child(ConfigInputs(), command=(sys.executable, "-c", program))
    assert str(caught.value).startswith("the configuration could not be checked: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_child_that_cannot_be_started_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no process could be started") as caught:
        load_in_child(ConfigInputs(), command=("/nowhere/python",))
    assert caught.value.status == exits.UNAVAILABLE


# Ignores SIGTERM, and has a process outside the group that keeps the pipes open.
STUBBORN = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "3"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(60)
"""


def test_child_that_does_not_answer_is_killed(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    for deadline in (0.5, 5.0, 50.0):  # repeat until the machine starts it in time
        with pytest.raises(ConfigError, match=f"no answer within {deadline:g} s") as caught:
            load_in_child(
                ConfigInputs(), timeout_seconds=deadline, command=(sys.executable, "-c", STUBBORN, str(noted))
            )
        assert caught.value.status == exits.UNAVAILABLE, "systemd does not try again after a bad configuration"
        if noted.exists() and noted.read_text():
            break
    assert not Path("/proc", noted.read_text()).exists(), "it was waited for"
