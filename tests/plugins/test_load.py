"""Plugins are loaded independently: a broken one is reported with its remedy, and the others work."""

import os
import py_compile
from collections.abc import Iterable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from kits.waiting import PATIENCE_SECONDS
from plugins import distributions
from telemetry_daemon.plugins import loading as plugins
from telemetry_daemon.plugins.candidates import PluginFailure
from telemetry_daemon.plugins.sources import find_parsers
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Poll


def test_built_in_parsers_load_in_this_process() -> None:
    with plugins.load_parsers(find_parsers()) as loaded:
        assert loaded.failures == ()
        assert {"host", "mthreads-gmi"} <= set(distributions.names(loaded))
        assert not [item.origin for item in loaded.parsers if item.is_isolated]
        assert loaded.seconds > 0


def test_third_party_parser_runs_in_its_worker(site: distributions.Site) -> None:
    more = """
    import dataclasses, os
    def where(capture):
        return Report(problems=(Problem("pid", str(os.getpid())),))
    PARSER = dataclasses.replace(PARSER, parse=where)
    """
    text = distributions.source(more=more)
    site.install("telemetry-acme", {"acme-smi": "acme_parser:PARSER"}, {"acme_parser": text}, "2.1")
    with site.load() as loaded:
        assert loaded.failures == ()
        item = loaded.parsers[-1]
        assert (item.parser.name, item.origin, item.is_isolated) == ("acme-smi", "telemetry-acme 2.1", True)
        assert (item.parser.vendor, item.parser.gives, item.parser.contract_version) == ("acme", ("power_watts",), 1)
        assert item.parser.polls == (Poll("all", distributions.COMMAND),)
        assert isinstance(item.parser, Parser)
        assert item.worker is not None
        assert item.worker.pid is None, "a tool that is not there costs no process"
        problem = item.parser.parse(distributions.capture()).problems[0]
        assert int(problem.text) == item.worker.pid != os.getpid()
    assert item.worker.pid is None


def changed(fields: str) -> str:
    return distributions.source(more=f"import dataclasses\nPARSER = dataclasses.replace(PARSER, {fields})")


# The module, and the text of its failure.
BROKEN = (
    ("import acme_sdk", "cannot be loaded: ModuleNotFoundError: No module named 'acme_sdk'"),
    ("def", "cannot be loaded: SyntaxError: invalid syntax"),
    ("1/0", "cannot be loaded: ZeroDivisionError: division by zero (broken2.py line 1)"),
    ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3"),
    ("import os; os._exit(3)", "cannot be loaded: the worker exited with status 3"),
    (
        "import os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nos.kill(os.getpid(), 11)",
        "cannot be loaded: the worker was killed by SIGSEGV",
    ),
    ("x = 1", "cannot be loaded: PluginProtocolError: broken6 has no PARSER"),
    ("PARSER = object()", "object is not a Parser; missing attributes: contract_version name vendor"),
    (
        "class P: contract_version=1; name=''; vendor=''; gives=(); polls=(); parse=print\nPARSER = P()",
        "PluginProtocolError: P is not a Parser; missing attributes: metrics",
    ),
    (
        changed("name=1, gives='x', polls=({},), parse=None"),
        "name is not a string; parse is not a function; gives is not a tuple; polls[0] is dict, not Poll",
    ),
    (
        distributions.source(request='Command((("acme-smi",),)), interval="5"'),
        "cannot be loaded: polls[0].interval: expected a number, found '5'",
    ),
    (distributions.source(request="None"), "expected a Command, Files or Library, found NoneType"),
    (distributions.source("Acme SMI"), "breaks the parser protocol: name 'Acme SMI' must consist of"),
    (
        "class P:\n    @property\n    def contract_version(self): raise OSError(5, 'no')\nPARSER = P()",
        "cannot be loaded: OSError: [Errno 5] no (broken13.py line 3)",
    ),
)


