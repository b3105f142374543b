"""Runs each poll as a job: poll when due, store the answer, and log each change of state once."""

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
from telemetry_daemon.polling.log_limits import News
from telemetry_daemon.polling.missing import MissingPolls
from telemetry_daemon.polling.out_of_turn import OutOfTurn
from telemetry_daemon.polling.poll_intervals import Need, Releases
from telemetry_daemon.polling.source import Answer, Source
from telemetry_daemon.polling.trigger import OneThread, SteadyTrigger, respread, spread
from telemetry_daemon.readers.base import Targets
from telemetry_daemon.state.health import PollResult, SourceFacts
from telemetry_daemon.state.store import SHORTEST_SLEEP_SECONDS, Store
from telemetry_daemon.state.store_state import Accepted
from telemetry_daemon.terminal.log import ChangeLog
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import COUNTERS
from telemetry_parsers.model import Command, Failure, Poll, State

log = logging.getLogger(__name__)

LONGEST_STOP_SECONDS = 1.5
COUNTERS_APART_SECONDS = 1.0


class Poller:
    """Runs the polls of all sources and keeps the store up to date."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        # Locked while a source is replaced or released: one change at a time.
        self._changing = threading.Lock()
        self._sources: dict[str, Source] = {}
        self._started: dict[tuple[str, str], float] = {}
        self._needs: dict[str, Need] = {}
        self._extra_polls = OutOfTurn(store, clock)
        self._releases = Releases(clock.monotonic)
        self._changes = ChangeLog()
        self._news = News(clock.monotonic)
        self._scheduler = BackgroundScheduler(
            timezone=timezone.utc,
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._scheduler.add_listener(self._on_event, EVENT_JOB_MAX_INSTANCES | EVENT_JOB_ERROR)
        self._missing = MissingPolls(self._scheduler, clock.monotonic, self._look_for)
        self._counters_due = -math.inf
        self.finished_polls = 0

    def start(self, sources: Iterable[Source]) -> None:
        """Start polling these sources."""
        sources = list(sources)
        self._store.await_first(
            {
                (source.name, poll.name): source.parser.vendor
                for source in sources
                for poll in source.parser.polls
                if poll.lists_devices and not source.settings.why_off(poll)
            }
        )
        for source in sources:
            self.add(source)
        self._scheduler.start()

    def add(self, source: Source) -> None:
        """Start polling a source."""
        parser = source.parser
        self._store.add_source(SourceFacts.of(parser), parser.metrics)
        with self._lock:
            self._sources[source.name] = source
        self._scheduler.add_executor(OneThread(), alias=source.name)
        for poll in parser.polls:
            self._scheduler.add_job(
                self._run,
                args=(source.name, poll),
                trigger=self._trigger(source, poll),
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
            self._missing.forget(name, poll)
            self._scheduler.remove_job(_job_id(name, poll.name))
            self._started.pop((name, poll.name), None)
        self._extra_polls.forget(source)
        source.close()
        self._scheduler.remove_executor(name, shutdown=False)
        self._store.remove_source(name)

    def renew(self, name: str, make: Callable[[], Source]) -> None:
        """Remove a source, and add it again with other settings. Nothing of the old source remains."""
        with self._changing:
            self.remove(name)
            self.add(make())

    def release(self, name: str, make: Callable[[], Source], seconds: float) -> tuple[int, ...]:
        """Release a source's tool or library for a time. Return the processes that did not exit and may use the device."""
        with self._changing:
            return self._release(self.sources()[name], make(), seconds)

    def _release(self, previous: Source, source: Source, seconds: float) -> tuple[int, ...]:
        with self._lock:
            self._sources[source.name] = source
            self._releases.release(source.name, seconds)
        previous.close()
        released = Failure("released", None, self._releases.text_of(source.name))
        for poll in source.parser.polls:
            self._accept(source, poll, source.not_asked(poll, released))
        return previous.left_behind()

    def resume(self, name: str) -> bool:
        """Poll a released source again at once. Return False if it was not released."""
        with self._changing:
            source = self.sources()[name]
            was_released = self._releases.resume(name)
        for poll in source.parser.polls if was_released else ():
            self._ask_now(name, poll)
        return was_released

    def every(self, name: str, seconds: float, chore: Callable[[], None]) -> None:
        """Run a chore that is not a poll at this interval, on a separate thread."""
        alias = f"{name} (chore)"  # no source can have this name
        self._scheduler.add_executor(OneThread(), alias=alias)
        self._scheduler.add_job(
            chore, trigger=SteadyTrigger(seconds, 0.0, self._clock.monotonic), id=name, executor=alias
        )

    def is_alive(self) -> bool:
        """Return whether the scheduler's thread is alive."""
        return any(thread.name == "APScheduler" and thread.is_alive() for thread in threading.enumerate())

    def sources(self) -> dict[str, Source]:
        """Return the polled sources by name."""
        with self._lock:
            return dict(self._sources)

    def ask(self, name: str) -> int:
        """Run the polls of a source at once, if the source exists, and return how many."""
        source = self.sources().get(name)
        polls = source.parser.polls if source is not None else ()
        for poll in polls:
            self._ask_now(name, poll)
        return len(polls)

    def read_counters(self) -> None:
        """Read the expensive counters of all sources once more: at once, but at most once a second."""
        now = self._clock.monotonic()
        with self._lock:
            if self._counters_due > now:
                return  # the pending read is enough
            self._counters_due = max(now, self._counters_due + COUNTERS_APART_SECONDS)
            delay = self._counters_due - now
        for name, source in self.sources().items():
            for poll in source.parser.polls:
                health = self._store.health_of((name, poll.name)) if poll.name == COUNTERS else None
                if health is not None and health.state == "ok":
                    self._ask_now(name, poll, delay)

    def round(self, *, ask: bool) -> Callable[[], bool]:
        """Return a function that reports whether every poll has ended or exceeded its time. If `ask`, run all polls now."""
        sources = self.sources().values()
        until = self._clock.monotonic() + poll_intervals.round_seconds(
            (source.parser, source.settings) for source in sources
        )
        attempts = self._attempts() if ask else {}
        for source in sources if ask else ():
            self.ask(source.name)

        def has_ended() -> bool:
            ended = (at is not None and at != attempts.get(key) for key, at in self._attempts().items())
            return all(ended) or self._clock.monotonic() >= until

        return has_ended

    def spread_again(self) -> None:
        """Realign all polls after the wall clock was set (also by a wakeup of the machine); run expired polls at once."""
        respread(self._scheduler)
        for name, source in self.sources().items():
            for poll in source.parser.polls:
                health = self._store.health_of((name, poll.name))
                if health is not None and health.expires <= self._clock.monotonic():
                    self._ask_now(name, poll)

    def stop(self) -> None:
        """Stop everything; return within about a second."""
        if self._scheduler.running:  # a signal may have arrived during the start
            self._scheduler.shutdown(wait=False)
        threads = [threading.Thread(target=source.close, daemon=True) for source in self.sources().values()]
        for thread in threads:
            thread.start()
        end = self._clock.monotonic() + LONGEST_STOP_SECONDS
        for thread in threads:
            thread.join(timeout=max(0.0, end - self._clock.monotonic()))

    def _attempts(self) -> dict[tuple[str, str], float | None]:
        keys = ((name, poll.name) for name, source in self.sources().items() for poll in source.parser.polls)
        healths = {key: self._store.health_of(key) for key in keys}
        return {key: health.attempted_monotonic if health else None for key, health in healths.items()}

    def _trigger(self, source: Source, poll: Poll) -> SteadyTrigger:
        interval = poll_intervals.base_interval(poll, source.settings)
        return SteadyTrigger(interval, spread(source.name, poll.name, interval), self._clock.monotonic)

    def _run(self, name: str, poll: Poll) -> None:
        source = self.sources().get(name)
        if source is None:
            return  # removed since the job was due
        key = (name, poll.name)
        if not self._needs.get(name, Need()).needed:
            # The cheaper source may have failed meanwhile. This source's old answer must not replace its readings.
            self._reconsider(source)
        health = self._store.health_of(key)
        need = self._needs.get(name, Need())
        interval = poll_intervals.interval_now(poll, source.settings, health.state if health else None, need)
        now = self._clock.monotonic()
        if not self._is_due(key, interval, poll_intervals.base_interval(poll, source.settings), now):
            return
        self._started[key] = now
        released = self._released(name)
        self._accept(source, poll, source.not_asked(poll, released) if released else self._answer(source, poll))

    def _look_for(self, name: str, poll: Poll) -> None:
        """Look once for a poll's tool, library or files. If they may exist, run the poll on its source's thread."""
        source = self.sources().get(name)
        if source is None or self._released(name):
            return  # removed or released since this look was scheduled
        answer = source.look(poll)
        if answer is None:
            self._ask_now(name, poll)
        else:
            self._accept(source, poll, answer)

    def _answer(self, source: Source, poll: Poll) -> Answer:
        """Return the answer to a poll. Repeat the poll if the machine slept meanwhile: parts of the answer may be old."""
        slept = self._clock.slept()
        answer = source.ask(poll, self._targets(source, poll))
        if self._clock.slept() - slept < SHORTEST_SLEEP_SECONDS:
            return answer
        return source.ask(poll, self._targets(source, poll))

    def _targets(self, source: Source, poll: Poll) -> Targets:
        """Return the devices that a poll is repeated for, or the processes for a source without a vendor; else neither."""
        is_repeated = isinstance(poll.request, Command) and poll.request.per is not None
        return self._store.targets(source.name) if is_repeated or not source.parser.vendor else Targets()

    def _accept(self, source: Source, poll: Poll, answer: Answer) -> None:
        need = self._needs.get(source.name, Need())
        interval = poll_intervals.interval_now(poll, source.settings, answer.result.state, need)
        with self._lock:  # else the source could be released or removed between this check and `put`
            if self._sources.get(source.name) is not source:
                return
            accepted = self._store.put(source.name, poll, answer.capture, answer.report, answer.result, interval)
            self._suspend_or_resume(source, poll, answer.result.state)
        self.finished_polls += 1
        self._log(source, poll, answer.result, accepted)
        if answer.result.state == "ok":
            self._reconsider(source)
        if accepted.needs_counters:
            self.read_counters()
        answer = replace(answer, report=accepted.report)
        for name, other in self._extra_polls.after(source, poll, answer, accepted.events, self.sources().values()):
            self._ask_now(name, other)

    def _suspend_or_resume(self, source: Source, poll: Poll, state: State) -> None:
        """Suspend the poll's job if its tool, library or files are missing, else resume the job."""
        job_id = _job_id(source.name, poll.name)
        if state == "missing":
            # Even if the poll is rarely needed now: a cheaper source may fail.
            interval = poll_intervals.interval_now(poll, source.settings, state, Need())
            self._missing.suspend(source.name, poll, job_id, interval)
        elif self._missing.is_suspended(source.name, poll):
            self._missing.forget(source.name, poll)
            with suppress(JobLookupError):  # the scheduler has ended
                self._scheduler.resume_job(job_id)

    def _is_due(self, key: tuple[str, str], interval: float, base: float, now: float) -> bool:
        """Return whether a poll is due now. A slowed-down poll skips most runs of its job."""
        last = self._started.get(key)
        return last is None or interval <= base or now - last >= interval - base / 2

    def _reconsider(self, source: Source) -> None:
        """Poll an expensive tool rarely while cheaper sources report all core readings, else at its own interval."""
        if source.settings.mode != "auto" or not poll_intervals.is_expensive(source.parser.polls):
            return
        need = self._needs.get(source.name, Need())
        vendor = source.parser.vendor
        is_alone = not any(other.parser.vendor == vendor for other in self.sources().values() if other is not source)
        covered = not is_alone and poll_intervals.is_covered(self._store.snapshot(), source.name, vendor)
        changed = poll_intervals.reconsider(need, source.settings.mode, covered=covered, now=self._clock.monotonic())
        self._needs[source.name] = changed
        if changed.needed != need.needed:
            text = (
                "polled at its own interval"
                if changed.needed
                else "polled rarely: a cheaper source reports its core readings"
            )
            log.info(text, extra={"source": source.name})

    def _released(self, name: str) -> Failure | None:
        text = self._releases.text_of(name)
        return Failure("released", None, text) if text else None

    def _ask_now(self, name: str, poll: Poll, delay_seconds: float = 0.0) -> None:
        self._started.pop((name, poll.name), None)
        self._missing.forget(name, poll)
        due = datetime.now(timezone.utc) + timedelta(seconds=delay_seconds)
        with suppress(JobLookupError):  # the source was removed meanwhile
            self._scheduler.modify_job(_job_id(name, poll.name), next_run_time=due)

    def _log(self, source: Source, poll: Poll, result: PollResult, accepted: Accepted) -> None:
        facts = {"source": source.name, "poll": poll.name, "state": result.state}
        if self._changes.changed((source.name, poll.name), (result.state, result.reason)):
            level = self._level(source.name, poll, result.state)
            log.log(level, "source changed state", extra={**facts, "reason": result.reason, "detail": result.detail})
        for event in accepted.events:
            level = logging.WARNING if event.what == "lost" else logging.INFO
            if message := self._news.event(source, event):
                log.log(level, message, extra={"vendor": event.vendor, "device": event.device, "id": event.id})
        for problem in accepted.problems:
            if message := self._news.problem(source, poll, problem):
                log.warning(message, extra={**facts, "where": problem.where, "text": problem.text})

    def _level(self, source: str, poll: Poll, state: State) -> int:
        """Return the log level of a change of state. A missing tool is logged once for all polls, a disabled tool never."""
        is_news = self._changes.changed(source, state)
        if state in ("failed", "stuck") or (state == "not_supported" and poll.lists_devices):
            return logging.WARNING
        return logging.DEBUG if state == "disabled" or (state == "missing" and not is_news) else logging.INFO

    def _on_event(self, event: JobEvent) -> None:
        source, _, poll = event.job_id.partition("/")
        if event.code == EVENT_JOB_MAX_INSTANCES:
            self._store.count_overrun((source, poll))
        elif event.code == EVENT_JOB_ERROR:
            log.error("a poll raised an exception", extra={"source": source, "poll": poll}, exc_info=event.exception)


def _job_id(source: str, poll: str) -> str:
    return f"{source}/{poll}"
