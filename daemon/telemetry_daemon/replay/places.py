"""Where in a recording each capture is: seconds from its beginning, by the monotonic clock of the machine that made it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from telemetry_daemon.replay.stretches import WallTimes
from telemetry_parsers.model import Capture

Key = tuple[str, str]
_MOST_POLLS = 1000
# A clock that goes further at once was another machine's, or another boot's: the recording goes on there without a pause.
_LONGEST_BACK_SECONDS, _LONGEST_FORTH_SECONDS = 60.0, 86_400.0


@dataclass(frozen=True, slots=True)
class Placed:
    """A capture, and when it had ended; what was taken before the beginning is placed at it, with its age."""

    place: float
    age: float
    capture: Capture

    @property
    def key(self) -> Key:
        """The source and the poll."""
        return (self.capture.source, self.capture.poll)


def placed(captures: Iterable[Capture]) -> Iterator[Placed]:
    """Each capture with its place; places never go back.

    The beginning is where a poll comes for the second time: before that are what all polls told at the start, and what rare
    polls had told when the recording began.
    """
    seen: set[Key] = set()
    begun: float | None = None
    shift, last, before_begin = 0.0, -float("inf"), list[Placed]()
    for capture in captures:
        ended = capture.monotonic_time + capture.seconds + shift
        if not last - _LONGEST_BACK_SECONDS <= ended <= last + _LONGEST_FORTH_SECONDS and math.isfinite(last):
            shift, ended = shift + last - ended, last
        last = max(last, ended)
        key = (capture.source, capture.poll)
        if begun is None and key not in seen:
            seen.add(key)
            before_begin.append(Placed(ended, 0.0, capture))
            continue
        if begun is None:
            begun = last
            yield from _at_begin(before_begin, begun)
        yield Placed(last - begun, last - ended, capture)
    if begun is None:
        yield from _at_begin(before_begin, last)


def _at_begin(found: Iterable[Placed], begun: float) -> Iterator[Placed]:
    return (Placed(0.0, begun - one.place, one.capture) for one in found)


@dataclass(slots=True)
class Survey:
    """What a pass through a recording tells of it: its length, when and where it was made, and how often each poll came.

    `examples` has a capture of each source. Of more polls than any node has, the first are told.
    """

    length: float = 0.0
    wall_times: WallTimes = field(default_factory=WallTimes)
    hostname: str = ""
    examples: dict[str, Capture] = field(default_factory=dict)
    counts: dict[Key, int] = field(default_factory=dict)
    _spans: dict[Key, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(cls, captures: Iterable[Capture]) -> Survey:
        """The survey; in memory that does not grow with the recording."""
        survey = cls()
        for one in placed(captures):
            if not survey.examples:
                survey.hostname = one.capture.hostname
            survey.length = one.place
            survey.wall_times.see(one.place, one.capture.wall_time + one.capture.seconds + one.age)
            if one.key not in survey.counts and len(survey.counts) >= _MOST_POLLS:
                continue
            survey.examples.setdefault(one.capture.source, one.capture)
            survey.counts[one.key] = survey.counts.get(one.key, 0) + 1
            survey._spans[one.key] = (survey._spans.get(one.key, (one.place,))[0], one.place)
        return survey

    def intervals(self) -> Mapping[Key, float]:
        """The usual seconds between two captures of a poll, 0 of one that came once."""
        return {key: (last - first) / max(1, self.counts[key] - 1) for key, (first, last) in self._spans.items()}
