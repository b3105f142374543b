"""Finds plugins: entry points of installed distributions, and folders of modules that only root or this user can write."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path

from telemetry_daemon.guarded.folders import ROOT, other_writer
from telemetry_daemon.plugins.candidates import MODULE_PARSER, Candidate, Candidates, PluginFailure
from telemetry_parsers.dataclass import dataclass

OWN_DISTRIBUTION = "device-telemetry"
PARSERS_GROUP = "telemetry.parsers"
READERS_GROUP = "telemetry.readers"


@dataclass(frozen=True, slots=True)
class _Installed:
    """An entry point of an installed distribution, as a candidate parser."""

    group: str
    name: str
    candidate: Candidate


def find(
    paths: Sequence[str] = (), installed_distributions: Callable[[], Iterable[Distribution]] = distributions
) -> Candidates:
    """Return all candidate parsers without importing any."""
    failures: list[PluginFailure] = []
    installed = _installed(installed_distributions(), failures)
    readers = _readers(installed, failures)
    parsers = [item.candidate for item in installed if item.group == PARSERS_GROUP]
    for file in _module_files(paths, failures):
        target = f"{file}:{MODULE_PARSER}"
        parsers.append(Candidate(str(file), str(file), target, f"fix or remove {file}"))
    return Candidates(tuple(parsers), readers, tuple(failures))


def _readers(installed: Iterable[_Installed], failures: list[PluginFailure]) -> Mapping[str, str]:
    readers: dict[str, _Installed] = {}
    for item in installed:
        if item.group != READERS_GROUP:
            continue
        first = readers.setdefault(item.name, item)
        if first is not item:
            text = f"the library reader {item.name} is that of {first.candidate.origin}: {item.candidate.remedy}"
            failures.append(PluginFailure(item.candidate.plugin, item.candidate.origin, text))
    return {name: item.candidate.target for name, item in readers.items()}


def _installed(distributions: Iterable[Distribution], failures: list[PluginFailure]) -> list[_Installed]:
    """Return the entry points of both groups, built-in first, then by distribution; a shadowed distribution is left out."""
    by_distribution: dict[str, list[_Installed]] = {}
    for distribution in distributions:
        try:
            entries = [entry for entry in distribution.entry_points if entry.group in (PARSERS_GROUP, READERS_GROUP)]
            name = _normal(distribution.metadata["Name"]) if entries else ""
            version = distribution.version if entries else ""
        except Exception as error:  # noqa: BLE001 # the metadata of a foreign package may be broken in any way
            path = str(getattr(distribution, "_path", "unknown"))
            text = f"its metadata cannot be read ({type(error).__name__}: {error}): reinstall or remove it"
            failures.append(PluginFailure(Path(path).name, path, text))
            continue
        if entries and name not in by_distribution:
            by_distribution[name] = [
                item for entry in entries if (item := _item(name, version, entry, failures)) is not None
            ]
    names = sorted(by_distribution, key=lambda name: (name != OWN_DISTRIBUTION, name))
    return [item for name in names for item in sorted(by_distribution[name], key=lambda item: item.name)]


def _item(distribution: str, version: str, entry: EntryPoint, failures: list[PluginFailure]) -> _Installed | None:
    module, _, attribute = (part.strip() for part in entry.value.partition("[")[0].partition(":"))
    built_in = distribution == OWN_DISTRIBUTION
    plugin = entry.name if built_in else f"{distribution}:{entry.name}"
    origin, remedy = f"{distribution} {version}", f"update or uninstall {distribution}"
    if module and attribute:
        candidate = Candidate(plugin, origin, f"{module}:{attribute}", remedy, built_in)
        return _Installed(entry.group, entry.name, candidate)
    text = f"its entry point {entry.name} = {entry.value!r} is not module:object: {remedy}"
    failures.append(PluginFailure(f"{distribution}:{entry.name}", origin, text))
    return None


def _normal(name: str) -> str:
    """Return a distribution's name as normalized by PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _module_files(paths: Iterable[str], failures: list[PluginFailure]) -> Iterator[Path]:
    """Yield the modules in these folders, sorted by name, if no other user can change them."""
    for given in paths:
        try:
            folder = Path(given).resolve(strict=True)
            files = sorted(
                file for file in folder.iterdir() if file.suffix == ".py" and not file.name.startswith(("_", "."))
            )
        except OSError as error:
            text = f"cannot be read ({error.strerror}): create the folder, or take it out of parsers.paths"
            failures.append(PluginFailure(given, given, text))
            continue
        for file in files:
            unsafe = _unsafe(file)
            if unsafe is None:
                yield file.resolve()
            else:
                failures.append(PluginFailure(str(file), str(file), unsafe))


def _unsafe(file: Path) -> str | None:
    """Return which other user could change the module that the daemon would run, with the remedy, or None."""
    try:
        return other_writer(file, (ROOT, os.geteuid()))
    except OSError as error:
        return f"cannot be read ({error.strerror}): fix or remove {file}"