def test_broken_plugins_are_reported_and_the_rest_works(site: distributions.Site) -> None:
    for number, (text, _) in enumerate(BROKEN):
        name = f"broken{number}"
        site.install(f"telemetry-{name}", {name: f"{name}:PARSER"}, {name: text})
    site.install("telemetry-z", {"acme-smi": "acme_parser:PARSER"}, {"acme_parser": distributions.source("acme-z")})
    with site.load() as loaded:
        found = {failure.plugin: failure for failure in loaded.failures}
        assert len(found) == len(BROKEN)
        for number, (_, expected) in enumerate(BROKEN):
            failure = found[f"telemetry-broken{number}:broken{number}"]
            assert failure.origin == f"telemetry-broken{number} 1.0"
            assert expected in failure.text
            assert failure.text.endswith(f": update or uninstall telemetry-broken{number}")
            assert "\n" not in failure.text
        assert distributions.names(loaded) == [*distributions.built_in(), "acme-z"]
        assert distributions.parser_named(loaded, "acme-z").parse(distributions.capture()).outcome == "ok"


def test_hanging_imports_are_awaited_together(site: distributions.Site) -> None:
    for name in ("slow0", "slow1", "slow2"):
        site.install(f"telemetry-{name}", {name: f"{name}:PARSER"}, {name: "import time; time.sleep(3600)"})
    with site.load(limits=replace(distributions.PATIENT, describe_seconds=1)) as loaded:
        assert [failure.text for failure in loaded.failures] == [
            f"cannot be loaded: its import did not finish within 1 s: update or uninstall telemetry-slow{number}"
            for number in range(3)
        ]
        assert distributions.names(loaded) == distributions.built_in()
    assert not [worker.pid for worker in site.workers if worker.pid is not None]


def test_first_of_two_equal_names_wins(site: distributions.Site, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "acme.py").write_text(distributions.source())
    site.install("telemetry-b", {"acme-smi": "module_b:PARSER"}, {"module_b": distributions.source()})
    site.install("Telemetry.A", {"acme-smi": "module_a:PARSER"}, {"module_a": distributions.source()})
    site.install("a-telemetry", {"mine": "usurper:PARSER"}, {"usurper": distributions.source("mthreads-gmi")})
    message = "the name acme-smi is already used by telemetry-a 1.0"
    with site.load(folder) as loaded:
        assert [item.origin for item in loaded.parsers if item.is_isolated] == ["telemetry-a 1.0"]
        usurper, *others = loaded.failures
    assert usurper.plugin == "a-telemetry:mine"
    assert usurper.text.startswith("the name mthreads-gmi is already used by device-telemetry ")
    path = f"{folder}/acme.py"
    assert others == [
        PluginFailure("telemetry-b:acme-smi", "telemetry-b 1.0", f"{message}: update or uninstall telemetry-b"),
        PluginFailure(path, path, f"{message}: fix or remove {path}"),
    ]


METRIC = 'Metric("accelerator_acme_resets_total", "counter", "", "{help}")'
DECLARING = """
import dataclasses
PARSER = dataclasses.replace(PARSER, metrics=(%s,), gives=("acme_resets_total",))
"""


@pytest.mark.parametrize(("second", "failures"), [("Resets.", 0), ("Resets of the fan.", 1)])
def test_metric_has_one_meaning(site: distributions.Site, second: str, failures: int) -> None:
    for name, help_text in (("a", "Resets."), ("b", second)):
        text = distributions.source(f"acme-{name}", more=DECLARING % METRIC.format(help=help_text))
        site.install(f"telemetry-{name}", {name: f"module_{name}:PARSER"}, {f"module_{name}": text})
    with site.load() as loaded:
        assert [metric.help for metric in loaded.metrics] == ["Resets."]
        expected = "its metric accelerator_acme_resets_total is declared differently by telemetry-a 1.0"
        assert [failure.text for failure in loaded.failures] == [f"{expected}: update or uninstall telemetry-b"][
            :failures
        ]


