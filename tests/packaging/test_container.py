"""The Containerfile, parsed like an engine does: pinned images, no root, no shell, all parts of a wheel."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kits.captures import ROOT
from telemetry_daemon import cli
from telemetry_daemon.config.settings import DEFAULT_ADDRESS, Settings

FILE = ROOT / "deploy" / "container" / "Containerfile"
TEXT = re.sub(r"\\\n\s*", "", FILE.read_text())
PORT = DEFAULT_ADDRESS.rpartition(":")[2]


def only(word: str) -> str:
    (found,) = re.findall(rf"^{word} +(.*)$", TEXT, re.MULTILINE)
    return str(found)


@pytest.mark.installed
def test_what_is_copied_from_the_checkout_is_there_and_makes_the_wheel(tmp_path: Path) -> None:
    source = tmp_path / "src"
    for line in re.findall(r"^COPY +([^-].*)$", TEXT, re.MULTILINE):
        *names, target = shlex.split(line)
        assert target.startswith("/src/")
        for name in names:
            target_path = source / target.removeprefix("/src/") if (ROOT / name).is_dir() else source / name
            target_path.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():  # without bytecode, which parallel tests create and delete
                shutil.copytree(ROOT / name, target_path, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, target_path)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=source, capture_output=True, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        made = set(wheel.namelist())
    packages = [path for root in ("daemon", "exporters", "parsers") for path in (ROOT / root).rglob("*.py")]
    assert {str(path.relative_to(ROOT)).partition("/")[2] for path in packages} <= made


def test_container_runs_as_nobody_with_writable_state() -> None:
    uid, gid = only("USER").split(":")
    assert int(uid) > 0 < int(gid)
    state = Settings().state
    made = only(r'RUN(?= \["install")')
    assert json.loads(made)[1:6] == ["-d", "-o", uid, "-g", gid]
    assert {f"/rootfs{folder}" for folder in (state.directory, state.runtime_directory)} <= set(json.loads(made))
    assert f"COPY --from=build --chown={uid}:{gid} /rootfs/" in TEXT
    assert json.loads(only("VOLUME")) == [state.directory]


def test_container_starts_the_daemon_and_checks_the_exposed_port() -> None:
    """An instruction in JSON's list form needs no shell."""
    assert json.loads(only("ENTRYPOINT")) == ["telemetry"]
    command, *arguments = json.loads(only("CMD"))
    parsed = vars(cli.build_parser(command).parse_args(arguments))
    assert parsed["web.listen_address"] == [f":{only('EXPOSE')}"] == [f":{PORT}"]
    check = json.loads(only("HEALTHCHECK").partition("CMD ")[2])
    compile(check[-1], "health check", "exec")
    assert f"http://127.0.0.1:{PORT}/healthz" in check[-1]
