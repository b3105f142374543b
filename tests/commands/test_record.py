"""`telemetry record` waits for the first answer of every source, and reports if there is nothing to record."""

import json
from pathlib import Path

import pytest

from kits.command_line import Completed, run_main
from kits.daemon import Daemon, bare_config
from kits.fake_mthreads_gmi import TABLE
from kits.fake_tools import ToolFolder

ALWAYS = '[sources.mthreads-gmi]\nmode = "always"\n'


@pytest.fixture
def tools(tmp_path: Path) -> ToolFolder:
    return ToolFolder(tmp_path / "tools")


def record(tmp_path: Path, tools: ToolFolder, *arguments: str, settings: str = "") -> Completed:
    config = bare_config(tmp_path, settings)
    return run_main("record", "--for", "0.2", "--config", config, *arguments, environment=tools.environment)


def answered(text: str) -> set[tuple[str, str]]:
    captures = map(json.loads, text.splitlines())
    return {(capture["source"], capture["poll"]) for capture in captures if capture["outputs"]}


def answers_after(tools: ToolFolder, seconds: float) -> None:
    text = tools.folder / "table.txt"
    text.write_text(TABLE)
    tools.script("mthreads-gmi", f"sleep {seconds}\nexec /bin/cat {text}")


def test_recording_starts_after_the_first_answers(tmp_path: Path, tools: ToolFolder) -> None:
    answers_after(tools, 1.0)
    done = record(tmp_path, tools)
    assert (done.status, answered(done.stdout) >= {("host", "readings"), ("mthreads-gmi", "readings")}) == (0, True)


@pytest.mark.parametrize("keeps_the_newest", [True, False])
def test_recording_waits_for_the_daemons_sources(tmp_path: Path, tools: ToolFolder, keeps_the_newest: bool) -> None:
    """The captures come from the daemon if it has recent ones; otherwise all sources are polled."""
    answers_after(tools, 1.0 if keeps_the_newest else 0.0)
    settings = f"{ALWAYS}[flight_recorder]\nenabled = {str(keeps_the_newest).lower()}\n"
    with Daemon(tmp_path, settings, environment=tools.environment) as daemon:
        if not keeps_the_newest:
            daemon.until_state("mthreads-gmi", "ok")
            answers_after(tools, 1.0)
        done = record(tmp_path, tools, "--from", "daemon", settings=settings)
    assert (done.status, ("mthreads-gmi", "readings") in answered(done.stdout)) == (0, True)
    assert "from the daemon" in done.stderr


HANGS = "[sources.mthreads-gmi]\ndeadline = 0.5\n"


@pytest.mark.parametrize(
    ("hangs", "status", "named"),
    [
        (False, 3, "no tool, library or driver of an accelerator was found"),
        (True, 2, "nothing was recorded: mthreads-gmi: "),
    ],
)
def test_empty_recording_is_an_error(tmp_path: Path, tools: ToolFolder, hangs: bool, status: int, named: str) -> None:
    """An earlier recording is kept, and no new file is created."""
    if hangs:
        tools.hangs("mthreads-gmi")
    path = tmp_path / "recording.jsonl"
    for before in (None, '{"schema":"telemetry.capture/1"}\n'):
        if before is not None:
            path.write_text(before)
        done = record(tmp_path, tools, "-o", str(path), settings=HANGS)
        assert (done.status, done.stdout, named in done.stderr, len(done.stderr.splitlines())) == (status, "", True, 1)
        assert (path.read_text() if path.exists() else None) == before
    assert record(tmp_path, tools, "-o", "-", settings=HANGS)[:2] == (status, "")


def test_hanging_source_is_recorded_beside_a_good_one(tmp_path: Path, tools: ToolFolder) -> None:
    tools.prints("mthreads-gmi", TABLE)
    tools.hangs("ixsmi")
    done = record(tmp_path, tools, settings="[sources.ixsmi]\ndeadline = 0.5\n")
    failed = [
        line["source"]
        for line in map(json.loads, done.stdout.splitlines())
        if (line["failure"] or {}).get("reason") == "timeout"
    ]
    assert (done.status, set(failed)) == (0, {"ixsmi"})
