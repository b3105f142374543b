"""How long a benchmark takes: thorough, or quick for a look."""

from __future__ import annotations

import argparse
from dataclasses import dataclass


@dataclass(frozen=True)
class Extent:
    """How many rounds of how many seconds; of how many starts and polls the middle one is told."""

    rounds: int
    seconds: int
    starts: int
    polls: int


THOROUGH = Extent(rounds=3, seconds=20, starts=3, polls=60)
QUICK = Extent(rounds=1, seconds=10, starts=1, polls=10)


def extent(description: str) -> Extent:
    """What our command line asks for: `--quick` or not."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="one short round: for a look, not for figures")
    return QUICK if parser.parse_args().quick else THOROUGH
