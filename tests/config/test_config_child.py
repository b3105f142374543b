"""The daemon gets its settings from a short-lived process, and a ConfigError when that process gives none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from config.workbench import FULL, SOURCES, Workbench
from telemetry_daemon.config.child import load_in_child
from telemetry_daemon.config.file import load
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.models import validated
from telemetry_daemon.config.settings import Settings
from telemetry_daemon.terminal import exits
from telemetry_parsers.codec.derived import from_plain, to_plain


@pytest.mark.parametrize("settings", [Settings(), FULL])
def test_plain_settings_survive_json_and_the_models_give_them_back(settings: Settings) -> None:
    plain = json.loads(json.dumps(to_plain(Settings, settings)))
    assert from_plain(Settings, plain) == validated(plain) == settings


def test_the_child_gives_what_loading_here_gives(bench: Workbench) -> None:
    inputs = bench.inputs(
        '[sources.nvml]\nmode = "never"\ninterval = 3\n[expect.devices]\nnvidia = 8\n[log]\nlevel = "error"\n',
        {"TELEMETRY_LOG_FORMAT": "json", "PATH": "/nowhere", "SECRET": "x"},
        {"web.listen_address": (":1", ":2")},
    )
    assert load_in_child(inputs) == load(inputs)
    assert load_in_child(inputs) != Settings()


def test_the_child_tells_the_errors_that_loading_here_tells(bench: Workbench) -> None:
    inputs = bench.inputs(
        '[log]\nlevel = "größer"\nx = 1\n', {"TELEMETRY_X": "\udcff", "TELEMETRY_STATE_DIRECTORY": "\udcff"}
    )
    with pytest.raises(ConfigError) as here:
        load(inputs)
    with pytest.raises(ConfigError) as there:
        load_in_child(inputs)
    assert there.value.lines == here.value.lines
    assert len(there.value.lines) == 4


def test_the_child_checks_against_the_known_sources(bench: Workbench) -> None:
    assert load_in_child(bench.inputs("[sources.cnmon]", known_sources=None)) == Settings()
    with pytest.raises(ConfigError, match="no such source"):
        load_in_child(bench.inputs("[sources.cnmon]", known_sources=SOURCES))


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
        ("import sys; sys.exit('broken on purpose')", "ended with status 1: broken on purpose"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with status -9: it said nothing"),
        ("print('hello')", "gave no settings: JSONDecodeError"),
        ("print('[1]')", "gave no settings: CodecError('expected an object, found list')"),
        ("print('{}')", "gave no settings: CodecError('candidates: missing')"),
        ("print('{\"bogus\": 1}')", "gave no settings: CodecError('bogus: unknown key')"),
        ("pass", "gave no settings: JSONDecodeError"),
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


@pytest.mark.parametrize(
    "program",
    [
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
        "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)",
        # A process that left the group keeps the pipes open after the child was killed.
        "import subprocess, time; subprocess.Popen(['sleep', '3'], start_new_session=True); time.sleep(60)",
    ],
    ids=["deaf", "with a child", "with a lost child"],
)
def test_a_child_that_does_not_answer_is_given_up(program: str) -> None:
    with pytest.raises(ConfigError, match=r"no answer within 0\.5 s") as caught:
        load_in_child(ConfigInputs(), deadline=0.5, command=(sys.executable, "-c", program))
    assert caught.value.status == exits.UNAVAILABLE, "systemd does not try again after a bad configuration"


@pytest.mark.parametrize(
    ("text", "status", "output", "errors"),
    [
        ("", 0, to_plain(Settings, Settings()), ""),
        ("x = 1\n", 78, None, "telemetry.toml: line 1: x: no such setting"),
    ],
)
def test_the_checking_module_can_be_run_by_hand(
    bench: Workbench, text: str, status: int, output: object, errors: str
) -> None:
    bench.file.write_text(text)
    request = {
        "path": str(bench.file),
        "environment": {},
        "overrides": {},
        "known_sources": None,
        "known_polls": {},
        "known_vendors": [],
        "default_path": "",
    }
    done = subprocess.run(
        [sys.executable, "-m", "telemetry_daemon.config.check"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert done.returncode == status
    assert (json.loads(done.stdout)["settings"] if done.stdout else None) == json.loads(json.dumps(output))
    assert errors in done.stderr


def test_the_daemons_side_and_defaults_do_not_load_pydantic(tmp_path: Path) -> None:
    program = (
        "import sys; import telemetry_daemon.config.child, telemetry_daemon.config.names;"
        "from telemetry_daemon.config.file import load; from telemetry_daemon.config.inputs import ConfigInputs;"
        "from telemetry_daemon.config.settings import Settings;"
        f"assert load(ConfigInputs(default_path={str(tmp_path / 'none.toml')!r})) == Settings();"
        "sys.exit(any(name.startswith('pydantic') for name in sys.modules))"
    )
    path = ":".join(filter(None, sys.path))
    assert subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": path}).returncode == 0
