"""Jobs that start, keep some cards busy with a certain pattern, and end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from telemetry_parsers.dataclass import dataclass, replace

_MEMORY_STEPS = 8
_SECONDS_PER_MEMORY_STEP = 3.0
_PAUSE_LOAD = 0.04
# How long a free card waits for work on average.
_IDLE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A pattern of work: its load, waves and pauses, and its share of memory and link traffic.

    `intensity` is the share of the full power at full load; above 1 it reaches the power cap. `progress` is 0 once its
    kernel makes no progress.
    """

    name: str
    load: float
    wave: float
    period_seconds: float
    pause_seconds: float
    noise: float
    memory: tuple[float, float]
    minutes: tuple[float, float]
    intensity: float
    links: float
    progress: float = 1.0

    def hung(self) -> Kind:
        """Return the pattern of the same work when hung: fully busy at hardly more than idle power."""
        return replace(self, load=1.0, wave=0.0, pause_seconds=0.0, noise=0.0, intensity=_HUNG_INTENSITY, progress=0.0)


# An H200 used 137 to 300 of 700 W while decoding; about 100 W were reported for H100s in a hung job.
_DECODE_INTENSITY, _HUNG_INTENSITY = 0.22, 0.04
KINDS = (
    Kind("train.py", 0.97, 0.02, 240.0, 9.0, 0.015, (0.70, 0.95), (8.0, 45.0), 1.06, 0.5),
    Kind("decode_llm", 1.0, 0.0, 150.0, 0.0, 0.01, (0.80, 0.92), (10.0, 60.0), _DECODE_INTENSITY, 0.1),
    Kind("serve_llm", 0.50, 0.35, 150.0, 0.0, 0.06, (0.80, 0.92), (10.0, 60.0), 0.80, 0.1),
    Kind("jupyter", 0.25, 0.25, 45.0, 12.0, 0.10, (0.05, 0.40), (3.0, 20.0), 0.65, 0.0),
)
_HOW_OFTEN = (4, 1, 2, 2)
IDLE = Kind("", 0.0, 0.0, 1.0, 0.0, 0.0, (0.0, 0.0), (0.0, 0.0), 1.0, 0.0)


@dataclass(frozen=True, slots=True)
class Job:
    """One job: its pattern, its cards, and its start and end, in seconds of the course."""

    kind: Kind
    cards: tuple[int, ...]
    begins: float
    ends: float
    memory_share: float
    pid: int

    def load(self, now: float, random: Random) -> float:
        """Return the share of time in which the job keeps a card busy at present."""
        kind = self.kind
        age = now - self.begins
        if age % kind.period_seconds < kind.pause_seconds:
            return _PAUSE_LOAD
        wave = kind.wave * math.sin(2.0 * math.pi * age / kind.period_seconds)
        return min(max(kind.load + wave + random.uniform(-kind.noise, kind.noise), 0.0), 1.0)

    def memory(self, now: float) -> float:
        """Return the job's share of a card's memory, which grows in steps."""
        steps = min(int((now - self.begins) / _SECONDS_PER_MEMORY_STEP) + 1, _MEMORY_STEPS)
        return self.memory_share * steps / _MEMORY_STEPS


class Workload:
    """Starts jobs on free cards, the first at once; the same random numbers give the same jobs."""

    def __init__(self, cards: int, random: Random) -> None:
        self._random = random
        self._begun = False
        self.jobs: list[Job | None] = [None] * cards

    def advance(self, now: float, usable: Sequence[bool]) -> None:
        """Advance by one second: end due jobs, and perhaps start a job on some of the usable free cards."""
        for index, job in enumerate(self.jobs):
            if job is not None and (now >= job.ends or not usable[index]):
                self.jobs[index] = None
        free = [index for index, job in enumerate(self.jobs) if job is None and usable[index]]
        if free and (not self._begun or self._random.random() < len(free) / _IDLE_SECONDS):
            self._begun = True
            self._start(now, free)

    def train_everywhere(self, now: float, until: float) -> None:
        """Start a training on all cards, or extend the running training if it has them already."""
        cards = tuple(range(len(self.jobs)))
        job = next((job for job in self.jobs if job is not None and job.cards == cards), None)
        if job is None:
            job = Job(KINDS[0], cards, now, until, KINDS[0].memory[0], self._random.randrange(2_000, 4_000_000))
        self.jobs = [replace(job, ends=until)] * len(cards)

    def hang(self, cards: Sequence[int], until: float) -> None:
        """Simulate a hung job: utilization stays high, progress stops, and the job is killed at the end."""
        for index in cards:
            job = self.jobs[index]
            if job is not None:
                self.jobs[index] = replace(job, kind=job.kind.hung(), ends=until)

    def _start(self, now: float, free: list[int]) -> None:
        random = self._random
        kind = random.choices(KINDS, weights=_HOW_OFTEN)[0]
        count = min(random.choice((1, 1, 2, 4, 8)), len(free))
        job = Job(
            kind=kind,
            cards=tuple(sorted(random.sample(free, count))),
            begins=now,
            ends=now + 60.0 * random.uniform(*kind.minutes),
            memory_share=random.uniform(*kind.memory),
            pid=random.randrange(2_000, 4_000_000),
        )
        for index in job.cards:
            self.jobs[index] = job
