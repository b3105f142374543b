"""Loads built-in parsers from their descriptions, and plugins in workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import final

from telemetry_daemon.plugins import built_in
from telemetry_daemon.plugins.candidates import Candidate, Candidates, PluginFailure, reader_target_of
from telemetry_daemon.processes.worker import Worker, WorkerError, WorkerTimeoutError
from telemetry_parsers.codec.captures import CodecError, DescribedParser
from telemetry_parsers.contract import Parser
from telemetry_parsers.dataclass import dataclass, field
from telemetry_parsers.model import Library, Metric


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits for importing a plugin and for parsing a capture."""

    describe_seconds: float = 10.0
    parse_seconds: float = 5.0


TIME_LIMITS = TimeLimits()
# A plugin that hangs must not block the import of the others.
_PARALLEL_IMPORTS = 4

WorkerFactory = Callable[[str, Mapping[str, str]], Worker]


@dataclass(frozen=True, slots=True)
class LoadedParser:
    """A parser ready for use, with its worker if it needs one."""

    parser: Parser
    origin: str
    is_isolated: bool
    worker: Worker | None = None


@final
@dataclass(frozen=True, slots=True)
class ParserSet:
    """The loaded parsers and the failures. A `with` block closes all workers."""

    parsers: tuple[LoadedParser, ...] = ()
    failures: tuple[PluginFailure, ...] = ()
    readers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def polls(self) -> dict[str, tuple[str, ...]]:
        """Map each source to the names of its polls."""
        return {loaded.parser.name: tuple(poll.name for poll in loaded.parser.polls) for loaded in self.parsers}

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics that plugins declare, without duplicates."""
        return tuple({metric.name: metric for loaded in self.parsers for metric in loaded.parser.metrics}.values())

    def close(self) -> None:
        """Close all workers, within a second each."""
        for loaded in self.parsers:
            if loaded.worker is not None:
                loaded.worker.close()

    def __enter__(self) -> ParserSet:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Result:
    candidate: Candidate
    loaded: LoadedParser | None
    error: str = ""


def load_parsers(
    candidates: Candidates, worker_factory: WorkerFactory = Worker, limits: TimeLimits = TIME_LIMITS
) -> ParserSet:
    """Load all valid parsers. Never raises."""
    start_time = time.monotonic()
    descriptions = built_in.read_descriptions()
    results = [
        _load_built_in(candidate, descriptions.get(candidate.plugin), candidates.readers, worker_factory)
        for candidate in candidates.parsers
        if candidate.is_built_in
    ]
    plugins = [candidate for candidate in candidates.parsers if not candidate.is_built_in]
    if plugins:
        with ThreadPoolExecutor(min(_PARALLEL_IMPORTS, len(plugins)), thread_name_prefix="plugins") as pool:
            results += pool.map(
                lambda plugin: _load_isolated(plugin, candidates.readers, worker_factory, limits), plugins
            )
    parsers, failures = _reject_collisions(results)
    return ParserSet(parsers, (*candidates.failures, *failures), candidates.readers, time.monotonic() - start_time)


def _load_built_in(
    candidate: Candidate, description: DescribedParser | None, readers: Mapping[str, str], worker_factory: WorkerFactory
) -> _Result:
    if description is None:
        return _Result(candidate, None, "is not described in built_in.json, which `make docs` writes")
    parser = built_in.lazy_parser(description, candidate.target)
    requested_readers = {poll.request.reader for poll in parser.polls if isinstance(poll.request, Library)}
    worker = worker_factory(parser.name, readers) if requested_readers.intersection(readers) else None
    return _Result(candidate, LoadedParser(parser, candidate.origin, is_isolated=False, worker=worker))


def _load_isolated(
    candidate: Candidate, readers: Mapping[str, str], worker_factory: WorkerFactory, limits: TimeLimits
) -> _Result:
    """Return a plugin that runs in a worker process, or the reason why it cannot be loaded."""
    # Only nodes with plugins need these modules.
    from telemetry_daemon.plugins.isolated import describe_parser, isolated_parser
    from telemetry_parsers.checks.declaration import violations

    temporary_worker = worker_factory(candidate.plugin, {})
    try:
        parser = describe_parser(temporary_worker, candidate.target, limits.describe_seconds)
        errors = violations(parser)
    except WorkerTimeoutError:
        error = f"cannot be loaded: its import did not finish within {limits.describe_seconds:g} s"
        return _Result(candidate, None, error)
    except (WorkerError, CodecError) as raised:
        return _Result(candidate, None, f"cannot be loaded: {str(raised).removeprefix(f'{candidate.plugin}: ')}")
    finally:
        temporary_worker.close()
    if errors:
        return _Result(candidate, None, f"breaks the parser protocol: {'; '.join(errors)}")
    reader = reader_target_of(candidate)
    worker = worker_factory(parser.name, {**readers, parser.name: reader} if reader else readers)
    proxy = isolated_parser(parser, worker, candidate.target, limits.parse_seconds)
    return _Result(candidate, LoadedParser(proxy, candidate.origin, is_isolated=True, worker=worker))


def _reject_collisions(results: Sequence[_Result]) -> tuple[tuple[LoadedParser, ...], tuple[PluginFailure, ...]]:
    """Return the usable parsers and the failures. Of two colliding parsers, the second fails."""
    results_by_name = {result.candidate.plugin: result for result in results if result.candidate.is_built_in}
    metrics_by_name: dict[str, tuple[Metric, str]] = {}
    parsers: list[LoadedParser] = []
    failures: list[PluginFailure] = []
    for result in results:
        loaded = result.loaded
        error = result.error
        if loaded is not None and not error:
            error = _find_collision(result, loaded.parser, results_by_name, metrics_by_name)
        if loaded is None or error:
            candidate = result.candidate
            failures.append(PluginFailure(candidate.plugin, candidate.origin, f"{error}: {candidate.remedy}"))
            continue
        results_by_name[loaded.parser.name] = result
        metrics_by_name.update({metric.name: (metric, loaded.origin) for metric in loaded.parser.metrics})
        parsers.append(loaded)
    return tuple(parsers), tuple(failures)


def _find_collision(
    result: _Result, parser: Parser, results_by_name: Mapping[str, _Result], metrics: Mapping[str, tuple[Metric, str]]
) -> str:
    """Return why the parser collides with an earlier one, or "" if it does not."""
    earlier = results_by_name.get(parser.name, result)
    if earlier is not result:
        return f"the name {parser.name} is already used by {earlier.candidate.origin}"
    for metric in parser.metrics:
        declared, origin = metrics.get(metric.name, (metric, ""))
        if declared != metric:
            return f"its metric {metric.name} is declared differently by {origin}"
    return ""
