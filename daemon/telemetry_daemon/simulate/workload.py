"""Jobs that start, keep some cards busy with a certain pattern, and end, with the owners that a scheduler reports."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from zlib import crc32

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.ownership import Owner

_MEMORY_STEPS = 8
_SECONDS_PER_MEMORY_STEP = 3.0
_PAUSE_LOAD = 0.04
# How long a free card waits for work on average.
_IDLE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A pattern of work. The load jumps by up to `swing` at each phase, and is low in each pause, such as a checkpoint.

    `memory` and `minutes` are ranges. `intensity` is the share of the full power at full load; above 1 it reaches the
    power cap. `traffic` is the share of the memory bandwidth, `tensor` that of the matrix units, at full load.
    `progress` is 0 once its kernel makes no progress.
    """

    name: str
    load: float = 0.0
    swing: float = 0.0
    noise: float = 0.0
    phase_seconds: float = 60.0
    period_seconds: float = 600.0
    pause_seconds: float = 0.0
    memory: tuple[float, float] = (0.0, 0.0)
    minutes: tuple[float, float] = (0.0, 0.0)
    intensity: float = 1.0
    traffic: float = 0.0
    tensor: float = 0.0
    links: float = 0.0
    progress: float = 1.0

    def hung(self) -> Kind:
        """Return the pattern of the work if hung: fully busy at little more than idle power."""
        return replace(self, load=1.0, swing=0.0, pause_seconds=0.0, noise=0.0, intensity=_HUNG_INTENSITY, progress=0.0)


# About 100 of 700 W were reported for H100s in a hung job.
_HUNG_INTENSITY = 0.04
# A table, in the order of the fields. Decoding is bound by the memory bandwidth: it stays below the power cap.
# fmt: off
_TRAINING = Kind("train.py", 0.985, 0.01, 0.012, 90.0, 600.0, 25.0, (0.78, 0.94), (60.0, 240.0), 1.02, 0.5, 0.56, 0.5)
_DECODING = Kind("VLLM::Worker", 0.97, 0.03, 0.01, 60.0, 600.0, 0.0, (0.86, 0.92), (120.0, 600.0), 0.64, 0.8, 0.14, 0.1)
_SERVING = Kind("sglang::scheduler", 0.55, 0.35, 0.06, 40.0, 600.0, 0.0, (0.80, 0.92), (60.0, 300.0), 0.8, 0.6, 0.3, 0.1)
_NOTEBOOK = Kind("ipykernel", 0.2, 0.4, 0.04, 30.0, 600.0, 0.0, (0.05, 0.40), (5.0, 30.0), 0.6, 0.3, 0.2)
# fmt: on
# A forgotten job: it uses memory and does nothing.
_FORGOTTEN = replace(_NOTEBOOK, load=0.0, swing=0.0, noise=0.0, minutes=(120.0, 600.0))
KINDS = (_TRAINING, _DECODING, _SERVING, _NOTEBOOK)
_HOW_OFTEN = (4, 2, 2, 3)
# The work at the beginning, with its share of the cards.
_FIRST = ((_TRAINING, 0.5), (_DECODING, 0.25), (_FORGOTTEN, 0.125))
IDLE = Kind("")
_USERS = (("alice", "physics"), ("bob", "biology"), ("carol", "chemistry"), ("dave", "climate"))


@dataclass(frozen=True, slots=True)
class Job:
    """A job: its pattern, its cards, its start and end in seconds of the course, and the owners that share its cards."""

    kind: Kind
    cards: tuple[int, ...]
    begins: float
    ends: float
    memory_share: float
    pid: int
    owners: tuple[Owner, ...] = ()

    def load(self, now: float, random: Random) -> float:
        """Return the share of time in which the job keeps a card busy at present."""
        kind, age = self.kind, now - self.begins
        if age % kind.period_seconds < kind.pause_seconds:
            return _PAUSE_LOAD
        level = 0.7 * self._level(age / kind.phase_seconds) + 0.3 * self._level(5.3 * age / kind.phase_seconds)
        return min(max(kind.load + kind.swing * level + random.uniform(-kind.noise, kind.noise), 0.0), 1.0)

    def memory(self, now: float) -> float:
        """Return the job's share of a card's memory, which grows in steps."""
        steps = min(int((now - self.begins) / _SECONDS_PER_MEMORY_STEP) + 1, _MEMORY_STEPS)
        return self.memory_share * steps / _MEMORY_STEPS

    def pid_of(self, card: int, owner: int) -> int:
        """Return the process of an owner on a card."""
        return self.pid + self.cards.index(card) * max(len(self.owners), 1) + owner

    def _level(self, phase: float) -> float:
        """Return a number from -1 to 1 that is the same for all cards of the job until the next phase."""
        return crc32(b"%d %d" % (self.pid, phase)) / (1 << 31) - 1.0


