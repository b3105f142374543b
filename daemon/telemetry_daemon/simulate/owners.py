"""Owners of the simulated cards: jobs, pods and nobody in turn, so that what tells owners can be seen without a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from telemetry_daemon.readers.base import Targets
from telemetry_daemon.simulate.demo import PLAYED, Groups
from telemetry_daemon.times import Clock
from telemetry_parsers.contract import SourceParser
from telemetry_parsers.model import Capture, Library, Output, Poll, Report
from telemetry_parsers.ownership import Claim, DeviceName, Owner

SOURCE = "scheduler"
_POLL = Poll("claims", Library("simulator", (SOURCE,)), interval=10.0, lists_devices=False)
_POD = ("llm", "serve-0", "server")
# In turn; a card with two is shared by them, one with none is free.
_TURNS: tuple[tuple[Owner, ...], ...] = (
    (Owner("job", "48213", job_id="48213", user="u1001", account="physics", partition="batch"),),
    (Owner("job", "48213", job_id="48213", user="u1001", account="physics", partition="batch"),),
    (Owner("pod", "/".join(_POD), *_POD),),
    (
        Owner("job", "48220_3", job_id="48220_3", user="u1002", account="biology", partition="shared"),
        Owner("job", "48221", job_id="48221", user="u1003", account="biology", partition="shared"),
    ),
    (),
)


@dataclass(frozen=True, slots=True)
class SimulatedOwners:
    """Answers with the same owners at every poll."""

    clock: Clock

    def read(self, poll: Poll, targets: Targets) -> Capture:  # noqa: ARG002  # the cards are known beforehand
        """That it was asked."""
        begun = time.thread_time()
        return Capture(
            SOURCE,
            poll.name,
            poll.request,
            (Output(poll.name, status=0),),
            cpu_seconds=time.thread_time() - begun,
            wall_time=self.clock.wall(),
            monotonic_time=self.clock.monotonic(),
        )

    def close(self) -> None:
        """Nothing runs."""

    def left_behind(self) -> tuple[int, ...]:
        """None: nothing runs."""
        return ()


def parser(groups: Groups) -> SourceParser:
    """The source that gives these cards their owners."""
    claims = tuple(_claims(groups))
    return SourceParser(SOURCE, "", (), (_POLL,), lambda _: Report(claims=claims, form="data"))


def _claims(groups: Groups) -> Iterator[Claim]:
    place = 0
    for word, count in groups:
        for index in range(count):
            owners = _TURNS[place % len(_TURNS)]
            name = DeviceName(f"{PLAYED[word].word}{index}", "index", str(index), PLAYED[word].word)
            for number, owner in enumerate(owners):
                replica = str(number) if len(owners) > 1 else ""
                yield Claim(owner, (f"simulated:{owner.name}",), (name,), replica)
            place += 1
