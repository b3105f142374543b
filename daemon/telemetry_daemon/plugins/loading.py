"""Loads all parsers: built-in parsers from their descriptions; plugins in a worker, which describes and runs the parser."""

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
class TimeLimits:
    """Time limits for importing a plugin and for parsing a capture. A correct parser reads a mebibyte in less than a second."""

    describe_seconds: float = 10.0
    parse_seconds: float = 5.0


TIME_LIMITS = TimeLimits()
# The number of plugins that are imported in parallel: a plugin that hangs must not block the others.
_PARALLEL_IMPORTS = 4

WorkerFactory = Callable[[str, Mapping[str, str]], Worker]


@dataclass(frozen=True, slots=True)
class LoadedParser:
    """A parser ready for use. `worker` runs a plugin or a library reader; it is None if the parser needs neither."""

    parser: Parser
    origin: str
    isolated: bool
    worker: Worker | None = None


@final
@dataclass(frozen=True, slots=True)
class ParserSet:
    """The loaded parsers, failures, targets of library readers, and loading time. Leaving a `with` block closes all workers."""

    parsers: tuple[LoadedParser, ...] = ()
    failures: tuple[PluginFailure, ...] = ()
    readers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def polls(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the polls of each source."""
        return {item.parser.name: tuple(poll.name for poll in item.parser.polls) for item in self.parsers}

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics that plugins declare, without duplicates."""
        return tuple({metric.name: metric for item in self.parsers for metric in item.parser.metrics}.values())

    def close(self) -> None:
        """Close all workers. Closing a worker takes at most a second, usually a few milliseconds."""
        for item in self.parsers:
            if item.worker is not None:
                item.worker.close()

    def __enter__(self) -> ParserSet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A candidate with its loaded parser, or None and the reason in `error`."""

    candidate: Candidate
    loaded: LoadedParser | None
    error: str = ""


def load(candidates: Candidates, worker_factory: WorkerFactory = Worker, limits: TimeLimits = TIME_LIMITS) -> ParserSet:
    """Load all valid parsers; never raises. If names collide, built-in parsers win over distributions, and these over files."""
    began = time.monotonic()
    described = built_in.descriptions()
    attempts = [
        _load_built_in(item, described.get(item.plugin), candidates.readers, worker_factory)
        for item in candidates.parsers
        if item.built_in
    ]
    plugins = [item for item in candidates.parsers if not item.built_in]
    if plugins:
        with ThreadPoolExecutor(min(_PARALLEL_IMPORTS, len(plugins)), thread_name_prefix="plugins") as pool:
            attempts += pool.map(lambda item: _load_isolated(item, candidates.readers, worker_factory, limits), plugins)
    parsers, failures = _without_collisions(attempts)
    return ParserSet(parsers, (*candidates.failures, *failures), candidates.readers, time.monotonic() - began)


def _load_built_in(
    candidate: Candidate, described: DescribedParser | None, readers: Mapping[str, str], worker_factory: WorkerFactory
) -> _Attempt:
    if described is None:
        return _Attempt(candidate, None, "is not described in built_in.json, which `make docs` writes")
    parser = built_in.lazily_imported(described, candidate.target)
    requested = {poll.request.reader for poll in parser.polls if isinstance(poll.request, Library)}
    worker = worker_factory(parser.name, readers) if requested.intersection(readers) else None
    return _Attempt(candidate, LoadedParser(parser, candidate.origin, isolated=False, worker=worker))


def _load_isolated(
    candidate: Candidate, readers: Mapping[str, str], worker_factory: WorkerFactory, limits: TimeLimits
) -> _Attempt:
    """Load a plugin. A temporary worker describes the parser; the worker for parsing starts at the first capture."""
    # Imported only if there are plugins.
    from telemetry_daemon.plugins.isolated import describe, isolated
    from telemetry_parsers.checks.declaration import violations

    temporary = worker_factory(candidate.plugin, {})
    try:
        parser = describe(temporary, candidate.target, limits.describe_seconds)
        errors = violations(parser)
    except WorkerTimeoutError:
        error = f"cannot be loaded: its import did not finish within {limits.describe_seconds:g} s"
        return _Attempt(candidate, None, error)
    except (WorkerError, CodecError) as raised:
        return _Attempt(candidate, None, f"cannot be loaded: {str(raised).removeprefix(f'{candidate.plugin}: ')}")
    finally:
        temporary.close()
    if errors:
        return _Attempt(candidate, None, f"breaks the parser protocol: {'; '.join(errors)}")
    reader = module_reader(candidate)
    worker = worker_factory(parser.name, {**readers, parser.name: reader} if reader else readers)
    proxy = isolated(parser, worker, candidate.target, limits.parse_seconds)
    return _Attempt(candidate, LoadedParser(proxy, candidate.origin, isolated=True, worker=worker))


def _without_collisions(attempts: Sequence[_Attempt]) -> tuple[tuple[LoadedParser, ...], tuple[PluginFailure, ...]]:
    """Return the parsers whose names are free, and the failures. A built-in name stays reserved even if its parser fails."""
    names = {attempt.candidate.plugin: attempt for attempt in attempts if attempt.candidate.built_in}
    metrics: dict[str, tuple[Metric, str]] = {}
    parsers: list[LoadedParser] = []
    failures: list[PluginFailure] = []
    for attempt in attempts:
        loaded = attempt.loaded
        error = attempt.error or (_collision(attempt, loaded, names, metrics) if loaded is not None else "")
        if loaded is None or error:
            candidate = attempt.candidate
            failures.append(PluginFailure(candidate.plugin, candidate.origin, f"{error}: {candidate.remedy}"))
            continue
        names[loaded.parser.name] = attempt
        metrics.update({metric.name: (metric, loaded.origin) for metric in loaded.parser.metrics})
        parsers.append(loaded)
    return tuple(parsers), tuple(failures)


def _collision(
    attempt: _Attempt, loaded: LoadedParser, names: Mapping[str, _Attempt], metrics: Mapping[str, tuple[Metric, str]]
) -> str:
    """Return which name of the parser or of its metrics is already used, or an empty text."""
    holder = names.get(loaded.parser.name, attempt)
    if holder is not attempt:
        return f"the name {loaded.parser.name} is already used by {holder.candidate.origin}"
    for metric in loaded.parser.metrics:
        first, origin = metrics.get(metric.name, (metric, ""))
        if first != metric:
            return f"its metric {metric.name} is declared differently by {origin}"
    return ""
