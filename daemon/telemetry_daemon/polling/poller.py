"""Runs each poll when it is due, and stores its outcome."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, JobEvent
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from telemetry_daemon.polling import poll_intervals
from telemetry_daemon.polling.early_polls import EarlyPolls
from telemetry_daemon.polling.log_limits import LogLimits
from telemetry_daemon.polling.missing import SuspendedPolls
from telemetry_daemon.polling.poll_intervals import FastPollNeed, Releases
from telemetry_daemon.polling.source import PollOutcome, Source
from telemetry_daemon.polling.trigger import MonotonicTrigger, SingleThreadExecutor, phase_of, realign_jobs
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_daemon.state.store import Store
from telemetry_daemon.state.store_state import AcceptedAttempt
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_daemon.times import MIN_SLEEP_SECONDS, Clock
from telemetry_parsers.contract import COUNTERS
from telemetry_parsers.model import Command, Failure, Poll, State

log = logging.getLogger(__name__)

MAX_STOP_SECONDS = 1.5
MIN_COUNTERS_INTERVAL_SECONDS = 1.0


class Poller:
    """Runs the polls of all sources and keeps the store up to date."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        # Replacing and releasing a source must not overlap.
        self._change_lock = threading.Lock()
        self._sources: dict[str, Source] = {}
        self._start_times: dict[tuple[str, str], float] = {}
        self._needs_by_source: dict[str, FastPollNeed] = {}
        self._early_polls = EarlyPolls(store, clock)
        self._releases = Releases(clock.monotonic)
        self._change_log = ChangeLog()
        self._log_limits = LogLimits(clock.monotonic)
        self._scheduler = BackgroundScheduler(
            timezone=timezone.utc,
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._scheduler.add_listener(self._on_job_event, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_ERROR)
        self._suspended_polls = SuspendedPolls(self._scheduler, clock.monotonic, self._poll_unless_missing)
        self._counters_due_at = -math.inf

    def start(self, sources: Iterable[Source]) -> None:
        """Start polling these sources."""
        sources = list(sources)
        self._store.await_inventories(
            {
                (source.name, poll.name): source.parser.vendor
                for source in sources
                for poll in source.parser.polls
                if poll.lists_devices and not source.settings.disabled_reason(poll)
            }
        )
        for source in sources:
            self.add(source)
        self._scheduler.start()

    def add(self, source: Source) -> None:
        """Start polling a source."""
        parser = source.parser
        self._store.add_source(SourceFacts.from_parser(parser), parser.metrics)
        with self._lock:
            self._sources[source.name] = source
        self._scheduler.add_executor(SingleThreadExecutor(), alias=source.name)
        for poll in parser.polls:
            self._scheduler.add_job(
                self._run_if_due,
                args=(source.name, poll),
                trigger=self._create_trigger(source, poll),
                id=_job_id(source.name, poll.name),
                executor=source.name,
                next_run_time=datetime.now(timezone.utc),
            )

    def remove(self, name: str) -> None:
        """Stop polling a source, end its processes and drop its readings."""
        with self._lock:
            source = self._sources.pop(name, None)
        if source is None:
            return
        for poll in source.parser.polls:
            self._suspended_polls.forget(name, poll)
            self._scheduler.remove_job(_job_id(name, poll.name))
            self._start_times.pop((name, poll.name), None)
        self._early_polls.forget(source)
        source.close()
        self._scheduler.remove_executor(name, shutdown=False)
        self._store.remove_source(name)

    def replace_source(self, name: str, create_source: Callable[[], Source]) -> None:
        """Replace a source with the new source that `create_source` returns."""
        with self._change_lock:
            self.remove(name)
            self.add(create_source())

    def release(self, name: str, create_source: Callable[[], Source], duration_seconds: float) -> tuple[int, ...]:
        """Release a source, and return the PIDs that may still use a device."""
        with self._change_lock:
            return self._release(self.sources()[name], create_source(), duration_seconds)

    def _release(self, previous: Source, source: Source, duration_seconds: float) -> tuple[int, ...]:
        with self._lock:
            self._sources[source.name] = source
            self._releases.release(source.name, duration_seconds)
        previous.close()
        failure = Failure("released", None, self._releases.release_text(source.name))
        for poll in source.parser.polls:
            self._process_outcome(source, poll, source.outcome_without_poll(poll, failure))
        return previous.leftover_pids()

    def resume(self, name: str) -> bool:
        """Poll a released source again, and return whether it was released."""
        with self._change_lock:
            source = self.sources()[name]
            was_released = self._releases.resume(name)
        for poll in source.parser.polls if was_released else ():
            self._poll_soon(name, poll)
        return was_released

    def run_every(self, name: str, interval_seconds: float, function: Callable[[], None]) -> None:
        """Run a function at this interval, on a separate thread."""
        alias = f"{name} (background task)"  # no source can have this name
        self._scheduler.add_executor(SingleThreadExecutor(), alias=alias)
        self._scheduler.add_job(
            function, trigger=MonotonicTrigger(interval_seconds, 0.0, self._clock.monotonic), id=name, executor=alias
        )

    def is_alive(self) -> bool:
        """Return whether the scheduler's thread is alive."""
        return any(thread.name == "APScheduler" and thread.is_alive() for thread in threading.enumerate())

    def sources(self) -> dict[str, Source]:
        """Return the polled sources by name."""
        with self._lock:
            return dict(self._sources)

    def poll_now(self, name: str) -> int:
        """Run all polls of a source at once, and return their count."""
        source = self.sources().get(name)
        polls = source.parser.polls if source is not None else ()
        for poll in polls:
            self._poll_soon(name, poll)
        return len(polls)

    def read_counters(self) -> None:
        """Poll the expensive counters of all sources, at most once a second."""
        now = self._clock.monotonic()
        with self._lock:
            if self._counters_due_at > now:
                return  # a poll is already pending
            self._counters_due_at = max(now, self._counters_due_at + MIN_COUNTERS_INTERVAL_SECONDS)
            delay = self._counters_due_at - now
        for name, source in self.sources().items():
            for poll in source.parser.polls:
                health = self._store.health_of((name, poll.name)) if poll.name == COUNTERS else None
                if health is not None and health.state == "ok":
                    self._poll_soon(name, poll, delay)

    def begin_round(self, *, poll_now: bool) -> Callable[[], bool]:
        """Return a function that checks whether each poll has run or timed out. If `poll_now`, run all polls at once."""
        sources = self.sources().values()
        end_time = self._clock.monotonic() + poll_intervals.max_round_seconds(
            (source.parser, source.settings) for source in sources
        )
        previous_times = self._attempt_times() if poll_now else {}
        for source in sources if poll_now else ():
            self.poll_now(source.name)

        def has_finished() -> bool:
            times = self._attempt_times().items()
            has_ended = all(time is not None and time != previous_times.get(key) for key, time in times)
            return has_ended or self._clock.monotonic() >= end_time

        return has_finished

    def realign(self) -> None:
        """Reschedule all polls after the wall clock was set or the machine was suspended."""
        realign_jobs(self._scheduler)
        for name, source in self.sources().items():
            for poll in source.parser.polls:
                health = self._store.health_of((name, poll.name))
                if health is not None and health.expires <= self._clock.monotonic():
                    self._poll_soon(name, poll)

    def stop(self) -> None:
        """Stop all polls and close all sources within about a second."""
        if self._scheduler.running:  # a signal may arrive before the scheduler runs
            self._scheduler.shutdown(wait=False)
        threads = [threading.Thread(target=source.close, daemon=True) for source in self.sources().values()]
        for thread in threads:
            thread.start()
        deadline = self._clock.monotonic() + MAX_STOP_SECONDS
        for thread in threads:
            thread.join(timeout=max(0.0, deadline - self._clock.monotonic()))

    def _attempt_times(self) -> dict[tuple[str, str], float | None]:
        keys = ((name, poll.name) for name, source in self.sources().items() for poll in source.parser.polls)
        health_by_key = {key: self._store.health_of(key) for key in keys}
        return {key: health.attempted_monotonic if health else None for key, health in health_by_key.items()}

    def _create_trigger(self, source: Source, poll: Poll) -> MonotonicTrigger:
        interval = poll_intervals.base_interval(poll, source.settings)
        return MonotonicTrigger(interval, phase_of(source.name, poll.name, interval), self._clock.monotonic)

    def _run_if_due(self, name: str, poll: Poll) -> None:
        source = self.sources().get(name)
        if source is None:
            return  # the source was removed after the job became due
        key = (name, poll.name)
        if not self._needs_by_source.get(name, FastPollNeed()).is_needed:
            # If a cheaper source has failed, this source is needed again.
            self._update_need(source)
        health = self._store.health_of(key)
        need = self._needs_by_source.get(name, FastPollNeed())
        interval = poll_intervals.current_interval(poll, source.settings, health.state if health else None, need)
        now = self._clock.monotonic()
        if not self._is_due(key, interval, poll_intervals.base_interval(poll, source.settings), now):
            return
        self._start_times[key] = now
        failure = self._release_failure(name)
        outcome = source.outcome_without_poll(poll, failure) if failure else self._run_poll(source, poll)
        self._process_outcome(source, poll, outcome)

    def _poll_unless_missing(self, name: str, poll: Poll) -> None:
        source = self.sources().get(name)
        if source is None or self._release_failure(name):
            return  # the source was removed or released after this check was scheduled
        outcome = source.outcome_if_missing(poll)
        if outcome is None:
            self._poll_soon(name, poll)
        else:
            self._process_outcome(source, poll, outcome)

    def _run_poll(self, source: Source, poll: Poll) -> PollOutcome:
        """Run a poll. If the machine was suspended meanwhile, run it again."""
        slept = self._clock.suspended_seconds()
        outcome = source.run_poll(poll, self._targets(source, poll))
        if self._clock.suspended_seconds() - slept < MIN_SLEEP_SECONDS:
            return outcome
        return source.run_poll(poll, self._targets(source, poll))

    def _targets(self, source: Source, poll: Poll) -> Targets:
        is_per_device = isinstance(poll.request, Command) and poll.request.per is not None
        return self._store.targets(source.name) if is_per_device or not source.parser.vendor else Targets()

    def _process_outcome(self, source: Source, poll: Poll, outcome: PollOutcome) -> None:
        need = self._needs_by_source.get(source.name, FastPollNeed())
        interval = poll_intervals.current_interval(poll, source.settings, outcome.result.state, need)
        with self._lock:  # the source must not be released or removed between this check and `put`
            if self._sources.get(source.name) is not source:
                return
            attempt = self._store.put(source.name, poll, outcome.capture, outcome.report, outcome.result, interval)
            self._suspend_or_resume(source, poll, outcome.result.state)
        self._log_outcome(source, poll, outcome.result, attempt)
        if outcome.result.state == "ok":
            self._update_need(source)
        if attempt.needs_counters:
            self.read_counters()
        outcome = replace(outcome, report=attempt.report)
        sources = list(self.sources().values())
        for name, early_poll in self._early_polls.polls_after(source, poll, outcome, attempt.events, sources):
            self._poll_soon(name, early_poll)

    def _suspend_or_resume(self, source: Source, poll: Poll, state: State) -> None:
        job_id = _job_id(source.name, poll.name)
        if state == "missing":
            # The normal interval is used here, because a cheaper source may fail.
            interval = poll_intervals.current_interval(poll, source.settings, state, FastPollNeed())
            self._suspended_polls.suspend(source.name, poll, job_id, interval)
        elif self._suspended_polls.is_suspended(source.name, poll):
            self._suspended_polls.forget(source.name, poll)
            with suppress(JobLookupError):  # the scheduler was shut down
                self._scheduler.resume_job(job_id)

    def _is_due(self, key: tuple[str, str], interval: float, base_interval: float, now: float) -> bool:
        """Return whether a poll is due. The poll's job may run more often than the poll."""
        last_start = self._start_times.get(key)
        return last_start is None or interval <= base_interval or now - last_start >= interval - base_interval / 2

    def _update_need(self, source: Source) -> None:
        """Poll an expensive tool rarely while cheaper sources report all core readings."""
        if source.settings.mode != "auto" or not poll_intervals.runs_tool(source.parser.polls):
            return
        need = self._needs_by_source.get(source.name, FastPollNeed())
        vendor = source.parser.vendor
        has_others = any(other.parser.vendor == vendor for other in self.sources().values() if other is not source)
        is_covered = has_others and poll_intervals.is_covered(self._store.snapshot(), source.name, vendor)
        new_need = poll_intervals.updated_need(
            need, source.settings.mode, is_covered=is_covered, now=self._clock.monotonic()
        )
        self._needs_by_source[source.name] = new_need
        if new_need.is_needed != need.is_needed:
            rare_text = "polled rarely, because cheaper sources report all core readings"
            message = "polled at its normal interval" if new_need.is_needed else rare_text
            log.info(message, extra={"source": source.name})

    def _release_failure(self, name: str) -> Failure | None:
        text = self._releases.release_text(name)
        return Failure("released", None, text) if text else None

    def _poll_soon(self, name: str, poll: Poll, delay_seconds: float = 0.0) -> None:
        self._start_times.pop((name, poll.name), None)
        self._suspended_polls.forget(name, poll)
        due = datetime.now(timezone.utc) + timedelta(seconds=delay_seconds)
        with suppress(JobLookupError):  # the source was removed in the meantime
            self._scheduler.modify_job(_job_id(name, poll.name), next_run_time=due)

    def _log_outcome(self, source: Source, poll: Poll, result: PollResult, attempt: AcceptedAttempt) -> None:
        fields = {"source": source.name, "poll": poll.name, "state": result.state}
        if self._change_log.changed((source.name, poll.name), (result.state, result.reason)):
            level = self._log_level(source.name, poll, result.state)
            log.log(level, "source changed state", extra={**fields, "reason": result.reason, "detail": result.detail})
        for event in attempt.events:
            level = logging.WARNING if event.kind == "lost" else logging.INFO
            if message := self._log_limits.event_log_message(source, event):
                log.log(level, message, extra={"vendor": event.vendor, "device": event.device, "id": event.id})
        for problem in attempt.problems:
            if message := self._log_limits.problem_log_message(source, poll, problem):
                log.warning(message, extra={**fields, "where": problem.where, "text": problem.text})

    def _log_level(self, source: str, poll: Poll, state: State) -> int:
        is_first = self._change_log.changed(source, state)
        if state in ("failed", "stuck") or (state == "not_supported" and poll.lists_devices):
            return logging.WARNING
        return logging.DEBUG if state == "disabled" or (state == "missing" and not is_first) else logging.INFO

    def _on_job_event(self, event: JobEvent) -> None:
        source, _, poll = event.job_id.partition("/")
        if event.code == EVENT_JOB_MAX_INSTANCES:
            self._store.count_overrun((source, poll))
        elif event.code == EVENT_JOB_ERROR:
            log.error("a poll raised an exception", extra={"source": source, "poll": poll}, exc_info=event.exception)


def _job_id(source: str, poll: str) -> str:
    return f"{source}/{poll}"