class Workload:
    """Starts jobs on free cards, the first at once; the same random numbers give the same jobs."""

    def __init__(self, cards: int, random: Random) -> None:
        self._random = random
        self._begun = False
        self._number = random.randrange(40_000, 90_000)
        self.jobs: list[Job | None] = [None] * cards

    def advance(self, now: float, usable: Sequence[bool]) -> None:
        """Advance by one second: end due jobs, and perhaps start a job on some of the usable free cards."""
        for index, job in enumerate(self.jobs):
            if job is not None and (now >= job.ends or not usable[index]):
                self.jobs[index] = None
        if not self._begun:
            self._begun = True
            for kind, share in _FIRST:
                self._start(kind, max(1, round(share * len(self.jobs))), now, usable)
        free = sum(job is None and can_work for job, can_work in zip(self.jobs, usable, strict=True))
        if free and self._random.random() < free / _IDLE_SECONDS:
            kind = self._random.choices(KINDS, weights=_HOW_OFTEN)[0]
            count = 1 if kind is _NOTEBOOK else self._random.choice((1, 1, 2, 4, 8))
            self._start(kind, count, now, usable)

    def train_everywhere(self, now: float, until: float) -> None:
        """Start a training on all cards, or extend the running training if it has them already."""
        cards = tuple(range(len(self.jobs)))
        job = next((job for job in self.jobs if job is not None and job.cards == cards), None)
        if job is None:
            job = self._job(_TRAINING, cards, now)
        self.jobs = [replace(job, ends=until)] * len(cards)

    def hang(self, cards: Sequence[int], until: float) -> None:
        """Simulate a hung job: utilization stays high, progress stops, and the job is killed at the end."""
        for index in cards:
            job = self.jobs[index]
            if job is not None:
                self.jobs[index] = replace(job, kind=job.kind.hung(), ends=until)

    def _start(self, kind: Kind, count: int, now: float, usable: Sequence[bool]) -> None:
        """Start a job on the first free cards, as schedulers do."""
        free = [index for index, job in enumerate(self.jobs) if job is None and usable[index]]
        if free:
            job = self._job(kind, tuple(free[:count]), now)
            for index in job.cards:
                self.jobs[index] = job

    def _job(self, kind: Kind, cards: tuple[int, ...], now: float) -> Job:
        random = self._random
        return Job(
            kind=kind,
            cards=cards,
            begins=now,
            ends=now + 60.0 * random.uniform(*kind.minutes),
            memory_share=random.uniform(*kind.memory),
            pid=random.randrange(2_000, 4_000_000),
            owners=tuple(self._owners(kind)),
        )

    def _owners(self, kind: Kind) -> list[Owner]:
        """Return the pod of an inference server, the job of a training, or two jobs that share a card for notebooks."""
        if kind in (_DECODING, _SERVING):
            pod = f"chat-{self._next_number()}"
            return [Owner("pod", f"llm/{pod}/server", "llm", pod, "server")]
        jobs = [str(self._next_number()) for _ in range(2 if kind is _NOTEBOOK else 1)]
        partition = "shared" if kind is _NOTEBOOK else "batch"
        users = self._random.sample(_USERS, len(jobs))
        return [
            Owner("job", job, job_id=job, user=user, account=account, partition=partition)
            for job, (user, account) in zip(jobs, users, strict=True)
        ]

    def _next_number(self) -> int:
        self._number += self._random.randint(1, 9)
        return self._number
