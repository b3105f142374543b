"""The example plugin as its users get it: built, installed, found, described, read and parsed by real workers."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kits import workers

HERE = Path(__file__).parent
EXAMPLE = HERE.parent / "example_plugin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's wheel, built from a copy of its files."""
    folder = tmp_path_factory.mktemp("build")
    shutil.copytree(EXAMPLE, folder / "copy", ignore=shutil.ignore_patterns("__pycache__", ".*", "conftest.py"))
    run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(folder / "copy"))
    (made,) = (folder / "dist").iterdir()
    return made


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the example is installed."""
    folder = tmp_path_factory.mktemp("site")
    run(
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
        "--target",
        str(folder),
        str(wheel),
    )
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the invented vendor's library."""
    folder = tmp_path_factory.mktemp("lib")
    output = folder / "libacme.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", output, HERE / "fake_acme.c"], check=True)
    return folder


def run(*arguments: str, **environment: str) -> str:
    """What a Python process prints."""
    done = subprocess.run(
        [workers.PYTHON, *arguments],
        env={**workers.python_path(), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# What a program does with plugins: load them, read, parse. Run in a process whose path has the installed example.
PROGRAM = """
import json, sys
from telemetry_daemon.plugins import loading as plugins
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_parsers.codec.captures import capture_to_plain
from telemetry_parsers.codec.derived import to_plain
from telemetry_parsers.model import Capture, Output, Report

with plugins.load(find()) as loaded:
    found = {item.parser.name: item for item in loaded.parsers}
    smi, library = found["acme-smi"], found["acme-library"]
    output = Output(text=sys.stdin.read(), status=0)
    printed = smi.parser.parse(Capture("acme-smi", "cards", smi.parser.polls[0].request, (output,)))
    capture = WorkerReader("acme-library", library.worker).read(library.parser.polls[0], Targets())
    print(json.dumps({
        "failures": [failure.text for failure in loaded.failures],
        "origins": [smi.origin, library.origin],
        "isolated": [smi.isolated, library.isolated],
        "metrics": [metric.name for metric in loaded.metrics],
        "imported": [name for name in sys.modules if name.startswith("telemetry_example")],
        "printed": to_plain(Report, printed),
        "capture": capture_to_plain(capture),
        "read": to_plain(Report, library.parser.parse(capture)),
    }))
"""


def used(site: Path, text: str, **environment: str) -> Any:
    """What the program found with the example installed."""
    done = subprocess.run(
        [workers.PYTHON, "-c", PROGRAM],
        env={**workers.python_path(site), **environment},
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_wheel_holds_the_package_and_its_entry_points(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith("telemetry_example-")}
        entry_points = archive.read("telemetry_example-1.0.0.dist-info/entry_points.txt").decode()
    assert names == {f"telemetry_example/{path.name}" for path in (EXAMPLE / "src/telemetry_example").glob("*.py")}
    assert "acme-smi = telemetry_example.acme_smi:PARSER" in entry_points
    assert "[telemetry.readers]\nacme = telemetry_example.reader:READER" in entry_points


@pytest.mark.needs("cc")
def test_installed_it_is_found_and_runs_in_workers(site: Path, library: Path) -> None:
    text = (EXAMPLE / "captures/busy.txt").read_text()
    found = used(site, text, LD_LIBRARY_PATH=str(library))
    assert found["failures"] == []
    assert found["origins"] == ["telemetry-example 1.0.0"] * 2
    assert found["isolated"] == [True, True]
    assert found["metrics"] == ["accelerator_acme_coolant_flow_ratio"]
    assert found["imported"] == [], "the daemon's own process never imports a plugin"
    printed = {reading["metric"]: reading["value"] for reading in found["printed"]["readings"] if not reading["label"]}
    assert printed["power_watts"] == 287.5
    assert printed["acme_coolant_flow_ratio"] == {"absent": "not_supported"}
    assert found["capture"]["failure"] is None
    assert [(reading["device"], reading["metric"], reading["value"]) for reading in found["read"]["readings"]] == [
        (0, "power_watts", 61.5),
        (0, "temperature_celsius", 31.0),
        (0, "acme_coolant_flow_ratio", {"absent": "not_supported"}),
        (1, "power_watts", 62.5),
        (1, "temperature_celsius", 32.0),
        (1, "acme_coolant_flow_ratio", {"absent": "not_reported"}),
    ]


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("status", "reason"), [("1", "driver_gone"), ("2", "no_permission"), ("3", "library_mismatch"), ("9", "internal")]
)
def test_what_the_library_refuses_arrives_as_its_reason(site: Path, library: Path, status: str, reason: str) -> None:
    found = used(site, "", LD_LIBRARY_PATH=str(library), ACME_OPEN=status)
    assert (found["capture"]["failure"]["state"], found["capture"]["failure"]["reason"]) == ("failed", reason)
    assert (found["read"]["outcome"], found["read"]["reason"]) == ("failed", reason)


def test_without_the_library_its_source_is_missing(site: Path) -> None:
    found = used(site, "")
    assert (found["capture"]["failure"]["state"], found["capture"]["failure"]["reason"]) == ("missing", None)
    assert found["printed"]["outcome"] == "not_mine"


def test_its_own_tests_pass_where_it_is_installed(site: Path, wheel: Path) -> None:
    copy = wheel.parent.parent / "copy"
    (copy / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    told = run("-m", "pytest", "-q", "-p", "no:cacheprovider", str(copy / "tests"), PYTHONPATH=str(site))
    assert " passed" in told