def test_broken_metadata_costs_only_itself(site: distributions.Site) -> None:
    entries = {"bad": "no such thing", "half": "module_a", "acme-smi": "module_a:PARSER"}
    site.install("telemetry-a", entries, {"module_a": distributions.source()})
    site.install("telemetry-z", {"z": "module_z:PARSER"}, {})
    (site.folder / "telemetry_z-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe\x00[")
    with site.load() as loaded:
        assert distributions.names(loaded)[-1] == "acme-smi"
        failures = {failure.plugin: failure.text for failure in loaded.failures}
    assert "its metadata cannot be read (UnicodeDecodeError" in failures.pop("telemetry_z-1.0.dist-info")
    assert sorted(failures.values()) == [
        f"its entry point {entry} is not of the form MODULE:OBJECT: update or uninstall telemetry-a"
        for entry in ("bad = 'no such thing'", "half = 'module_a'")
    ]


def test_shadowed_distribution_is_no_second_plugin(site: distributions.Site, tmp_path: Path) -> None:
    """With two versions on the path, Python imports the first one's module."""
    hidden = distributions.Site(tmp_path / "hidden")
    hidden.folder.mkdir()
    hidden.install("telemetry-acme", {"acme-smi": "acme_parser:PARSER"}, {}, "0.9")
    site.install("telemetry-acme", {"acme-smi": "acme_parser:PARSER"}, {"acme_parser": distributions.source()}, "1.0")

    def both() -> Iterable[metadata.Distribution]:
        return (*site.distributions(), *hidden.distributions())

    with plugins.load_parsers(find_parsers((), both), site.new_worker) as loaded:
        assert [item.origin for item in loaded.parsers if item.is_isolated] == ["telemetry-acme 1.0"]
        assert loaded.failures == ()


READER = """
class Reader:
    def open(self): pass
    def read(self, calls): return {call: "%s" for call in calls}
    def close(self): pass
READER = Reader()
"""


def read(item: plugins.LoadedParser) -> list[object]:
    assert item.worker is not None
    reader = WorkerReader(item.parser.name, item.worker)
    found = reader.read(Poll("all", item.parser.polls[0].request, deadline=PATIENCE_SECONDS), Targets())
    assert found.failure is None
    return [output.data for output in found.outputs]


def test_library_readers_have_their_own_group(site: distributions.Site) -> None:
    text = distributions.source(request='Library("acme", ("power",))') + READER % "a"
    entries = {"acme-smi": "module_a:PARSER", "telemetry.readers/acme": "module_a:READER"}
    site.install("telemetry-a", entries, {"module_a": text})
    site.install("telemetry-b", {"telemetry.readers/acme": "module_b:READER"}, {"module_b": READER % "b"})
    with site.load() as loaded:
        assert loaded.readers["acme"] == "module_a:READER"
        assert read(loaded.parsers[-1]) == ["a"]
        assert [(failure.plugin, failure.text) for failure in loaded.failures] == [
            (
                "telemetry-b:acme",
                "the library reader acme is already in telemetry-a 1.0: update or uninstall telemetry-b",
            )
        ]


def test_module_of_a_folder_is_a_plugin(site: distributions.Site, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "acme.py").write_text(distributions.source(request='Library("acme-smi", ("power",))') + READER % "file")
    (folder / "_helper.py").write_text("1/0")
    (folder / ".hidden.py").write_text("1/0")
    (folder / "README").write_text("not a module")
    with site.load(folder) as loaded:
        assert loaded.failures == ()
        item = loaded.parsers[-1]
        assert (item.parser.name, item.origin, item.is_isolated) == ("acme-smi", f"{folder}/acme.py", True)
        assert item.parser.parse(distributions.capture()).outcome == "ok"
        assert read(item) == ["file"]
    assert sorted(path.name for path in folder.iterdir()) == [".hidden.py", "README", "_helper.py", "acme.py"]


def test_foreign_bytecode_is_not_run(site: distributions.Site, tmp_path: Path) -> None:
    """A .pyc with the source's size and time stamp would be imported instead."""
    folder = tmp_path / "folder"
    folder.mkdir()
    good = distributions.source()
    file = folder / "acme.py"
    file.write_text("PARSER = 1/0".ljust(len(good)))
    py_compile.compile(str(file), doraise=True)
    stamp = file.stat()
    file.write_text(good)
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    with site.load(folder) as loaded:
        assert distributions.names(loaded)[-1] == "acme-smi"
