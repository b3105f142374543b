"""`telemetry jobs`: the files that it reads, the lines that it skips, and its output."""

import csv
import io
import json
import os
import time
from pathlib import Path

import pytest

from kits.billed_node import Node, has, job
from kits.command_line import run_main
from kits.daemon import bare_config
from telemetry_daemon.state.ledger_file import JOBS, LEDGER, LedgerFile
from telemetry_exporters.documents import job_json


@pytest.fixture
def config(tmp_path: Path) -> str:
    return bare_config(tmp_path)


def keep(folder: Path, ago: float = 0.0, host: str = "") -> Node:
    """Save two ended jobs of an hour, a running job, and the unallocated rest."""
    node = Node(wall_ahead=time.time() - 8000.0 - ago, interval=60.0)
    node.gives(has(job("7"), 0.5), has(job("8", "u1077"), 0.25))
    node.runs(3600.0, step=60.0)
    node.gives(has(job("9")))
    node.runs(3660.0, step=60.0)
    LedgerFile(str(folder / f"state{host}"), lambda: 0.0).write(node.records, node.kept())
    return node


def hours_by_owner(*arguments: str) -> dict[str, float]:
    status, out, _ = run_main("jobs", "--format", "json", *arguments)
    assert status == 0
    document = json.loads(out)
    rows = {row["owner"]: row for row in document["rows"]} | {"nobody": document["nobody"]}
    return {name: round(row["allocated_hours"], 2) for name, row in rows.items() if row["allocated_hours"]}


def test_files_of_this_node_are_the_default(tmp_path: Path, config: str) -> None:
    keep(tmp_path)
    assert hours_by_owner("--config", config) == {"9": 1.0, "7": 0.5, "8": 0.25, "nobody": 0.25}
    assert hours_by_owner("--config", config, "--user", "u1077") == {"8": 0.25}
    status, out, _ = run_main("jobs", "--by", "user", "--config", config)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[:4]] == ["USER", "u1042", "u1077", "(unallocated)"]


def test_mistyped_user_gets_a_suggestion(tmp_path: Path, config: str) -> None:
    keep(tmp_path)
    status, out, error = run_main("jobs", "--user", "u1707", "--config", config)
    assert (status, out) == (64, "")
    assert "unknown user 'u1707'; did you mean 'u1077'?" in error


def test_files_of_several_nodes_are_joined(tmp_path: Path) -> None:
    keep(tmp_path, host="1")
    keep(tmp_path, host="2")
    files = [str(tmp_path / f"state{host}" / name) for host in "12" for name in (JOBS, LEDGER, JOBS)]
    assert hours_by_owner(*files) == {"9": 2.0, "7": 1.0, "8": 0.5, "nobody": 0.5}
    status, out, _ = run_main("jobs", *files, "--format", "csv")
    assert status == 0
    assert [row["owner"] for row in csv.DictReader(io.StringIO(out))] == ["9", "7", "8", ""]


@pytest.mark.parametrize(
    ("since", "owners"),
    [("30m", {"9", "nobody"}), ("2h", {"9", "7", "8", "nobody"}), ("2001-01-01", {"9", "7", "8", "nobody"})],
)
def test_since_excludes_earlier_jobs(tmp_path: Path, config: str, since: str, owners: set[str]) -> None:
    keep(tmp_path)
    assert hours_by_owner("--config", config, "--since", since).keys() == owners


def test_missing_records_are_explained(config: str) -> None:
    status, out, error = run_main("jobs", "--config", config)
    assert (status, out) == (3, "")
    assert "attribution.enabled" in error


def test_missing_first_record_is_explained(tmp_path: Path) -> None:
    config = bare_config(tmp_path, more="[attribution]\nenabled = true\n")
    status, out, error = run_main("jobs", "--config", config)
    assert (status, out) == (3, "")
    assert "within a minute after its start" in error
    assert "attribution.enabled" not in error


def test_invalid_lines_are_skipped_with_their_number(tmp_path: Path) -> None:
    node = keep(tmp_path)
    good = job_json.line(node.records[0])
    path = tmp_path / "mixed.jsonl"
    hostile = [
        "\x1b[2J{}",
        "\0" * 50,
        good[:100],
        "[" * 5000,
        '{"schema":"telemetry.ledger/1","jobs":[]}',
        "x" * (2 << 20),
    ]
    path.write_text("\n".join([*hostile, "", good]))
    status, out, error = run_main("jobs", str(path), "--format", "json")
    assert status == 2
    assert json.loads(out)["total"]["owners"] == 1
    assert f"{path}: 6 invalid lines were skipped: line 1: " in error
    assert "\x1b" not in error
    assert error.count("\n") == 1


INVALID = {"missing": lambda _: None, "folder": os.mkdir, "pipe": os.mkfifo, "large": lambda path: path.touch()}


@pytest.mark.parametrize("kind", INVALID)
def test_invalid_file_is_reported_in_one_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    INVALID[kind](path)
    if kind == "large":
        os.truncate(path, 1 << 30)
    status, out, error = run_main("jobs", str(path))
    assert (status, out, error.count("\n")) == (64, "", 1)
    reason = "no such file: '{}'" if kind == "missing" else "cannot read '{}': "
    assert error.startswith(f"telemetry: {reason.format(path)}")
