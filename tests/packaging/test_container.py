"""The Containerfile, read as an engine reads it: pinned, without root or shell, and with all that a wheel is made of."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from kits.captures import ROOT
from telemetry_daemon import cli
from telemetry_daemon.config.settings import DEFAULT_ADDRESS, Settings

FILE = ROOT / "deploy" / "container" / "Containerfile"
PORT = DEFAULT_ADDRESS.rpartition(":")[2]


@dataclass(frozen=True)
class Instruction:
    """One instruction; `options` are those that begin with two dashes."""

    word: str
    options: tuple[str, ...]
    text: str

    def array(self) -> list[str]:
        """The arguments of an instruction that no shell may see: it must be a list as JSON writes it."""
        return json.loads(self.text.removeprefix("CMD ") if self.word == "HEALTHCHECK" else self.text)


def instructions() -> list[Instruction]:
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    found = []
    for line in filter(None, joined):
        word, text = line.split(maxsplit=1)
        options = re.match(r"(?:--\S+\s+)*", text)
        assert options is not None
        found.append(Instruction(word, tuple(options[0].split()), text[options.end() :]))
    return found


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, the first of which says from what it is made."""
    every = instructions()
    starts = [number for number, each in enumerate(every) if each.word == "FROM"]
    return [every[start:end] for start, end in zip(starts, [*starts[1:], len(every)], strict=True)]


def of(stage: list[Instruction], word: str) -> list[Instruction]:
    return [each for each in stage if each.word == word]


def only(stage: list[Instruction], word: str) -> Instruction:
    (found,) = of(stage, word)
    return found


def copied() -> list[tuple[list[str], str]]:
    """What comes from the checkout, and where to."""
    pairs = [shlex.split(each.text) for stage in stages() for each in of(stage, "COPY") if not each.options]
    return [(sources, target) for *sources, target in pairs]


@pytest.mark.installed
def test_what_is_copied_from_the_checkout_is_there_and_makes_the_wheel(tmp_path: Path) -> None:
    source = tmp_path / "src"
    for names, target in copied():
        assert target.startswith("/src/")
        for name in names:
            place = source / target.removeprefix("/src/") if (ROOT / name).is_dir() else source / name
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            place.parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, place)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=source, capture_output=True, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        made = set(wheel.namelist())
    packages = [path for root in ("daemon", "exporters", "parsers") for path in (ROOT / root).rglob("*.py")]
    assert {str(path.relative_to(ROOT)).partition("/")[2] for path in packages} <= made


def test_it_runs_as_nobody_by_number_and_may_write_where_it_must() -> None:
    build, final = stages()
    user = only(final, "USER").text
    assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", user)
    settings = Settings()
    made = next(each.array() for each in of(build, "RUN") if each.array()[0] == "install")
    for folder in (settings.state.directory, settings.state.runtime_directory):
        assert f"/rootfs{folder}" in made
    uid, gid = user.split(":")
    assert made[1:6] == ["-d", "-o", uid, "-g", gid]
    assert [each.options for each in of(final, "COPY") if "/rootfs/" in each.text] == [
        ("--from=build", f"--chown={user}")
    ]
    assert only(final, "VOLUME").array() == [settings.state.directory]


def test_it_starts_the_daemon_on_the_port_that_it_tells_of() -> None:
    final = stages()[-1]
    assert only(final, "ENTRYPOINT").array() == ["telemetry"]
    command, *arguments = only(final, "CMD").array()
    parsed = vars(cli.build_parser(command).parse_args(arguments))
    assert parsed["web.listen_address"] == [f":{only(final, 'EXPOSE').text}"] == [f":{PORT}"]


def test_the_health_check_compiles_and_asks_the_same_port() -> None:
    check = only(stages()[-1], "HEALTHCHECK").array()
    compile(check[-1], "health check", "exec")
    assert f"http://127.0.0.1:{PORT}/healthz" in check[-1]
