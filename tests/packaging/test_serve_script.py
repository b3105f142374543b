"""`make run` serves what the machine has, a simulated node where there is nothing, and says which and where."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
# Stands in for the command: tells what it was asked, and answers as the test's folder says.
TELEMETRY = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/asked"
case $1 in
    snapshot) exit "$(cat "$here/found")" ;;
    config) echo '[web]'; echo "listen_address = [\\"$(cat "$here/address")\\", \\":1\\"]" ;;
    serve) echo "state: ${TELEMETRY_STATE_DIRECTORY:-usual} runtime: ${TELEMETRY_STATE_RUNTIME_DIRECTORY:-usual}" ;;
esac
"""


def serve(
    folder: Path,
    found: int,
    arguments: list[str],
    address: str = "127.0.0.1:19400",
    user: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str, list[str]]:
    """The script's exit status and output, and what it asked of the command."""
    commands = folder / ".venv" / "bin"
    commands.mkdir(parents=True)
    (folder / ".ci").mkdir()
    script = Path(shutil.copy(CHECKOUT / ".ci" / "serve.sh", folder / ".ci"))
    (commands / "telemetry").write_text(TELEMETRY)
    (commands / "telemetry").chmod(0o755)
    (commands / "found").write_text(str(found))
    (commands / "address").write_text(address)
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
    assert "open http://127.0.0.1:19400/ " in output
    assert asked == ["snapshot --timeout 10 --format json", "config show", served]


@pytest.mark.parametrize("found", [64, 70, 78])
def test_an_error_ends_it_with_the_commands_status(tmp_path: Path, found: int) -> None:
    status, _, asked = serve(tmp_path, found, [])
    assert status == found
    assert asked == ["snapshot --timeout 10 --format json"]


@pytest.mark.parametrize("choice", [["--demo"], ["--demo", "8xnvidia"], ["--demo=8xnvidia"], ["--replay", "FILE"]])
def test_a_choice_of_ones_own_is_kept(tmp_path: Path, choice: list[str]) -> None:
    status, _, asked = serve(tmp_path, 3, choice)
    assert status == 0
    assert asked == ["config show", " ".join(["serve", *choice])]


def test_flags_go_to_all_commands_that_know_them(tmp_path: Path) -> None:
    flags = ["--config", "c.toml", "--web.listen-address=:9000", "--log.level", "debug"]
    status, _, asked = serve(tmp_path, 3, flags)
    assert status == 0
    assert asked == [
        "snapshot --config c.toml --timeout 10 --format json",
        "config show --config c.toml --web.listen-address=:9000 --log.level debug",
        "serve --config c.toml --web.listen-address=:9000 --log.level debug --demo",
    ]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("[::1]:9000", "open http://[::1]:9000/ "),
        ("node-1:80", "open http://node-1:80/ "),
        (":9000", f"open http://{os.uname().nodename}:9000/ "),
        ("0.0.0.0:9000", f"open http://{os.uname().nodename}:9000/ "),
        ("[::]:9000", f"open http://{os.uname().nodename}:9000/ "),
        ("unix:/run/web.sock", "listening on unix:/run/web.sock\n"),
    ],
)
def test_the_address_to_open_is_said(tmp_path: Path, address: str, said: str) -> None:
    _, output, _ = serve(tmp_path, 0, [], address)
    assert said in output


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
    _, output, _ = serve(tmp_path, 0, [], environment={name: "/my/own"})
    assert "/my/own" in output
