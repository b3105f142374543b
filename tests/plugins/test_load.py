"""Plugins are loaded side by side: one that is broken is reported with its remedy, and the rest works."""

from __future__ import annotations

import os
import py_compile
from collections.abc import Iterable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from kits.processes import own_holdings
from kits.waiting import PATIENCE_SECONDS
from plugins import distributions
from telemetry_daemon.plugins import loading as plugins
from telemetry_daemon.plugins.candidates import PluginFailure
from telemetry_daemon.plugins.sources import find
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.readers.in_worker import WorkerReader
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Poll, Report


def test_every_built_in_parser_loads_in_this_process() -> None:
    with plugins.load(find()) as loaded:
        assert loaded.failures == ()
        assert {"host", "mthreads-gmi"} <= set(distributions.names(loaded))
        assert not [item.origin for item in loaded.parsers if item.isolated]
        assert loaded.seconds > 0


def test_a_third_party_parser_runs_in_a_worker_of_its_own(site: distributions.Site) -> None:
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
        assert (item.parser.name, item.origin, item.isolated) == ("acme-smi", "telemetry-acme 2.1", True)
        assert isinstance(item.parser, Parser)
        assert item.worker is not None
        assert item.worker.pid is None, "a tool that is not there costs no process"
        problem = item.parser.parse(distributions.capture()).problems[0]
        assert int(problem.text) == item.worker.pid != os.getpid()
    assert item.worker.pid is None


def test_its_parser_is_what_it_said_it_is(site: distributions.Site) -> None:
    site.install("telemetry-acme", {"acme-smi": "acme_parser:PARSER"}, {"acme_parser": distributions.source()})
    with site.load() as loaded:
        parser = distributions.parser_named(loaded, "acme-smi")
        assert (parser.vendor, parser.gives, parser.contract_version) == ("acme", ("power_watts",), 1)
        assert parser.polls == (Poll("all", distributions.COMMAND),)
        report = parser.parse(distributions.capture("80.5"))
        assert [reading.value for reading in report.readings] == [80.5]


