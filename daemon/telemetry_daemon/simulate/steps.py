"""The steps of the simulated jobs, as the files of real jobs tell of them: a card that is held down holds up its whole job."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.cards import CardState
from telemetry_daemon.simulate.course import Course
from telemetry_daemon.simulate.source import SimulatedReader
from telemetry_daemon.simulate.tell import Teller
from telemetry_daemon.simulate.workload import Job
from telemetry_daemon.times import Clock
from telemetry_parsers.model import Capture, Output, Plain, Poll
from telemetry_parsers.peaks.lookup import peak_of
from telemetry_parsers.steps import SCHEMA, SOURCE

_STEP_SECONDS = 0.8
_TOKENS = 16_384
_SHARE_OF_PEAK, _DTYPE = 0.42, "bf16"
_COMMUNICATION = 0.24


@dataclass(frozen=True, slots=True)
class SimulatedSteps:
    """Answers with a file for each card of a job that counts its steps."""

    readers: Sequence[SimulatedReader]
    clock: Clock

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # steps are counted without targets
        """The counters as they are now."""
        begun = time.thread_time()
        files: list[Plain] = [file for reader in self.readers for file in reader.look(_files)]
        return Capture(
            SOURCE,
            poll.name,
            poll.request,
            (Output(SOURCE, status=0, data=files),),
            cpu_seconds=time.thread_time() - begun,
            wall_time=self.clock.wall(),
            monotonic_time=self.clock.monotonic(),
        )

    def close(self) -> None:
        """Nothing runs."""

    def left_behind(self) -> tuple[int, ...]:
        """None: nothing runs."""
        return ()


def _files(course: Course, teller: Teller) -> list[Plain]:
    """Those of each job that has links and all of its cards: without one it does not go on."""
    present = {card.position: card for card in course.present()}
    files: list[Plain] = []
    for card in present.values():
        job = card.job
        if job is not None and job.kind.links:
            of_job = [present.get(position) for position in job.cards]
            done = [other.work_done for other in of_job if other and other.job and other.job.pid == job.pid]
            if len(done) == len(of_job):
                files.append(_file(teller, card, job, int(min(done) / _STEP_SECONDS)))
    return files


def _file(teller: Teller, card: CardState, job: Job, steps: int) -> Plain:
    peak = peak_of(card.model.model)
    flops = None if peak is None else peak.flops(_DTYPE)
    rank = job.cards.index(card.position)
    return {
        "file": f"{job.pid}-{rank}.json",
        "uid": 1000,
        "schema": SCHEMA,
        "job_id": str(job.pid),
        "rank": rank,
        "card": {"uuid": teller.uuid(card.position)},
        "steps": steps,
        "tokens": steps * _TOKENS,
        "flops": None if flops is None else steps * flops * _SHARE_OF_PEAK * _STEP_SECONDS,
        "seconds": dict(_seconds(card, job)),
    }


def _seconds(card: CardState, job: Job) -> Iterator[tuple[str, float]]:
    communication = card.busy_seconds * _COMMUNICATION * job.kind.links
    yield "compute", round(card.busy_seconds - communication, 3)
    yield "communication", round(communication, 3)
    yield "data", round(max(0.0, card.now - job.begins - card.busy_seconds), 3)
