"""The example plugin as users get it: installed, found, described, read and parsed by real workers."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kits.compiled import cc, compiled
from plugins import distributions
from telemetry_daemon.plugins.loading import LoadedParser, ParserSet
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
def loaded(site: distributions.Site) -> Iterator[ParserSet]:
    """Install and load the example like an installer."""
    shutil.copytree(PACKAGE, site.folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    groups = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    entries = {f"{group}/{name}": target for group, names in groups.items() for name, target in names.items()}
    site.install("telemetry-example", entries, {}, "1.0.0")
    with site.load() as found:
        assert found.failures == ()
        yield found


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build the vendor's library in a folder of the loader's search path."""
    source, name = HERE / "fake_acme.c", "libacme.so.1"
    flags = ("-shared", "-fPIC")
    folder = compiled("acme", [source], flags, lambda folder: cc(*flags, "-o", folder / name, source))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))


def parser_named(loaded: ParserSet, name: str) -> LoadedParser:
    return next(item for item in loaded.parsers if item.parser.name == name)


def read(loaded: ParserSet) -> Capture:
    item = parser_named(loaded, "acme-library")
    assert item.worker is not None
    return WorkerReader("acme-library", item.worker).read(item.parser.polls[0], Targets())


@pytest.mark.needs("cc")
@pytest.mark.usefixtures("library")
def test_installed_plugin_runs_in_workers(loaded: ParserSet) -> None:
    smi, library = parser_named(loaded, "acme-smi"), parser_named(loaded, "acme-library")
    assert [item.origin for item in (smi, library)] == ["telemetry-example 1.0.0"] * 2
    assert (smi.is_isolated, library.is_isolated) == (True, True)
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


def test_source_without_its_library_is_missing(loaded: ParserSet) -> None:
    capture = read(loaded)
    assert capture.failure is not None
    assert (capture.failure.state, capture.failure.reason) == ("missing", None)


def test_single_file_adds_a_metric_to_known_cards(site: distributions.Site, tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir(mode=0o755)
    shutil.copy(EXAMPLE / "one_file" / "coolant.py", folder)
    output = Output(text='{"0000:1A:00.0": 31.5, "0000:1b:00.0": "warm", "0000:1c:00.0": 400.0}')
    with site.load(folder) as found:
        assert found.failures == ()
        parser = parser_named(found, "coolant").parser
        report = parser.parse(Capture("coolant", "cards", parser.polls[0].request, (output,)))
        assert [device.bus_id for device in report.devices] == ["0000:1a:00.0", "0000:1b:00.0", "0000:1c:00.0"]
        assert [item.value for item in report.readings] == [31.5, Absent.NOT_UNDERSTOOD, Absent.IMPLAUSIBLE]
        for text in ("", "[]", "{", '{"card 0": 31.5}'):
            failed = parser.parse(Capture("coolant", "cards", parser.polls[0].request, (Output(text=text),)))
            assert failed.outcome == "failed"
