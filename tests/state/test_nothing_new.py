"""What the daemon does now and then leaves the snapshot, and with it the page, as it is while nothing is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from kits.fed_node import FedNode
from telemetry_daemon.control.requests import MaintenanceOff, MaintenanceOn
from telemetry_daemon.service.daemon_metrics import OwnMetrics
from telemetry_daemon.service.maintenance import MaintenanceDesk
from telemetry_daemon.state.maintenance import MaintenanceBook
from telemetry_parsers.maintenance import Maintenance


class Chores(FedNode):
    """A store, and what is done to it every ten seconds."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.own = OwnMetrics(self.store)
        self.desk = MaintenanceDesk(MaintenanceBook(folder / "maintenance.json", self.clock), self.store)
        self.keep_house(8.0)

    def keep_house(self, cards: float) -> None:
        self.now += 10.0
        self.own.set_pci({"nvidia": int(cards)})
        self.desk.keep()

    def cards(self) -> list[float]:
        return [sample.value for sample in self.store.snapshot().own]


@pytest.fixture
def chores(tmp_path: Path) -> Chores:
    return Chores(tmp_path)


def test_while_nothing_is_new_the_snapshot_stays(chores: Chores) -> None:
    before = chores.store.snapshot()
    for _ in range(3):
        chores.keep_house(8.0)
    assert chores.store.snapshot() is before
    assert (chores.cards(), before.maintenance) == ([8.0], Maintenance())


def test_what_is_new_is_shown(chores: Chores) -> None:
    chores.keep_house(7.0)
    assert chores.cards() == [7.0]
    chores.keep_house(8.0)
    assert chores.cards() == [8.0]


def test_a_maintenance_is_shown_with_the_seconds_that_are_left(chores: Chores) -> None:
    chores.desk.verbs["maintenance_on"].answer(MaintenanceOn(25.0, "new fans"))
    shown = []
    for _ in range(4):
        shown.append(chores.store.snapshot().maintenance)
        chores.keep_house(8.0)
    assert [one.ends_in for one in shown] == [25.0, 15.0, 5.0, -5.0]
    assert [one.is_on for one in shown] == [True, True, True, False]


def test_a_maintenance_that_is_ended_is_shown_no_longer(chores: Chores) -> None:
    chores.desk.verbs["maintenance_on"].answer(MaintenanceOn(25.0, ""))
    assert chores.store.snapshot().maintenance.is_on
    chores.desk.verbs["maintenance_off"].answer(MaintenanceOff())
    assert not chores.store.snapshot().maintenance.is_on
