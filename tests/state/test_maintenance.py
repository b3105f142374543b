"""An announced maintenance: when it ends, and that the snapshot stays the same while nothing is new."""

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from kits.fed_node import FedNode
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.remote.control_requests import EmptyRequest, MaintenanceRequest
from telemetry_daemon.service.daemon_metrics import DaemonMetrics
from telemetry_daemon.service.operators import MaintenanceRequestHandler
from telemetry_daemon.state.maintenance import MaintenanceState, path_in
from telemetry_daemon.times import Clock
from telemetry_parsers.maintenance import Maintenance

HOUR, DAY = 3600.0, 86_400.0


@dataclass
class Machine:
    """A node's clocks, and its maintenance on one state folder."""

    folder: Path
    wall: float = 1.8e9
    up: float = 1000.0
    slept: float = 0.0

    def book(self) -> MaintenanceState:
        return MaintenanceState(
            path_in(str(self.folder)), Clock(lambda: self.up, lambda: self.wall, lambda: self.slept)
        )

    def wait(self, seconds: float) -> None:
        self.wall += seconds
        self.up += seconds

    def sleep(self, seconds: float) -> None:
        self.wall += seconds
        self.slept += seconds

    def reboot(self, clock_ahead: float = 0.0) -> MaintenanceState:
        self.wait(120)
        self.up, self.slept, self.wall = 20.0, 0.0, self.wall + clock_ahead
        return self.book()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    tmp_path.chmod(0o755)
    return Machine(tmp_path)


def announced(machine: Machine, seconds: float = HOUR) -> MaintenanceState:
    book = machine.book()
    book.announce(seconds, "new fans")
    book.save()
    return book


def test_no_maintenance_at_first(machine: Machine) -> None:
    book = machine.book()
    assert (book.current().ends_in, book.current().is_on) == (None, False)
    book.save()
    assert not list(machine.folder.iterdir())
    book.end()  # Prometheus may remember what the node announced before it was reinstalled
    assert (book.current().ends_in, book.current().is_on) == (0.0, False)


def test_maintenance_ends_and_is_reported_for_a_day(machine: Machine) -> None:
    book = announced(machine)
    assert (book.current().ends_in, book.current().is_on, book.current().reason) == (HOUR, True, "new fans")
    machine.wait(HOUR + 1)
    assert (book.current().ends_in, book.current().is_on) == (-1.0, False)
    book.save()
    book = machine.reboot()
    assert book.current().ends_in == pytest.approx(-121.0)
    machine.wait(DAY)
    book.save()
    assert book.current().ends_in is None
    assert machine.book().current().ends_in is None


def test_off_ends_maintenance_once(machine: Machine) -> None:
    book = announced(machine)
    machine.wait(60)
    book.end()
    book.save()
    machine.wait(60)
    book.end()
    assert book.current().ends_in == -60.0
    assert machine.book().current().ends_in == -60.0


def test_second_announcement_replaces_the_end(machine: Machine) -> None:
    book = announced(machine)
    book.announce(2 * HOUR, None)
    assert (book.current().ends_in, book.current().reason) == (2 * HOUR, "new fans")
    book.announce(60.0, "")
    assert (book.current().ends_in, book.current().reason) == (60.0, "")
    book.end()
    book.announce(60.0, None)
    assert book.current().reason == "", "it is another maintenance"


def test_restart_and_reboot_change_nothing(machine: Machine) -> None:
    announced(machine)
    machine.wait(60)
    assert machine.book().current().ends_in == HOUR - 60
    again = machine.reboot()
    assert (again.current().ends_in, again.current().reason) == (HOUR - 180, "new fans")


def test_suspended_time_counts(machine: Machine) -> None:
    book = announced(machine)
    machine.sleep(HOUR)
    assert not book.current().is_on


@pytest.mark.parametrize("step", [-900.0, 900.0, -1e9, 1e9])
def test_clock_step_moves_no_end(machine: Machine, step: float) -> None:
    book = announced(machine)
    machine.wall += step
    assert book.current().ends_in == HOUR
    book.save()
    assert machine.book().current().ends_in == pytest.approx(HOUR), "nor after a restart"


