"""An announced maintenance: when it ends, and that the snapshot stays the same while nothing is new."""

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from kits.fed_node import FedNode
from telemetry_daemon.guarded.own_folder import OwnFolder
from telemetry_daemon.remote.control_requests import MaintenanceOn, NoArguments
from telemetry_daemon.service.daemon_metrics import DaemonMetrics
from telemetry_daemon.service.operators import MaintenanceDesk
from telemetry_daemon.state.maintenance import MaintenanceBook, path_in
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

    def book(self) -> MaintenanceBook:
        return MaintenanceBook(path_in(str(self.folder)), Clock(lambda: self.up, lambda: self.wall, lambda: self.slept))

    def wait(self, seconds: float) -> None:
        self.wall += seconds
        self.up += seconds

    def sleep(self, seconds: float) -> None:
        self.wall += seconds
        self.slept += seconds

    def reboot(self, clock_ahead: float = 0.0) -> MaintenanceBook:
        self.wait(120)
        self.up, self.slept, self.wall = 20.0, 0.0, self.wall + clock_ahead
        return self.book()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    tmp_path.chmod(0o755)
    return Machine(tmp_path)


def announced(machine: Machine, seconds: float = HOUR) -> MaintenanceBook:
    book = machine.book()
    book.announce(seconds, "new fans")
    book.save()
    return book


def test_none_is_announced_at_first(machine: Machine) -> None:
    book = machine.book()
    assert (book.now().ends_in, book.now().is_on) == (None, False)
    book.save()
    assert not list(machine.folder.iterdir())
    book.end()  # Prometheus may remember what the node announced before it was reinstalled
    assert (book.now().ends_in, book.now().is_on) == (0.0, False)


def test_it_ends_by_itself_and_is_reported_for_a_day_more(machine: Machine) -> None:
    book = announced(machine)
    assert (book.now().ends_in, book.now().is_on, book.now().reason) == (HOUR, True, "new fans")
    machine.wait(HOUR + 1)
    assert (book.now().ends_in, book.now().is_on) == (-1.0, False)
    book.save()
    book = machine.reboot()
    assert book.now().ends_in == pytest.approx(-121.0)
    machine.wait(DAY)
    book.save()
    assert book.now().ends_in is None
    assert machine.book().now().ends_in is None


def test_off_ends_it_at_once_and_once(machine: Machine) -> None:
    book = announced(machine)
    machine.wait(60)
    book.end()
    book.save()
    machine.wait(60)
    book.end()
    assert book.now().ends_in == -60.0
    assert machine.book().now().ends_in == -60.0


def test_announced_again_it_has_the_new_end_and_keeps_its_reason(machine: Machine) -> None:
    book = announced(machine)
    book.announce(2 * HOUR, None)
    assert (book.now().ends_in, book.now().reason) == (2 * HOUR, "new fans")
    book.announce(60.0, "")
    assert (book.now().ends_in, book.now().reason) == (60.0, "")
    book.end()
    book.announce(60.0, None)
    assert book.now().reason == "", "it is another maintenance"


def test_a_restart_and_a_reboot_change_nothing(machine: Machine) -> None:
    announced(machine)
    machine.wait(60)
    assert machine.book().now().ends_in == HOUR - 60
    again = machine.reboot()
    assert (again.now().ends_in, again.now().reason) == (HOUR - 180, "new fans")


def test_time_in_which_the_machine_was_suspended_counts(machine: Machine) -> None:
    book = announced(machine)
    machine.sleep(HOUR)
    assert not book.now().is_on


@pytest.mark.parametrize("step", [-900.0, 900.0, -1e9, 1e9])
def test_a_clock_that_is_set_moves_no_end(machine: Machine, step: float) -> None:
    book = announced(machine)
    machine.wall += step
    assert book.now().ends_in == HOUR
    book.save()
    assert machine.book().now().ends_in == pytest.approx(HOUR), "nor after a restart"


@pytest.mark.parametrize("ahead", [-1e9, -900.0, 900.0, 1e9])
def test_after_a_reboot_with_a_wrong_clock_it_lasts_no_longer_than_announced(machine: Machine, ahead: float) -> None:
    announced(machine)
    book = machine.reboot(ahead)
    assert book.now().ends_in is not None
    assert book.now().ends_in <= HOUR
    machine.wall -= ahead  # the clock is put right
    assert book.now().ends_in <= HOUR - 120
    machine.wait(HOUR)
    assert not book.now().is_on


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
def test_a_spoilt_file_announces_nothing(machine: Machine, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path_in(str(machine.folder)).write_bytes(content)
    assert machine.book().now().ends_in is None
    assert "cannot be used" in caplog.text


def test_what_a_file_says_is_bounded_and_clean(machine: Machine) -> None:
    path_in(str(machine.folder)).write_text(
        '{"schema":"telemetry.maintenance/1","until":9e15,"seconds":9e15,"reason":"\\u001b[2J' + "x" * 5000 + '"}'
    )
    now = machine.book().now()
    assert now.ends_in == 30 * DAY
    assert len(now.reason) == 200
    assert now.reason.isprintable()


def test_a_folder_that_takes_nothing_is_reported_each_time(machine: Machine) -> None:
    (machine.folder / "state").write_text("a file in the way of the folder")
    book = MaintenanceBook(machine.folder / "state" / "maintenance.json", Clock())
    book.announce(60.0, None)
    for _ in range(2):
        with pytest.raises(OSError, match="Not a directory"):
            book.save()
    assert book.now().is_on


def test_a_disk_that_hangs_holds_up_no_reader(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
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
    asking = threading.Thread(target=book.now, daemon=True)
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
        self.desk = MaintenanceDesk(MaintenanceBook(folder / "maintenance.json", self.clock), self.store)
        self.keep_house(8.0)

    def keep_house(self, cards: float) -> None:
        self.now += 10.0
        self.daemon_metrics.set_pci({"nvidia": int(cards)})
        self.desk.save()

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
    assert [shown_.ends_in for shown_ in shown] == [25.0, 15.0, 5.0, -5.0]
    assert [shown_.is_on for shown_ in shown] == [True, True, True, False]


def test_a_maintenance_that_is_ended_is_shown_no_longer(chores: Chores) -> None:
    chores.desk.verbs["maintenance_on"].answer(MaintenanceOn(25.0, ""))
    assert chores.store.snapshot().maintenance.is_on
    chores.desk.verbs["maintenance_off"].answer(NoArguments())
    assert not chores.store.snapshot().maintenance.is_on
