"""A node whose tool, processes and log contain a secret of each kind: no output of daemon or commands contains one."""

import gzip
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kits.command_line import run_main
from kits.daemon import Daemon
from kits.fake_mthreads_gmi import BUSY_TABLE, TOOL
from kits.fake_tools import ToolFolder
from kits.planted_secrets import planted_secrets

pytestmark = pytest.mark.long
PLANTED = planted_secrets()
CONFIG = f"""
[sources.{TOOL}]
mode = "always"
interval = 0.5
[sources.cnmon]
mode = "always"
interval = 0.5
[sources.proc]
path = "/"
interval = 0.5
[attribution]
enabled = true
environment = true
process_metrics = true
"""
# A program may have a secret as its name.
PROGRAM = next(planted.text for planted in PLANTED if planted.text.startswith("glpat-"))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process with secrets in its name, command line and environment."""
    program = tmp_path / PROGRAM
    program.symlink_to(sys.executable)
    code = "import sys; sys.stdin.read()"
    arguments = [word for number, planted in enumerate(PLANTED) for word in (f"--flag{number}", planted.text)]
    environment = {**os.environ, "SLURM_JOB_ID": "41", "SLURM_JOB_NAME": PLANTED[0].text, "API_TOKEN": PLANTED[1].text}
    with subprocess.Popen([program, "-c", code, *arguments], stdin=subprocess.PIPE, env=environment) as process:
        yield process


def table_of(worker: subprocess.Popen[bytes]) -> str:
    """Return the tool's output: a card on which the process runs, surrounded by secrets."""
    texts = "\n".join(planted.text for planted in PLANTED)
    table = BUSY_TABLE.replace("4711 ", f"{worker.pid} ").replace("python3", PROGRAM)
    return f"{texts}\n\n{table}\n{texts}\n"


def left_in(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the secrets found in each text; texts without secrets are left out."""
    found = {name: [planted.text for planted in PLANTED if planted.is_in(text)] for name, text in texts.items()}
    return {name: secrets for name, secrets in found.items() if secrets}


def unpacked(path: Path) -> dict[str, str]:
    """Return the text of each member of an archive, or of a recording, by name."""
    if not path.name.endswith(".tar.gz"):
        return {path.name: gzip.decompress(path.read_bytes()).decode()}
    with tarfile.open(path) as archive:
        members = {member.name: archive.extractfile(member) for member in archive}
        contents = {name: file.read() for name, file in members.items() if file is not None}
    return {
        name: (gzip.decompress(content) if name.endswith(".gz") else content).decode()
        for name, content in contents.items()
    }


def test_recordings_flight_files_and_bundles_hold_no_secret(tmp_path: Path, worker: subprocess.Popen[bytes]) -> None:
    tools = ToolFolder(tmp_path / "tools")
    lines = "\n".join(planted.text for planted in PLANTED)
    tools.prints(TOOL, table_of(worker), stderr=lines)
    tools.prints("cnmon", "", stderr=lines, status=1)
    tools.prints("systemctl", f"{lines}\nLoadState=loaded\nActiveState=active\n")
    environment = {"PATH": tools.search_path}
    bundle, past, fresh = (tmp_path / name for name in ("bundle.tar.gz", "past.jsonl.gz", "own.jsonl.gz"))
    with Daemon(tmp_path, CONFIG, environment=environment) as daemon:
        daemon.until_state(TOOL, "ok")
        daemon.until(lambda: f'pid="{worker.pid}"' in daemon.page())
        config = ("--config", str(daemon.config_path))
        tools.prints(TOOL, "", stderr=lines, status=1)
        flights = tmp_path / "state" / "flights"
        daemon.until(lambda: list(flights.glob("*.jsonl.gz")))
        tools.prints("journalctl", "\n".join((*daemon.lines, lines)))
        recorded = run_main("record", *config, "-o", str(past), "--before", "--for", "1", environment=environment)
        assert (recorded.status, "before the start of this command" in recorded.stderr) == (0, True), recorded
        unmasked = run_main("record", *config, "--before", "--for", "0.1", "--unmasked", environment=environment)
        assert [planted for planted in PLANTED if not planted.is_in(unmasked.stdout)] == []
        bundled = run_main("doctor", *config, "--bundle", str(bundle), environment=environment)
        assert "journal.txt" in bundled.stdout, bundled
    tools.prints(TOOL, table_of(worker), stderr=lines)
    by_tools = run_main("record", *config, "-o", str(fresh), "--from", "tools", "--for", "0.1", environment=environment)
    assert by_tools.status == 0, by_tools
    files = [bundle, past, fresh, *flights.glob("*.jsonl.gz")]
    texts = {f"{path.name}: {name}": text for path in files for name, text in unpacked(path).items()}
    assert str(worker.pid) in texts["past.jsonl.gz: past.jsonl.gz"]
    output = {
        "record": recorded.stderr,
        "doctor": bundled.stdout + bundled.stderr,
        "record from tools": by_tools.stderr,
    }
    assert left_in({**texts, **output}) == {}
