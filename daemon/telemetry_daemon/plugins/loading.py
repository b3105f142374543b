"""Loads every parser: built-in parsers by their descriptions, all others in a worker, which describes and runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import final

from telemetry_daemon.plugins import built_in
from telemetry_daemon.plugins.candidates import Candidate, Candidates, PluginFailure, module_reader
from telemetry_daemon.processes.worker import Worker, WorkerError, WorkerTimeoutError
from telemetry_parsers.codec.captures import CodecError, DescribedParser
from telemetry_parsers.contract import Parser
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Library, Metric


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a plugin may take to be imported, and to parse a capture. A correct parser reads a mebibyte in under a second."""

    describe_seconds: float = 10.0
    parse_seconds: float = 5.0


PATIENCE = Patience()
# How many plugins are described at once: a plugin that hangs at import must not block the others.
_AT_ONCE = 4

WorkerFactory = Callable[[str, Mapping[str, str]], Worker]


@dataclass(frozen=True, slots=True)
class LoadedParser:
    """A usable parser. `worker` runs the parser or its library reader, and is None if neither needs a worker."""

    parser: Parser
    origin: str
    isolated: bool
    worker: Worker | None = None


@final
@dataclass(frozen=True, slots=True)
class Loaded:
    """The parsers, the plugins left out, the library readers' targets by name, and the loading time. As a context manager it closes its workers at the end."""

    parsers: tuple[LoadedParser, ...] = ()
    failures: tuple[PluginFailure, ...] = ()
    readers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def polls(self) -> dict[str, tuple[str, ...]]:
        """Return the names of each source's polls, by source."""
        return {item.parser.name: tuple(poll.name for poll in item.parser.polls) for item in self.parsers}

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the plugins' own metrics, each once."""
        return tuple({metric.name: metric for item in self.parsers for metric in item.parser.metrics}.values())

    def close(self) -> None:
        """Close every worker; each takes at most a second, usually a few milliseconds."""
        for item in self.parsers:
            if item.worker is not None:
                item.worker.close()

    def __enter__(self) -> Loaded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A candidate with its description, or the reason why it is missing."""

    candidate: Candidate
    loaded: LoadedParser | None
    trouble: str = ""


def load(candidates: Candidates, worker_factory: WorkerFactory = Worker, patience: Patience = PATIENCE) -> Loaded:
    """Return all valid parsers, and never raise. A name belongs to the built-in parser, else to the first distribution, else to the first file."""
    started = time.monotonic()
    described = built_in.descriptions()
    attempts = [
        _load_built_in(item, described.get(item.plugin), candidates.readers, worker_factory)
        for item in candidates.parsers
        if item.built_in
    ]
    others = [item for item in candidates.parsers if not item.built_in]
    if others:
        with ThreadPoolExecutor(min(_AT_ONCE, len(others)), thread_name_prefix="plugins") as pool:
            attempts += pool.map(
                lambda item: _load_isolated(item, candidates.readers, worker_factory, patience), others
            )
    parsers, failures = _sorted_out(attempts)
    return Loaded(parsers, (*candidates.failures, *failures), candidates.readers, time.monotonic() - started)


def _load_built_in(
    candidate: Candidate, described: DescribedParser | None, readers: Mapping[str, str], worker_factory: WorkerFactory
) -> _Attempt:
    if described is None:
        return _Attempt(candidate, None, "is not described in built_in.json, which `make docs` writes")
    parser = built_in.imported_when_needed(described, candidate.target)
    asked = {poll.request.reader for poll in parser.polls if isinstance(poll.request, Library)}
    worker = worker_factory(parser.name, readers) if asked.intersection(readers) else None
    return _Attempt(candidate, LoadedParser(parser, candidate.origin, isolated=False, worker=worker))


def _load_isolated(
    candidate: Candidate, readers: Mapping[str, str], worker_factory: WorkerFactory, patience: Patience
) -> _Attempt:
    """Have a first worker describe the parser and close it: a worker for a missing tool would only cost memory."""
    # A node without plugins has nothing to check.
    from telemetry_daemon.plugins.isolated import describe, isolated
    from telemetry_parsers.checks.declaration import violations

    first = worker_factory(candidate.plugin, {})
    try:
        parser = describe(first, candidate.target, patience.describe_seconds)
        broken = violations(parser)
    except WorkerTimeoutError:
        trouble = f"cannot be loaded: its import did not end within {patience.describe_seconds:g} s"
        return _Attempt(candidate, None, trouble)
    except (WorkerError, CodecError) as error:
        return _Attempt(candidate, None, f"cannot be loaded: {str(error).removeprefix(f'{candidate.plugin}: ')}")
    finally:
        first.close()
    if broken:
        return _Attempt(candidate, None, f"breaks the parser protocol: {'; '.join(broken)}")
    own_reader = module_reader(candidate)
    worker = worker_factory(parser.name, {**readers, parser.name: own_reader} if own_reader else readers)
    proxy = isolated(parser, worker, candidate.target, patience.parse_seconds)
    return _Attempt(candidate, LoadedParser(proxy, candidate.origin, isolated=True, worker=worker))


def _sorted_out(attempts: Sequence[_Attempt]) -> tuple[tuple[LoadedParser, ...], tuple[PluginFailure, ...]]:
    """Return the parsers that get their names and metrics, by priority. A built-in name stays reserved even if its parser fails."""
    names = {attempt.candidate.plugin: attempt for attempt in attempts if attempt.candidate.built_in}
    metrics: dict[str, tuple[Metric, str]] = {}
    parsers: list[LoadedParser] = []
    failures: list[PluginFailure] = []
    for attempt in attempts:
        loaded = attempt.loaded
        trouble = attempt.trouble or (_taken(attempt, loaded, names, metrics) if loaded is not None else "")
        if loaded is None or trouble:
            candidate = attempt.candidate
            failures.append(PluginFailure(candidate.plugin, candidate.origin, f"{trouble}: {candidate.remedy}"))
            continue
        names[loaded.parser.name] = attempt
        metrics.update({metric.name: (metric, loaded.origin) for metric in loaded.parser.metrics})
        parsers.append(loaded)
    return tuple(parsers), tuple(failures)


def _taken(
    attempt: _Attempt, loaded: LoadedParser, names: Mapping[str, _Attempt], metrics: Mapping[str, tuple[Metric, str]]
) -> str:
    """Return which of the parser's names is already in use, or an empty text."""
    holder = names.get(loaded.parser.name, attempt)
    if holder is not attempt:
        return f"the name {loaded.parser.name} is taken by {holder.candidate.origin}"
    for metric in loaded.parser.metrics:
        first, origin = metrics.get(metric.name, (metric, ""))
        if first != metric:
            return f"its metric {metric.name} is declared otherwise by {origin}"
    return ""
