"""The owners and steps of a demo: shown where owners and steps are switched on, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kits.daemon import Daemon


@pytest.mark.parametrize("config", ["[attribution]\nenabled = true\n[steps]\nenabled = true\n", ""])
def test_a_demo_has_owners_and_steps_where_they_are_switched_on(tmp_path: Path, config: str) -> None:
    with Daemon(tmp_path, config, arguments=("--demo", "5xnvidia,2xascend")) as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 7)
        if config:
            daemon.until(lambda: 'part="communication"' in (page := daemon.page()) and "allocation_energy" in page)
        assert ("telemetry_steps_total{" in daemon.page()) == bool(config)
        cards = [one for one in daemon.document()["devices"] if one["vendor"] == "nvidia"]
    owners = [[one["owner"]["name"] for one in card["allocations"]] for card in cards]
    shared = ["48220_3", "48221"]
    assert owners == ([["48213"], ["48213"], ["llm/serve-0/server"], shared, []] if config else [[]] * 5)
    assert not (tmp_path / "state" / "ledger.json").exists()
