"""Fuzz everything that reads foreign data: `make fuzz`.

FUZZ_SECONDS is the total time (60), FUZZ_SEED repeats a run, FUZZ_ONLY selects targets whose name contains this text.
"""

import logging
import os
import random
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from fuzz.targets import SITE, Target, targets
from kits.web_server import running_server

# The number of examples between two checks of the time.
EXAMPLES_AT_ONCE = 50


@dataclass(frozen=True)
class Outcome:
    """The number of examples, and the failure of one of them if any."""

    examples: int
    finding: str = ""


def fuzz(target: Target, number: int, examples: int) -> str:
    """Run this many examples; return the smallest failing example with its error, or ""."""

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(target.inputs)
    def check(given_input: object) -> None:
        target.check(given_input)

    try:
        check()
    except BaseException as error:  # a failed assertion of pytest and an exit are findings, too
        if isinstance(error, KeyboardInterrupt):
            raise
        return "".join(traceback.format_exception(error))
    return ""


def fuzz_for(target: Target, first: int, seconds: float) -> Outcome:
    end = time.monotonic() + seconds
    rounds = 0
    while not rounds or time.monotonic() < end:
        finding = fuzz(target, first + rounds, EXAMPLES_AT_ONCE)
        rounds += 1
        if finding:
            return Outcome(rounds * EXAMPLES_AT_ONCE, f"seed {first + rounds - 1}\n{finding}")
    return Outcome(rounds * EXAMPLES_AT_ONCE)


def main() -> int:
    """Fuzz every target for its share of the time; return 1 if one failed."""
    logging.disable(logging.CRITICAL)  # errors about damaged files are expected
    seconds = float(os.environ.get("FUZZ_SECONDS", "60"))
    first = int(os.environ.get("FUZZ_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    with tempfile.TemporaryDirectory() as folder, running_server(SITE.respond) as server:
        wanted = [
            target for target in targets(Path(folder), server.port) if os.environ.get("FUZZ_ONLY", "") in target.name
        ]
        print(f"fuzzing {len(wanted)} targets for {seconds:g} s; again with FUZZ_SEED={first}", flush=True)
        found = 0
        for target in wanted:
            outcome = fuzz_for(target, first, seconds / max(1, len(wanted)))
            found += bool(outcome.finding)
            print(
                f"{target.name:<20} {outcome.examples:>7} examples  {'FAILED' if outcome.finding else 'ok'}", flush=True
            )
            if outcome.finding:
                print(outcome.finding, flush=True)
    print(f"{found} of {len(wanted)} targets failed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
