"""All attackers at once, under the memory limit of the unit: scrapes go on, readings are right, it ends when told."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from faults_kit import control_group
from siege_kit import Burden, Mob, Siege, besiege

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "telemetry.service"
STALLED = tuple(Mob(mode, 1000) for mode in ("silent", "half", "drip"))
GUESSERS = {
    "elsewhere": (Mob("guess", 32),),
    "at 32 addresses": tuple(Mob("guess", 1, f"127.0.1.{number}") for number in range(1, 33)),
    "at the scraper's address": (Mob("guess", 32, "127.0.0.1"),),
}
FLOODS = tuple(Mob(mode, 32) for mode in ("ask", "deaf"))
# What else a node may have to bear at the same time, each a function of siege_kit.Burden.
BURDENS: Sequence[Burden] = ()
SECONDS = 20.0
WARNING_SECONDS = 12.0  # by then each guesser has failed at least once, at a quarter of a second for a check
Record = Callable[[str, object], None]


def under_the_units_limit(folder: Path, record_property: Record, mobs: Sequence[Mob]) -> Siege:
    found = re.search(r"^MemoryMax=(\d+)M$", UNIT.read_text(), re.MULTILINE)
    assert found is not None
    with control_group("memory", "memory.limit_in_bytes", "memory.max", int(found[1]) << 20) as join:
        siege = besiege(folder, mobs, SECONDS, BURDENS, join, warning_seconds=WARNING_SECONDS)
    print(siege.figures())
    for name, figure in siege.figures().items():
        record_property(name, figure)
    assert siege.stop_seconds < 3.0
    return siege


@pytest.mark.parametrize("guessers", GUESSERS.values(), ids=GUESSERS)
def test_stalled_clients_and_guessers(tmp_path: Path, record_property: Record, guessers: Sequence[Mob]) -> None:
    siege = under_the_units_limit(tmp_path, record_property, (*STALLED, *guessers))
    assert siege.p99_seconds() < 1.0


def test_floods_of_requests_as_well(tmp_path: Path, record_property: Record) -> None:
    """They take whatever processor there is: how long a scrape takes then is the machine's to say."""
    under_the_units_limit(tmp_path, record_property, (*STALLED, *GUESSERS["elsewhere"], *FLOODS))
