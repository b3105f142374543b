"""`make run` serves this machine's accelerators, or else a simulated node, and says which and where."""

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

# A stand-in for the command: it records its arguments and exits with the status in the test's folder.
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
    """Return the script in a checkout with this command, in place of the real one."""
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
    """Return the script's exit status and output, and its arguments to the command."""
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


SEARCH = "snapshot --timeout 10 --format json"
REAL_CARDS = "serving this machine's accelerators"


@pytest.mark.parametrize(
    ("found", "arguments", "asked", "expected"),
    [
        (0, "", [SEARCH, "serve"], f"{REAL_CARDS}\n"),
        (2, "", [SEARCH, "serve"], f"{REAL_CARDS}; some cannot be read, see: .venv/bin/telemetry doctor\n"),
        (3, "", [SEARCH, "serve --demo"], "no accelerator here: serving a simulated node\n"),
        # An error ends it with the command's status.
        (64, "", [SEARCH], ""),
        # Explicit arguments are kept.
        (3, "--demo", ["serve --demo"], ""),
        (3, "--demo=8xnvidia", ["serve --demo=8xnvidia"], ""),
        (3, "--replay FILE", ["serve --replay FILE"], ""),
        # Flags are passed to all commands that accept them.
        (
            3,
            "--config c.toml --web.listen-address=:9000 --log.level debug",
            [
                "snapshot --config c.toml --timeout 10 --format json",
                "serve --config c.toml --web.listen-address=:9000 --log.level debug --demo",
            ],
            "",
        ),
        # By default only warnings and errors are logged.
        (0, "", [SEARCH, "serve"], "log: warning\n"),
        (0, "--log.format=json", [SEARCH, "serve --log.format=json"], "log: usual\n"),
    ],
)
def test_what_is_found_and_asked_decides_what_is_served(
    tmp_path: Path, found: int, arguments: str, asked: list[str], expected: str
) -> None:
    status, output, commands = serve(tmp_path, found, arguments.split())
    assert (status, commands) == (found if found > 3 else 0, asked), output
    assert expected in output


def test_settings_of_the_environment_are_kept(tmp_path: Path) -> None:
    given = {"TELEMETRY_LOG_LEVEL": "debug", "TELEMETRY_STATE_DIRECTORY": f"{tmp_path}/own"}
    output = serve(tmp_path, 0, [], environment=given)[1]
    assert f"state: {tmp_path}/own " in output
    assert "log: debug" in output


def test_address_is_printed_once_it_answers(tmp_path: Path) -> None:
    line = [made(tmp_path, REAL, PYTHON), "--demo=1xamd", "--web.listen-address=127.0.0.1:0"]
    folders = {"TELEMETRY_STATE_DIRECTORY": f"{tmp_path}/lib", "TELEMETRY_STATE_RUNTIME_DIRECTORY": f"{tmp_path}/run"}
    with subprocess.Popen(line, env=os.environ | folders, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line_printed = process.stdout.readline()
            found = re.fullmatch(r"open (http://127\.0\.0\.1:\d+/) – Ctrl-C ends it\n", line_printed)
            assert found is not None, line_printed
            with urllib.request.urlopen(f"{found[1]}metrics", timeout=PATIENCE_SECONDS) as answer:
                assert answer.status == 200
        finally:
            process.terminate()
            output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    # The script exits with the status of the daemon, and printed nothing but the address.
    assert (process.returncode, output) == (0, "")


@pytest.mark.parametrize("listened", ["0.0.0.0:@", "[::]:@", ":@"])
def test_a_daemon_on_all_addresses_is_shown_by_the_name_of_the_machine(listened: str) -> None:
    with running_server() as server:
        shown = script_module("announce").opening_hint(listened.replace("@", str(server.port)))
        assert shown == f"open http://{socket.gethostname()}:{server.port}/ – Ctrl-C ends it"


def test_address_with_tls_is_printed_as_https(tmp_path: Path) -> None:
    (tmp_path / "web.yml").write_text(make_pki(tmp_path).tls_section())
    with running_server(config_file=tmp_path / "web.yml") as server:
        shown = script_module("announce").opening_hint(f"127.0.0.1:{server.port}")
        assert shown == f"open https://127.0.0.1:{server.port}/ – Ctrl-C ends it"


def test_without_roots_rights_state_stays_below_the_checkout() -> None:
    other_user = 65534 if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        status, output, _ = serve(folder, 0, [], user=other_user)
    assert status == 0
    assert f"state: {folder}/.state/lib runtime: {folder}/.state/run" in output
