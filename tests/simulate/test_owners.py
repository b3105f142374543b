"""The owners of a demo: shown where owners are told, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kits.daemon import Daemon


@pytest.mark.parametrize("config", ["[attribution]\nenabled = true\n", ""])
def test_a_demo_has_owners_where_owners_are_told(tmp_path: Path, config: str) -> None:
    with Daemon(tmp_path, config, arguments=("--demo", "5xnvidia")) as daemon:
        daemon.until(lambda: len(daemon.document()["devices"]) == 5)
        if config:
            daemon.until(lambda: "accelerator_allocation_energy_joules_total" in daemon.get("/metrics")[1])
        owners = [[one["owner"]["name"] for one in device["allocations"]] for device in daemon.document()["devices"]]
    shared = ["48220_3", "48221"]
    assert owners == ([["48213"], ["48213"], ["llm/serve-0/server"], shared, []] if config else [[]] * 5)
    assert not (tmp_path / "state" / "ledger.json").exists()