# The module, what its entry point names, and what is said of it.
BROKEN = {
    "does not import": ("import acme_sdk", "PARSER", "cannot be loaded: ModuleNotFoundError: No module named 'acme_sdk'"),
    "is no Python": ("def", "PARSER", "cannot be loaded: SyntaxError: invalid syntax"),
    "raises at import": ("1/0", "PARSER", "cannot be loaded: ZeroDivisionError: division by zero (broken.py line 1)"),
    "exits at import": ("raise SystemExit(3)", "PARSER", "cannot be loaded: SystemExit: 3"),
    "leaves at import": ("import os; os._exit(3)", "PARSER", "cannot be loaded: the worker exited with status 3"),
    "crashes at import": (
        "import os, resource\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\nos.kill(os.getpid(), 11)",
        "PARSER",
        "cannot be loaded: the worker was ended by SIGSEGV",
    ),
    "has no such object": ("x = 1", "PARSER", "cannot be loaded: BrokenProtocolError: broken has no PARSER"),
    "is no parser": ("PARSER = object()", "PARSER", "object lacks something of the Parser protocol: contract_version name vendor"),
    "has no metrics": (
        "class P: contract_version=1; name=''; vendor=''; gives=(); polls=(); parse=print\nPARSER = P()",
        "PARSER",
        "BrokenProtocolError: P lacks something of the Parser protocol: metrics",
    ),
    "has wrong types": (
        distributions.source(more="import dataclasses\nPARSER = dataclasses.replace(PARSER, name=1, gives='x', polls=({},), parse=None)"),
        "PARSER",
        "name is not a string; parse is no function; gives is not a tuple; polls[0] is dict, not Poll",
    ),
    "has a poll with wrong types": (
        distributions.source(request='Command((("acme-smi",),)), interval="5"'),
        "PARSER",
        "cannot be loaded: polls[0].interval: expected a number, found '5'",
    ),
    "has no request": (distributions.source(request="None"), "PARSER", "expected a Command, Files or Library, found NoneType"),
    "is of another version": (
        distributions.source(more="import dataclasses\nPARSER = dataclasses.replace(PARSER, contract_version=7)"),
        "PARSER",
        "breaks the parser protocol: contract_version is 7, this is version 1",
    ),
    "has a bad name": (distributions.source("Acme SMI"), "PARSER", "breaks the parser protocol: name 'Acme SMI' must be"),
    "gives what nobody knows": (
        distributions.source(more="import dataclasses\nPARSER = dataclasses.replace(PARSER, gives=('power',))"),
        "PARSER",
        "breaks the parser protocol: gives power, which is neither in the catalogue nor among the parser's metrics",
    ),
    "raises when asked": (
        "class P:\n    @property\n    def contract_version(self): raise OSError(5, 'no')\nPARSER = P()",
        "PARSER",
        "cannot be loaded: OSError: [Errno 5] no (broken.py line 3)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "attribute", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_is_reported_and_the_rest_works(
    site: distributions.Site, text: str, attribute: str, said: str
) -> None:
    site.install("telemetry-broken", {"broken": f"broken:{attribute}"}, {"broken": text})
    site.install(
        "telemetry-acme", {"acme-smi": "acme_parser:PARSER"}, {"acme_parser": distributions.source("acme-two")}
    )
    with site.load() as loaded:
        (failure,) = loaded.failures
        assert (failure.plugin, failure.origin) == ("telemetry-broken:broken", "telemetry-broken 1.0")
        assert said in failure.text
        assert failure.text.endswith(": update or uninstall telemetry-broken")
        assert "\n" not in failure.text
        assert distributions.names(loaded) == [*distributions.built_in(), "acme-two"]
        assert distributions.parser_named(loaded, "acme-two").parse(distributions.capture()).outcome == "ok"


def test_plugins_that_hang_at_import_hang_together(site: distributions.Site) -> None:
    for number in range(3):
        site.install(
            f"telemetry-slow{number}",
            {f"slow{number}": f"slow{number}:PARSER"},
            {f"slow{number}": "import time; time.sleep(3600)"},
        )
    with site.load(patience=replace(distributions.PATIENT, describe_seconds=1)) as loaded:
        assert [failure.text for failure in loaded.failures] == [
            f"cannot be loaded: its import did not end within 1 s: update or uninstall telemetry-slow{number}"
            for number in range(3)
        ]
        assert distributions.names(loaded) == distributions.built_in()
    assert not [worker.pid for worker in site.workers if worker.pid is not None]


def test_a_built_in_name_cannot_be_taken(site: distributions.Site) -> None:
    site.install("a-telemetry", {"mine": "usurper:PARSER"}, {"usurper": distributions.source("mthreads-gmi")})
    with site.load() as loaded:
        (failure,) = loaded.failures
        assert failure.plugin == "a-telemetry:mine"
        assert failure.text.startswith("the name mthreads-gmi is taken by device-telemetry ")
        assert not next(item for item in loaded.parsers if item.parser.name == "mthreads-gmi").isolated


def test_of_two_with_one_name_the_first_distribution_by_name_wins(site: distributions.Site, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "acme.py").write_text(distributions.source())
    site.install("telemetry-b", {"acme-smi": "module_b:PARSER"}, {"module_b": distributions.source()})
    site.install("Telemetry.A", {"acme-smi": "module_a:PARSER"}, {"module_a": distributions.source()})
    with site.load(folder) as loaded:
        assert [item.origin for item in loaded.parsers if item.isolated] == ["telemetry-a 1.0"]
        assert loaded.failures == (
            PluginFailure(
                "telemetry-b:acme-smi",
                "telemetry-b 1.0",
                "the name acme-smi is taken by telemetry-a 1.0: update or uninstall telemetry-b",
            ),
            PluginFailure(
                f"{folder}/acme.py",
                f"{folder}/acme.py",
                f"the name acme-smi is taken by telemetry-a 1.0: fix or remove {folder}/acme.py",
            ),
        )


METRIC = 'Metric("accelerator_acme_resets_total", "counter", "", "{help}")'
DECLARING = """
import dataclasses
PARSER = dataclasses.replace(PARSER, metrics=(%s,), gives=("acme_resets_total",))
"""


@pytest.mark.parametrize(("second", "failures"), [("Resets.", 0), ("Resets of the fan.", 1)])
def test_one_metric_has_one_meaning(site: distributions.Site, second: str, failures: int) -> None:
    for name, help_text in (("a", "Resets."), ("b", second)):
        text = distributions.source(f"acme-{name}", more=DECLARING % METRIC.format(help=help_text))
        site.install(f"telemetry-{name}", {name: f"module_{name}:PARSER"}, {f"module_{name}": text})
    with site.load() as loaded:
        assert [metric.help for metric in loaded.metrics] == ["Resets."]
        said = "its metric accelerator_acme_resets_total is declared otherwise by telemetry-a 1.0"
        assert [failure.text for failure in loaded.failures] == [f"{said}: update or uninstall telemetry-b"][:failures]


def test_a_broken_entry_point_costs_only_itself(site: distributions.Site) -> None:
    entries = {"bad": "no such thing", "half": "module_a", "acme-smi": "module_a:PARSER"}
    site.install("telemetry-a", entries, {"module_a": distributions.source()})
    with site.load() as loaded:
        assert distributions.names(loaded)[-1] == "acme-smi"
        assert [failure.text for failure in loaded.failures] == [
            "its entry point bad = 'no such thing' is not module:object: update or uninstall telemetry-a",
            "its entry point half = 'module_a' is not module:object: update or uninstall telemetry-a",
        ]


def test_a_distribution_with_broken_metadata_costs_only_itself(site: distributions.Site) -> None:
    site.install("telemetry-a", {"acme-smi": "module_a:PARSER"}, {"module_a": distributions.source()})
    site.install("telemetry-z", {"z": "module_z:PARSER"}, {})
    (site.folder / "telemetry_z-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe\x00[")
    with site.load() as loaded:
        assert distributions.names(loaded)[-1] == "acme-smi"
        (failure,) = loaded.failures
        assert failure.plugin == "telemetry_z-1.0.dist-info"
        assert "its metadata cannot be read (UnicodeDecodeError" in failure.text


def test_a_shadowed_distribution_is_no_second_plugin(site: distributions.Site, tmp_path: Path) -> None:
    """Two versions on the path: Python imports the first one's module, so that one counts."""
    hidden = distributions.Site(tmp_path / "hidden")
    hidden.folder.mkdir()
    hidden.install("telemetry-acme", {"acme-smi": "acme_parser:PARSER"}, {}, "0.9")
    site.install("telemetry-acme", {"acme-smi": "acme_parser:PARSER"}, {"acme_parser": distributions.source()}, "1.0")

    def both() -> Iterable[metadata.Distribution]:
        return (*site.distributions(), *hidden.distributions())

    with plugins.load(find((), both), site.new_worker) as loaded:
        assert [item.origin for item in loaded.parsers if item.isolated] == ["telemetry-acme 1.0"]
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


def test_library_readers_come_through_their_own_group(site: distributions.Site) -> None:
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
                "the library reader acme is that of telemetry-a 1.0: update or uninstall telemetry-b",
            )
        ]


