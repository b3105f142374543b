"""`make run` serves what the machine has, a simulated node where there is nothing, and says which and where."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from kits.captures import ROOT
from kits.scripts import script_module
from kits.waiting import PATIENCE_SECONDS
from kits.web_server import make_pki, running_server

# Stands in for the command: tells what it was asked, and answers as the test's folder says.
TELEMETRY = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/asked"
case $1 in
    snapshot) exit "$(cat "$here/found")" ;;
    serve)
        echo "state: ${TELEMETRY_STATE_DIRECTORY:-usual} runtime: ${TELEMETRY_STATE_RUNTIME_DIRECTORY:-usual}"
        echo "log: ${TELEMETRY_LOG_LEVEL:-usual}" ;;
esac
"""
# The Python and the command of this installation.
PYTHON = f'exec {sys.executable} "$@"'
REAL = f'#!/bin/sh\nexec {sys.executable} -m telemetry_daemon.cli "$@"\n'


def made(folder: Path, telemetry: str, python: str = 'shift\nexec "$@"') -> Path:
    """The script in a checkout with this command, which nobody announces unless this Python does."""
    commands = folder / ".venv" / "bin"
    commands.mkdir(parents=True)
    (folder / ".ci").mkdir()
    for name in ("serve.sh", "announce.py"):
        shutil.copy(ROOT / ".ci" / name, folder / ".ci")
    (commands / "python").write_text(f"#!/bin/sh\n{python}\n")
    (commands / "telemetry").write_text(telemetry)
    for file in commands.iterdir():
        file.chmod(0o755)
    return folder / ".ci" / "serve.sh"


def serve(
    folder: Path,
    found: int,
    arguments: list[str],
    user: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str, list[str]]:
    """The script's exit status and output, and what it asked of the command."""
    script = made(folder, TELEMETRY)
    commands = folder / ".venv" / "bin"
    (commands / "found").write_text(str(found))
    if user is not None:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, user)
    done = subprocess.run(
        [script, *arguments],
        env={"PATH": os.environ["PATH"], **(environment or {})},
        capture_output=True,
        text=True,
        user=user,
    )
    return done.returncode, done.stdout + done.stderr, (commands / "asked").read_text().splitlines()


@pytest.mark.parametrize(
    ("found", "said", "served"),
    [
        (0, "serving this machine's accelerators\n", "serve"),
        (2, "serving this machine's accelerators; some cannot be read, see: .venv/bin/telemetry doctor\n", "serve"),
        (3, "no accelerator here: serving a simulated node\n", "serve --demo"),
    ],
)
def test_what_is_found_decides_what_is_served(tmp_path: Path, found: int, said: str, served: str) -> None:
    status, output, asked = serve(tmp_path, found, [])
    assert status == 0, output
    assert said in output
    assert asked == ["snapshot --timeout 10 --format json", served]


@pytest.mark.parametrize("found", [64, 70, 78])
def test_an_error_ends_it_with_the_commands_status(tmp_path: Path, found: int) -> None:
    status, _, asked = serve(tmp_path, found, [])
    assert status == found
    assert asked == ["snapshot --timeout 10 --format json"]


@pytest.mark.parametrize("choice", [["--demo"], ["--demo", "8xnvidia"], ["--demo=8xnvidia"], ["--replay", "FILE"]])
def test_a_choice_of_ones_own_is_kept(tmp_path: Path, choice: list[str]) -> None:
    status, _, asked = serve(tmp_path, 3, choice)
    assert status == 0
    assert asked == [" ".join(["serve", *choice])]


def test_flags_go_to_all_commands_that_know_them(tmp_path: Path) -> None:
    flags = ["--config", "c.toml", "--web.listen-address=:9000", "--log.level", "debug"]
    status, _, asked = serve(tmp_path, 3, flags)
    assert status == 0
    assert asked == [
        "snapshot --config c.toml --timeout 10 --format json",
        "serve --config c.toml --web.listen-address=:9000 --log.level debug --demo",
    ]


@pytest.mark.parametrize(
    ("arguments", "environment", "level"),
    [
        ([], {}, "warning"),
        (["--log.format=json"], {}, "usual"),
        ([], {"TELEMETRY_LOG_LEVEL": "debug"}, "debug"),
    ],
)
def test_the_log_is_of_what_is_wrong_unless_somebody_has_chosen(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], level: str
) -> None:
    _, output, _ = serve(tmp_path, 0, arguments, environment=environment)
    assert f"log: {level}\n" in output


def test_the_address_is_said_once_it_answers(tmp_path: Path) -> None:
    state = {"TELEMETRY_STATE_DIRECTORY": f"{tmp_path}/lib", "TELEMETRY_STATE_RUNTIME_DIRECTORY": f"{tmp_path}/run"}
    line = [made(tmp_path, REAL, PYTHON), "--demo=1xamd", "--web.listen-address=127.0.0.1:0"]
    with subprocess.Popen(line, env=os.environ | state, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            found = re.fullmatch(r"open (http://127\.0\.0\.1:\d+/) – Ctrl-C ends it\n", said)
            assert found is not None, said
            with urllib.request.urlopen(f"{found[1]}metrics", timeout=PATIENCE_SECONDS) as answer:
                assert answer.status == 200
        finally:
            process.terminate()
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    # What is started in this process's place ends with its status, and the address was all that it had to say.
    assert (process.returncode, output) == (0, "")


@pytest.mark.parametrize("listened", ["0.0.0.0:@", "[::]:@", ":@"])
def test_a_daemon_on_all_addresses_is_shown_by_the_name_of_the_machine(listened: str) -> None:
    with running_server() as server:
        shown = script_module("announce").where(listened.replace("@", str(server.port)))
        assert shown == f"open http://{socket.gethostname()}:{server.port}/ – Ctrl-C ends it"


def test_a_socket_of_files_is_said_as_such(tmp_path: Path) -> None:
    assert script_module("announce").where(f"unix:{tmp_path}/web") == f"listening on unix:{tmp_path}/web"


@pytest.mark.needs("openssl")
def test_an_address_with_tls_is_said_as_such(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text(make_pki(tmp_path).tls_section())
    with running_server(config_file=tmp_path / "web.yml") as server:
        shown = script_module("announce").where(f"127.0.0.1:{server.port}")
        assert shown == f"open https://127.0.0.1:{server.port}/ – Ctrl-C ends it"


def test_a_daemon_that_cannot_listen_says_no_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        arguments = ["--demo=1xamd", f"--web.listen-address=127.0.0.1:{taken.getsockname()[1]}"]
        state = {"TELEMETRY_STATE_DIRECTORY": f"{tmp_path}/lib", "TELEMETRY_STATE_RUNTIME_DIRECTORY": f"{tmp_path}/run"}
        done = subprocess.run(
            [made(tmp_path, REAL, PYTHON), *arguments],
            env=os.environ | state,
            capture_output=True,
            text=True,
        )
    assert done.returncode not in (0, None)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)


def test_without_roots_rights_state_stays_below_the_checkout() -> None:
    nobody = 65534 if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        status, output, _ = serve(folder, 0, [], user=nobody)
    assert status == 0
    assert f"state: {folder}/.state/lib runtime: {folder}/.state/run" in output


@pytest.mark.parametrize("name", ["TELEMETRY_STATE_DIRECTORY", "TELEMETRY_STATE_RUNTIME_DIRECTORY"])
def test_places_of_ones_own_are_kept(tmp_path: Path, name: str) -> None:
    own = f"{tmp_path}/my/own"
    _, output, _ = serve(tmp_path, 0, [], environment={name: own})
    assert f" {own}" in output
