"""The duration of a benchmark: thorough, or quick for a first look."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    """The number of rounds and their maximum seconds, and the number of starts and polls whose median is reported."""

    rounds: int
    max_seconds: int
    starts: int
    polls: int

    def seconds(self, wanted: int) -> int:
        """Return the wanted seconds of a round, but at most `max_seconds`."""
        return min(wanted, self.max_seconds)


THOROUGH = Extent(rounds=3, max_seconds=60, starts=9, polls=60)
QUICK = Extent(rounds=1, max_seconds=8, starts=2, polls=10)


def parse_extent(description: str) -> Extent:
    """Return the extent from the command line: quick with `--quick`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    return QUICK if parser.parse_args().quick else THOROUGH