def test_a_module_of_a_folder_is_a_plugin(site: distributions.Site, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "acme.py").write_text(distributions.source(request='Library("acme-smi", ("power",))') + READER % "file")
    (folder / "_helper.py").write_text("1/0")
    (folder / ".hidden.py").write_text("1/0")
    (folder / "README").write_text("not a module")
    with site.load(folder) as loaded:
        assert loaded.failures == ()
        item = loaded.parsers[-1]
        assert (item.parser.name, item.origin, item.isolated) == ("acme-smi", f"{folder}/acme.py", True)
        assert item.parser.parse(distributions.capture()).outcome == "ok"
        assert read(item) == ["file"]
    assert sorted(path.name for path in folder.iterdir()) == [".hidden.py", "README", "_helper.py", "acme.py"]


def test_a_module_cached_by_somebody_else_is_not_run(site: distributions.Site, tmp_path: Path) -> None:
    """A .pyc with the source's size and time stamp would be imported in its place."""
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


def test_each_plugin_costs_one_process_while_it_is_used(site: distributions.Site) -> None:
    before = own_holdings()
    for name in ("a", "b"):
        text = distributions.source(f"acme-{name}")
        site.install(f"telemetry-{name}", {name: f"module_{name}:PARSER"}, {f"module_{name}": text})
    with site.load() as loaded:
        assert own_holdings() == before
        for _ in range(3):
            assert [item.parser.parse(distributions.capture()).outcome for item in loaded.parsers[-2:]] == ["ok", "ok"]
        assert own_holdings().processes == before.processes + 2
    assert own_holdings() == before


def test_one_plugin_that_crashes_does_not_touch_the_other(site: distributions.Site) -> None:
    crash = "import dataclasses, os\nPARSER = dataclasses.replace(PARSER, parse=lambda capture: os._exit(1))\n"
    site.install("telemetry-a", {"a": "module_a:PARSER"}, {"module_a": distributions.source("acme-a", more=crash)})
    site.install("telemetry-b", {"b": "module_b:PARSER"}, {"module_b": distributions.source("acme-b")})
    with site.load() as loaded:
        bad, good = loaded.parsers[-2:]
        assert good.parser.parse(distributions.capture()).outcome == "ok"
        assert good.worker is not None
        pid = good.worker.pid
        for _ in range(3):
            assert bad.parser.parse(distributions.capture()) != Report()
            assert good.parser.parse(distributions.capture()).outcome == "ok"
        assert good.worker.pid == pid
