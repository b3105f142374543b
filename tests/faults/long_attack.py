"""All attackers at once, under the memory limit of the unit: scrapes go on, readings are right, it ends when told."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from faults_kit import control_group
from siege_kit import Burden, Mob, besiege

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "telemetry.service"
CROWDS = (
    *(Mob(mode, 1000) for mode in ("silent", "half", "drip")),
    *(Mob(mode, 32) for mode in ("ask", "deaf")),
)
GUESSERS = {
    "elsewhere": (Mob("guess", 32),),
    "at 32 addresses": tuple(Mob("guess", 1, f"127.0.1.{number}") for number in range(1, 33)),
    "at the scraper's address": (Mob("guess", 32, "127.0.0.1"),),
}
# What else a node may have to bear at the same time, each a function of siege_kit.Burden.
BURDENS: Sequence[Burden] = ()
SECONDS = 20.0


def memory_limit_bytes() -> int:
    found = re.search(r"^MemoryMax=(\d+)M$", UNIT.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) << 20


@pytest.mark.parametrize("guessers", GUESSERS.values(), ids=GUESSERS)
def test_everybody_at_once_under_the_units_limit(
    tmp_path: Path, record_property: Callable[[str, object], None], guessers: Sequence[Mob]
) -> None:
    limit = memory_limit_bytes()
    with control_group("memory", "memory.limit_in_bytes", "memory.max", limit) as join:
        siege = besiege(tmp_path, (*CROWDS, *guessers), SECONDS, BURDENS, join)
    print(siege.figures())
    for name, figure in siege.figures().items():
        record_property(name, figure)
    assert siege.p99_seconds() < 1.0
    assert siege.stop_seconds < 3.0
