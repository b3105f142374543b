"""How long a benchmark takes: thorough, or quick for a look."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    """How many rounds, of at most how many seconds; of how many starts and polls the middle one is told."""

    rounds: int
    most_seconds: int
    starts: int
    polls: int

    def seconds(self, wanted: int) -> int:
        """How long a round is that is to take so many."""
        return min(wanted, self.most_seconds)


THOROUGH = Extent(rounds=3, most_seconds=60, starts=9, polls=60)
QUICK = Extent(rounds=1, most_seconds=8, starts=2, polls=10)


def extent(description: str) -> Extent:
    """What our command line asks for: `--quick` or not."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="one short round: for a look, not for figures")
    return QUICK if parser.parse_args().quick else THOROUGH
