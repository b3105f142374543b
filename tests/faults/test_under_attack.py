"""Attackers of every kind at once, few of each: the honest scraper sees nothing of them (long_attack.py has thousands)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from faults.siege import Mob, besiege

MOBS = (
    *(Mob(mode, 100) for mode in ("silent", "half", "drip")),
    *(Mob(mode, 16) for mode in ("guess", "ask", "deaf")),
)


@pytest.mark.long  # tests/web/test_attack.py has attackers one by one
def test_scrapes_go_on_under_all_attackers_at_once(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    siege = besiege(tmp_path, MOBS, seconds=2.0, cost=10)
    for name, figure in siege.figures().items():
        record_property(name, figure)
    assert len(siege.scrape_seconds) > 5
    assert siege.peak_mib < 100
