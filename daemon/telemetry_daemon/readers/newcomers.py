"""Bounds how many ranks users tell of in an hour: a user who renames them at each write would make series without end."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry_parsers.model import Plain

MOST_NEW, MOST_NEW_OF_A_USER = 4096, 1024
_SECONDS = 3600.0


class Newcomers:
    """Remembers for an hour which ranks of which user were told."""

    def __init__(self) -> None:
        self._seen: dict[int, dict[int, float]] = {}
        self._count = 0

    def forget(self, now: float) -> None:
        """Drop what nobody told for an hour; also what is from a time that has not come, after the clock was set back."""
        kept = {
            user: {rank: seen for rank, seen in ranks.items() if abs(now - seen) < _SECONDS}
            for user, ranks in self._seen.items()
        }
        self._seen = {user: ranks for user, ranks in kept.items() if ranks}
        self._count = sum(map(len, self._seen.values()))

    def admits(self, user: int, told: Mapping[str, Plain], now: float) -> bool:
        """Whether this rank is known, or one more is within the bounds."""
        ranks = self._seen.setdefault(user, {})
        rank = hash(repr((told.get("job_id"), told.get("rank"), told.get("card"))))
        if rank not in ranks:
            if len(ranks) >= MOST_NEW_OF_A_USER or self._count >= MOST_NEW:
                return False
            self._count += 1
        ranks[rank] = now
        return True
