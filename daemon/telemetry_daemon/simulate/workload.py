"""The simulated jobs, which keep cards busy with different work patterns, and their owners."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from zlib import crc32

from telemetry_parsers.dataclass import dataclass, replace
from telemetry_parsers.ownership import Owner

_MEMORY_STEPS = 8
_SECONDS_PER_MEMORY_STEP = 3.0
_PAUSE_LOAD = 0.04
# On average, a free card gets a job after this time.
_IDLE_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class WorkPattern:
    """How a kind of job uses its cards."""

    name: str
    load: float = 0.0
    # The load changes by up to `swing` in each phase, and is low during pauses, such as checkpoints.
    swing: float = 0.0
    noise: float = 0.0
    phase_seconds: float = 60.0
    period_seconds: float = 600.0
    pause_seconds: float = 0.0
    # Ranges: the share of the memory that a job uses, and its duration.
    memory: tuple[float, float] = (0.0, 0.0)
    minutes: tuple[float, float] = (0.0, 0.0)
    # Utilization at full load: power (values above 1 are limited by the power cap), memory bandwidth, matrix units
    # and links.
    intensity: float = 1.0
    traffic: float = 0.0
    tensor: float = 0.0
    links: float = 0.0
    # A hung job makes no progress (0).
    progress: float = 1.0

    def as_hung(self) -> WorkPattern:
        """Return the pattern of a hung job, which keeps cards busy at low power."""
        return replace(self, load=1.0, swing=0.0, pause_seconds=0.0, noise=0.0, intensity=_HUNG_INTENSITY, progress=0.0)


# H100s with a power cap of 700 W reported about 100 W in a hung job.
_HUNG_INTENSITY = 0.04
# Decoding is limited by memory bandwidth and stays below the power cap.
# fmt: off
_TRAINING = WorkPattern("train.py", 0.985, 0.01, 0.012, 90.0, 600.0, 25.0, (0.78, 0.94), (60.0, 240.0), 1.02, 0.5, 0.56, 0.5)
_DECODING = WorkPattern("VLLM::Worker", 0.97, 0.03, 0.01, 60.0, 600.0, 0.0, (0.86, 0.92), (120.0, 600.0), 0.64, 0.8, 0.14, 0.1)
_SERVING = WorkPattern("sglang::scheduler", 0.55, 0.35, 0.06, 40.0, 600.0, 0.0, (0.80, 0.92), (60.0, 300.0), 0.8, 0.6, 0.3, 0.1)
_NOTEBOOK = WorkPattern("ipykernel", 0.2, 0.4, 0.04, 30.0, 600.0, 0.0, (0.05, 0.40), (5.0, 30.0), 0.6, 0.3, 0.2)
# fmt: on
# A forgotten job holds memory and does nothing.
_FORGOTTEN = replace(_NOTEBOOK, load=0.0, swing=0.0, noise=0.0, minutes=(120.0, 600.0))
PATTERNS = (_TRAINING, _DECODING, _SERVING, _NOTEBOOK)
_PATTERN_WEIGHTS = (4, 2, 2, 3)
# The jobs at the start: (pattern, share of the cards).
_FIRST_JOBS = ((_TRAINING, 0.5), (_DECODING, 0.25), (_FORGOTTEN, 0.125))
IDLE = WorkPattern("")
_USERS = (("alice", "physics"), ("bob", "biology"), ("carol", "chemistry"), ("dave", "climate"))


@dataclass(frozen=True, slots=True)
class Job:
    """A job on one or more cards. All times are seconds of the simulation."""

    pattern: WorkPattern
    cards: tuple[int, ...]
    start: float
    end: float
    memory_share: float
    pid: int
    owners: tuple[Owner, ...] = ()

    def load(self, now: float, random: Random) -> float:
        """Return the share of time in which a card is busy with the job."""
        pattern, age = self.pattern, now - self.start
        if age % pattern.period_seconds < pattern.pause_seconds:
            return _PAUSE_LOAD
        level = 0.7 * self._level(age / pattern.phase_seconds) + 0.3 * self._level(5.3 * age / pattern.phase_seconds)
        return min(max(pattern.load + pattern.swing * level + random.uniform(-pattern.noise, pattern.noise), 0.0), 1.0)

    def memory(self, now: float) -> float:
        """Return the job's share of a card's memory, which grows in steps."""
        steps = min(int((now - self.start) / _SECONDS_PER_MEMORY_STEP) + 1, _MEMORY_STEPS)
        return self.memory_share * steps / _MEMORY_STEPS

    def pid_of(self, card: int, owner: int) -> int:
        """Return the PID of an owner's process on a card."""
        return self.pid + self.cards.index(card) * max(len(self.owners), 1) + owner

    def _level(self, phase: float) -> float:
        """Return a load level from -1 to 1 for a phase of the job."""
        return crc32(b"%d %d" % (self.pid, phase)) / (1 << 31) - 1.0


