"""The example plugin as its users get it: installed, found, described, read and parsed by real workers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits import workers
from kits.compiled import cc, compiled
from plugins import distributions
from telemetry_daemon.plugins.loading import Loaded, LoadedParser
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_parsers.model import Absent, Capture, Output

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
EXAMPLE = HERE.parent / "example_plugin"
PACKAGE = EXAMPLE / "src/telemetry_example"


@pytest.fixture
def loaded(site: distributions.Site) -> Iterator[Loaded]:
    """The example, put where an installer puts it."""
    shutil.copytree(PACKAGE, site.folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    groups = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    entries = {f"{group}/{name}": target for group, names in groups.items() for name, target in names.items()}
    site.install("telemetry-example", entries, {}, "1.0.0")
    with site.load() as found:
        assert found.failures == ()
        yield found


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The invented vendor's library, where the loader finds it."""
    source, name = HERE / "fake_acme.c", "libacme.so.1"
    flags = ("-shared", "-fPIC")
    folder = compiled("acme", [source], flags, lambda folder: cc(*flags, "-o", folder / name, source))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))


def one(loaded: Loaded, name: str) -> LoadedParser:
    return next(item for item in loaded.parsers if item.parser.name == name)


def read(loaded: Loaded) -> Capture:
    item = one(loaded, "acme-library")
    assert item.worker is not None
    return WorkerReader("acme-library", item.worker).read(item.parser.polls[0], Targets())


@pytest.mark.needs("cc")
@pytest.mark.usefixtures("library")
def test_installed_it_is_found_and_runs_in_workers(loaded: Loaded) -> None:
    smi, library = one(loaded, "acme-smi"), one(loaded, "acme-library")
    assert [item.origin for item in (smi, library)] == ["telemetry-example 1.0.0"] * 2
    assert (smi.isolated, library.isolated) == (True, True)
    assert [metric.name for metric in loaded.metrics] == ["accelerator_acme_coolant_flow_ratio"]
    output = Output(text=(EXAMPLE / "captures/busy.txt").read_text(), status=0)
    report = smi.parser.parse(Capture("acme-smi", "cards", smi.parser.polls[0].request, (output,)))
    printed = {reading.metric: reading.value for reading in report.readings if not reading.label}
    assert (printed["power_watts"], printed["acme_coolant_flow_ratio"]) == (287.5, Absent.NOT_SUPPORTED)
    capture = read(loaded)
    assert capture.failure is None
    readings = library.parser.parse(capture).readings
    assert [(reading.device, reading.metric, reading.value) for reading in readings] == [
        (0, "power_watts", 61.5),
        (0, "temperature_celsius", 31.0),
        (0, "acme_coolant_flow_ratio", Absent.NOT_SUPPORTED),
        (1, "power_watts", 62.5),
        (1, "temperature_celsius", 32.0),
        (1, "acme_coolant_flow_ratio", Absent.NOT_REPORTED),
    ]


def test_without_the_library_its_source_is_missing(loaded: Loaded) -> None:
    capture = read(loaded)
    assert capture.failure is not None
    assert (capture.failure.state, capture.failure.reason) == ("missing", None)


@pytest.mark.installed
def test_its_wheel_holds_it_and_its_own_tests_pass_where_that_is_installed(tmp_path: Path) -> None:
    def python(*arguments: str | Path, path: tuple[Path, ...] = ()) -> str:
        command = [workers.PYTHON, *map(str, arguments)]
        done = subprocess.run(command, env=workers.python_path(*path), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    copy, site = tmp_path / "copy", tmp_path / "site"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__", ".*", "conftest.py"))
    python("-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", copy)
    (wheel,) = (tmp_path / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith("telemetry_example-")}
    assert names == {f"telemetry_example/{path.name}" for path in PACKAGE.glob("*.py")}
    python("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--target", site, wheel)
    program = (
        "from telemetry_daemon.plugins.loading import load; from telemetry_daemon.plugins.sources import find\n"
        "with load(find()) as loaded: print(*(item.parser.name for item in loaded.parsers if item.isolated))\n"
        "import sys; print([name for name in sys.modules if name.startswith('telemetry_example')])\n"
    )
    assert python("-c", program, path=(site,)) == "acme-library acme-smi\n[]\n"
    (copy / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    assert " passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider", copy / "tests", path=(site,))