@pytest.mark.parametrize("ahead", [-1e9, -900.0, 900.0, 1e9])
def test_wrong_clock_after_a_reboot_extends_nothing(machine: Machine, ahead: float) -> None:
    announced(machine)
    book = machine.reboot(ahead)
    assert book.current().ends_in is not None
    assert book.current().ends_in <= HOUR
    machine.wall -= ahead  # the clock is corrected
    assert book.current().ends_in <= HOUR - 120
    machine.wait(HOUR)
    assert not book.current().is_on


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"schema":"telemetry.maintenance/2","until":1.9e9,"seconds":1.0,"reason":""}',
        b'{"schema":"telemetry.maintenance/1","until":1.9e9,"seconds":NaN,"reason":""}',
        b'{"schema":"telemetry.maintenance/1","until":"never","seconds":1.0,"reason":""}',
    ],
)
def test_damaged_file_announces_nothing(machine: Machine, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path_in(str(machine.folder)).write_bytes(content)
    assert machine.book().current().ends_in is None
    assert "cannot be used" in caplog.text


def test_content_of_the_file_is_bounded_and_clean(machine: Machine) -> None:
    path_in(str(machine.folder)).write_text(
        '{"schema":"telemetry.maintenance/1","until":9e15,"seconds":9e15,"reason":"\\u001b[2J' + "x" * 5000 + '"}'
    )
    now = machine.book().current()
    assert now.ends_in == 30 * DAY
    assert len(now.reason) == 200
    assert now.reason.isprintable()


def test_unwritable_folder_is_reported_each_time(machine: Machine) -> None:
    (machine.folder / "state").write_text("a file in the way of the folder")
    book = MaintenanceState(machine.folder / "state" / "maintenance.json", Clock())
    book.announce(60.0, None)
    for _ in range(2):
        with pytest.raises(OSError, match="Not a directory"):
            book.save()
    assert book.current().is_on


def test_hanging_disk_blocks_no_reader(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    book = machine.book()
    book.announce(HOUR, "new fans")
    hangs, answers = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        hangs.set()
        answers.wait()

    monkeypatch.setattr(OwnFolder, "replace", hang)
    writer = threading.Thread(target=book.save, daemon=True)
    writer.start()
    assert hangs.wait(60)
    asking = threading.Thread(target=book.current, daemon=True)
    asking.start()
    asking.join(60)
    assert not asking.is_alive()
    with pytest.raises(TimeoutError, match="does not answer"):
        book.save()
    answers.set()
    writer.join(60)
    assert not writer.is_alive()


class Chores(FedNode):
    """A store, and its regular work every ten seconds."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.daemon_metrics = DaemonMetrics(self.store)
        self.desk = MaintenanceRequestHandler(MaintenanceState(folder / "maintenance.json", self.clock), self.store)
        self.keep_house(8.0)

    def keep_house(self, cards: float) -> None:
        self.now += 10.0
        self.daemon_metrics.set_pci({"nvidia": int(cards)})
        self.desk.save()

    def cards(self) -> list[float]:
        return [sample.value for sample in self.store.snapshot().daemon_samples]


def test_snapshot_is_kept_until_a_change(tmp_path: Path) -> None:
    chores = Chores(tmp_path)
    before = chores.store.snapshot()
    for _ in range(3):
        chores.keep_house(8.0)
    assert chores.store.snapshot() is before
    assert (chores.cards(), before.maintenance) == ([8.0], Maintenance())
    chores.keep_house(7.0)
    assert chores.cards() == [7.0]


def test_remaining_seconds_are_shown_until_the_end(tmp_path: Path) -> None:
    chores = Chores(tmp_path)
    chores.desk.handlers["maintenance_on"].answer(MaintenanceRequest(25.0, "new fans"))
    shown = []
    for _ in range(4):
        shown.append(chores.store.snapshot().maintenance)
        chores.keep_house(8.0)
    assert [maintenance.ends_in for maintenance in shown] == [25.0, 15.0, 5.0, -5.0]
    assert [maintenance.is_on for maintenance in shown] == [True, True, True, False]
    chores.desk.handlers["maintenance_on"].answer(MaintenanceRequest(25.0, ""))
    assert chores.store.snapshot().maintenance.is_on
    chores.desk.handlers["maintenance_off"].answer(EmptyRequest())
    assert not chores.store.snapshot().maintenance.is_on