class Workload:
    """Starts jobs on free cards."""

    def __init__(self, card_count: int, random: Random) -> None:
        self._random = random
        self._has_started = False
        self._last_number = random.randrange(40_000, 90_000)
        self.jobs: list[Job | None] = [None] * card_count

    def advance(self, now: float, usable: Sequence[bool]) -> None:
        """Advance by one second, in which jobs may end and start."""
        for index, job in enumerate(self.jobs):
            if job is not None and (now >= job.end or not usable[index]):
                self.jobs[index] = None
        if not self._has_started:
            self._has_started = True
            for pattern, share in _FIRST_JOBS:
                self._start_job(pattern, max(1, round(share * len(self.jobs))), now, usable)
        free_count = sum(job is None and is_usable for job, is_usable in zip(self.jobs, usable, strict=True))
        if free_count and self._random.random() < free_count / _IDLE_SECONDS:
            pattern = self._random.choices(PATTERNS, weights=_PATTERN_WEIGHTS)[0]
            count = 1 if pattern is _NOTEBOOK else self._random.choice((1, 1, 2, 4, 8))
            self._start_job(pattern, count, now, usable)

    def train_everywhere(self, now: float, until: float) -> None:
        """Start a training job on all cards, or extend the running one."""
        cards = tuple(range(len(self.jobs)))
        job = next((job for job in self.jobs if job is not None and job.cards == cards), None)
        if job is None:
            job = self._create_job(_TRAINING, cards, now)
        self.jobs = [replace(job, end=until)] * len(cards)

    def hang(self, cards: Sequence[int], until: float) -> None:
        """Simulate a hung job, which is killed at `until`."""
        for index in cards:
            job = self.jobs[index]
            if job is not None:
                self.jobs[index] = replace(job, pattern=job.pattern.as_hung(), end=until)

    def _start_job(self, pattern: WorkPattern, count: int, now: float, usable: Sequence[bool]) -> None:
        free_cards = [index for index, job in enumerate(self.jobs) if job is None and usable[index]]
        if free_cards:
            job = self._create_job(pattern, tuple(free_cards[:count]), now)
            for index in job.cards:
                self.jobs[index] = job

    def _create_job(self, pattern: WorkPattern, cards: tuple[int, ...], now: float) -> Job:
        random = self._random
        return Job(
            pattern=pattern,
            cards=cards,
            start=now,
            end=now + 60.0 * random.uniform(*pattern.minutes),
            memory_share=random.uniform(*pattern.memory),
            pid=random.randrange(2_000, 4_000_000),
            owners=tuple(self._create_owners(pattern)),
        )

    def _create_owners(self, pattern: WorkPattern) -> list[Owner]:
        """Return a pod, a batch job, or two jobs that share a card."""
        if pattern in (_DECODING, _SERVING):
            pod = f"chat-{self._next_number()}"
            return [Owner("pod", f"llm/{pod}/server", "llm", pod, "server")]
        job_ids = [str(self._next_number()) for _ in range(2 if pattern is _NOTEBOOK else 1)]
        partition = "shared" if pattern is _NOTEBOOK else "batch"
        users = self._random.sample(_USERS, len(job_ids))
        return [
            Owner("job", job_id, job_id=job_id, user=user, account=account, partition=partition)
            for job_id, (user, account) in zip(job_ids, users, strict=True)
        ]

    def _next_number(self) -> int:
        self._last_number += self._random.randint(1, 9)
        return self._last_number
