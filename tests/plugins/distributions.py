"""Distributions with plugins, and modules, written to a folder and loaded with real workers."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from textwrap import dedent

from kits.waiting import PATIENCE_SECONDS
from kits.workers import python_path
from telemetry_daemon.plugins import loading as plugins
from telemetry_daemon.plugins.loading import TimeLimits
from telemetry_daemon.plugins.sources import find_parsers
from telemetry_daemon.processes.process import Launcher, launch
from telemetry_daemon.processes.worker import Worker
from telemetry_parsers.contract import Parser
from telemetry_parsers.model import Capture, Command, Output

PATIENT = TimeLimits(PATIENCE_SECONDS, PATIENCE_SECONDS)

# A good parser; `{…}` are filled in by `source`.
GOOD = """
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Command, Device, Library, Metric, Poll, Problem, Reading, Report

def parse(capture):
    text = capture.outputs[0].text if capture.outputs else ""
    return Report(devices=(Device("acme", 0),), readings=(Reading(0, "power_watts", float(text or 0)),))

PARSER = SourceParser(
    name="{name}",
    vendor="acme",
    gives=("power_watts",),
    polls=(Poll("all", {request}),),
    parse=parse,
)
"""


def source(name: str = "acme-smi", request: str = 'Command((("acme-smi",),))', more: str = "") -> str:
    """Return the text of a module with a good parser, followed by `more`."""
    return GOOD.format(name=name, request=request) + dedent(more)


@dataclass
class Site:
    """A folder in which distributions are installed and from which they are loaded."""

    folder: Path
    workers: list[Worker] = field(default_factory=list)
    launcher: Launcher = launch

    def install(
        self, distribution: str, entries: Mapping[str, str], modules: Mapping[str, str], version: str = "1.0"
    ) -> None:
        """Install a distribution: `entries` are name -> module:object of telemetry.parsers, or group/name -> …."""
        for name, text in modules.items():
            (self.folder / f"{name}.py").write_text(text)
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        lines: dict[str, list[str]] = {}
        for key, target in entries.items():
            group, _, name = key.rpartition("/")
            lines.setdefault(group or "telemetry.parsers", []).append(f"{name} = {target}")
        text = "\n".join(f"[{group}]\n" + "\n".join(rows) for group, rows in lines.items())
        (info / "entry_points.txt").write_text(text + "\n")

    def distributions(self) -> Iterable[metadata.Distribution]:
        return metadata.distributions(path=[str(self.folder), *sys.path])

    def new_worker(self, label: str, readers: Mapping[str, str]) -> Worker:
        environment = python_path(self.folder)
        self.workers.append(Worker(label, readers, environment=environment, launcher=self.launcher))
        return self.workers[-1]

    def load(self, *paths: Path, limits: TimeLimits = PATIENT) -> plugins.ParserSet:
        return plugins.load_parsers(
            find_parsers([str(path) for path in paths], self.distributions), self.new_worker, limits
        )


COMMAND = Command((("acme-smi",),))


def names(loaded: plugins.ParserSet) -> list[str]:
    return [item.parser.name for item in loaded.parsers]


def built_in() -> list[str]:
    with plugins.load_parsers(find_parsers()) as loaded:
        return names(loaded)


def parser_named(loaded: plugins.ParserSet, name: str) -> Parser:
    return next(item.parser for item in loaded.parsers if item.parser.name == name)


def capture(text: str = "80", poll: str = "all") -> Capture:
    return Capture("acme-smi", poll, COMMAND, (Output(text=text),))
