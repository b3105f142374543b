"""Finds parsers in installed distributions and in plugin folders."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path

from telemetry_daemon.guarded.folders import ROOT, replacement_risk
from telemetry_daemon.plugins.candidates import MODULE_PARSER, Candidate, Candidates, PluginFailure
from telemetry_parsers.dataclass import dataclass

OWN_DISTRIBUTION = "device-telemetry"
PARSERS_GROUP = "telemetry.parsers"
READERS_GROUP = "telemetry.readers"


@dataclass(frozen=True, slots=True)
class _EntryPoint:
    group: str
    name: str
    candidate: Candidate


def find_parsers(
    paths: Sequence[str] = (), find_distributions: Callable[[], Iterable[Distribution]] = distributions
) -> Candidates:
    """Return all parsers and library readers without importing them."""
    failures: list[PluginFailure] = []
    entry_points = _find_entry_points(find_distributions(), failures)
    readers = _reader_targets(entry_points, failures)
    parsers = [parser.candidate for parser in entry_points if parser.group == PARSERS_GROUP]
    for file in _module_files(paths, failures):
        target = f"{file}:{MODULE_PARSER}"
        parsers.append(Candidate(str(file), str(file), target, f"fix or remove {file}"))
    return Candidates(tuple(parsers), readers, tuple(failures))


def _reader_targets(entry_points: Iterable[_EntryPoint], failures: list[PluginFailure]) -> Mapping[str, str]:
    readers: dict[str, _EntryPoint] = {}
    for reader in entry_points:
        if reader.group != READERS_GROUP:
            continue
        earlier = readers.setdefault(reader.name, reader)
        if earlier is not reader:
            candidate = reader.candidate
            text = f"the library reader {reader.name} is already in {earlier.candidate.origin}: {candidate.remedy}"
            failures.append(PluginFailure(candidate.plugin, candidate.origin, text))
    return {name: reader.candidate.target for name, reader in readers.items()}


def _find_entry_points(distributions: Iterable[Distribution], failures: list[PluginFailure]) -> list[_EntryPoint]:
    """Return the entry points of parsers and readers, built-in ones first."""
    points_by_distribution: dict[str, list[_EntryPoint]] = {}
    for distribution in distributions:
        try:
            entries = [entry for entry in distribution.entry_points if entry.group in (PARSERS_GROUP, READERS_GROUP)]
            name = _normalize_name(distribution.metadata["Name"]) if entries else ""
            version = distribution.version if entries else ""
        except Exception as error:  # noqa: BLE001 # the metadata of a foreign package may be broken in any way
            path = str(getattr(distribution, "_path", "unknown"))
            text = f"its metadata cannot be read ({type(error).__name__}: {error}): reinstall or remove it"
            failures.append(PluginFailure(Path(path).name, path, text))
            continue
        if entries and name not in points_by_distribution:
            points = (_parse_entry_point(name, version, entry, failures) for entry in entries)
            points_by_distribution[name] = [point for point in points if point is not None]
    names = sorted(points_by_distribution, key=lambda name: (name != OWN_DISTRIBUTION, name))
    return [point for name in names for point in sorted(points_by_distribution[name], key=lambda point: point.name)]


def _parse_entry_point(
    distribution: str, version: str, entry: EntryPoint, failures: list[PluginFailure]
) -> _EntryPoint | None:
    module, _, attribute = (part.strip() for part in entry.value.partition("[")[0].partition(":"))
    is_built_in = distribution == OWN_DISTRIBUTION
    plugin = entry.name if is_built_in else f"{distribution}:{entry.name}"
    origin, remedy = f"{distribution} {version}", f"update or uninstall {distribution}"
    if module and attribute:
        candidate = Candidate(plugin, origin, f"{module}:{attribute}", remedy, is_built_in)
        return _EntryPoint(entry.group, entry.name, candidate)
    text = f"its entry point {entry.name} = {entry.value!r} is not of the form MODULE:OBJECT: {remedy}"
    failures.append(PluginFailure(f"{distribution}:{entry.name}", origin, text))
    return None


def _normalize_name(name: str) -> str:
    """Return the name of a distribution, normalized as in PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _module_files(paths: Iterable[str], failures: list[PluginFailure]) -> Iterator[Path]:
    """Yield the modules that are safe to run. Append a failure for each other module and unreadable folder."""
    for path in paths:
        try:
            folder = Path(path).resolve(strict=True)
            files = sorted(
                file for file in folder.iterdir() if file.suffix == ".py" and not file.name.startswith(("_", "."))
            )
        except OSError as error:
            text = f"cannot be read ({error.strerror}): create the folder, or remove it from parsers.paths"
            failures.append(PluginFailure(path, path, text))
            continue
        for file in files:
            problem = _safety_problem(file)
            if problem is None:
                yield file.resolve()
            else:
                failures.append(PluginFailure(str(file), str(file), problem))


def _safety_problem(file: Path) -> str | None:
    """Return why the module is not safe to run, or None if it is safe."""
    try:
        return replacement_risk(file, (ROOT, os.geteuid()))
    except OSError as error:
        return f"cannot be read ({error.strerror}): fix or remove {file}"
