"""Who had a card when: its last minutes in spans of time, each with the shares of those who had the card."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

_Holder = TypeVar("_Holder")
# Shares are rounded sums: a little more than the whole card is the whole card.
_WHOLE = 1.0 + 1e-9


class Tenure(Generic[_Holder]):
    """The spans, in monotonic seconds; the newest has no end yet, the oldest no begin."""

    def __init__(self) -> None:
        self._begins: list[float] = [-math.inf]
        self._shares: list[Mapping[_Holder, float]] = [{}]

    def __len__(self) -> int:
        return len(self._begins)

    @property
    def now(self) -> Mapping[_Holder, float]:
        """The shares of those who have the card."""
        return self._shares[-1]

    def change(self, moment: float, shares: Mapping[_Holder, float]) -> None:
        """These have the card from that moment on, which is no earlier than the last change."""
        if self._begins[-1] == moment:
            self._shares[-1] = shares
        elif shares != self.now:
            self._begins.append(moment)
            self._shares.append(shares)

    def came(self, holder: _Holder, since: float) -> None:
        """One of those who have the card had it earlier than was seen."""
        now = self.now
        for place in self._from(since):
            self._shares[place] = _with(self._shares[place], holder, now)

    def left(self, holder: _Holder, since: float) -> None:
        """Somebody had the card no longer from that moment on."""
        for place in self._from(since):
            self._shares[place] = {one: share for one, share in self._shares[place].items() if one is not holder}

    def visited(self, holder: _Holder, since: float, until: float, gives_way: Callable[[_Holder], bool]) -> None:
        """A holder had the card in this time only, with the share that others leave; holders that give way leave theirs."""
        self._from(until)
        for place in self._from(since):
            if self._begins[place] >= until:
                break
            others = {other: share for other, share in self._shares[place].items() if not gives_way(other)}
            left = max(0.0, 1.0 - sum(others.values()))
            self._shares[place] = {**others, holder: left} if left > 0.0 else others

    def spans(self, begin: float, end: float) -> Iterator[tuple[float, float, Mapping[_Holder, float]]]:
        """The spans within this time, cut to it."""
        place = max(0, bisect_right(self._begins, begin) - 1)
        while place < len(self._begins) and self._begins[place] < end:
            until = self._begins[place + 1] if place + 1 < len(self._begins) else math.inf
            yield max(begin, self._begins[place]), min(end, until), self._shares[place]
            place += 1

    def span_of(self, moment: float) -> tuple[float, float, Mapping[_Holder, float]]:
        """The span that the moment is in: when it began, when the next one began, and the shares."""
        place = max(0, bisect_right(self._begins, moment) - 1)
        until = self._begins[place + 1] if place + 1 < len(self._begins) else math.inf
        return self._begins[place], until, self._shares[place]

    def forget_before(self, moment: float) -> None:
        """Drop the spans that ended by then; the oldest that is left stands for them."""
        gone = max(0, bisect_right(self._begins, moment) - 1)
        del self._begins[:gone], self._shares[:gone]
        self._begins[0] = -math.inf

    def _from(self, moment: float) -> range:
        """The places of the spans from that moment on; the span that it lies in is cut there."""
        place = bisect_right(self._begins, moment)
        if place and self._begins[place - 1] < moment:
            self._begins.insert(place, moment)
            self._shares.insert(place, self._shares[place - 1])
            return range(place, len(self._begins))
        return range(max(0, place - 1), len(self._begins))


def _with(shares: Mapping[_Holder, float], holder: _Holder, now: Mapping[_Holder, float]) -> Mapping[_Holder, float]:
    """The shares with one more: who has the card no longer makes room for it, then all have what they have now."""
    if holder in shares:
        return shares
    together = {**shares, holder: now[holder]}
    if sum(together.values()) <= _WHOLE:
        return together
    together = {one: share for one, share in together.items() if one in now}
    if sum(together.values()) <= _WHOLE:
        return together
    return {one: now[one] for one in together}
