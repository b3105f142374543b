"""A driver that is loaded after the service: systemd must restart the service once, and not too early."""

import errno
from pathlib import Path

import pytest

from telemetry_daemon.readers.device_nodes import MIN_UPTIME_SECONDS, DeviceNodeWatch, denial_errno, is_under_systemd


class Machine:
    """Device nodes in a folder, and the kernel's files about them."""

    def __init__(self, folder):
        self.folder = folder
        self.now = 100.0
        self.refusals = {}

    def add(self, name, refusal=errno.EPERM):
        (self.folder / name).touch()
        self.refusals[str(self.folder / name)] = refusal

    def watch(self):
        return DeviceNodeWatch(self.folder, lambda: self.now, (f"{self.folder}/nvidia*",), self.refusals.__getitem__)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("refusal", "expected"), [(errno.EPERM, ["nvidia0"]), (errno.EACCES, []), (errno.ENXIO, []), (0, [])]
)
def test_denied_nodes_are_reported(machine, refusal, expected):
    machine.add("nvidia0", refusal)
    watch = machine.watch()
    machine.now += MIN_UPTIME_SECONDS
    assert [Path(path).name for path in watch.record_newly_denied()] == expected


def test_denied_nodes_are_not_reported_soon_after_a_start(machine):
    machine.add("nvidia0")
    watch = machine.watch()
    machine.now += MIN_UPTIME_SECONDS - 1
    assert watch.record_newly_denied() == ()
    machine.now += 1
    assert len(watch.record_newly_denied()) == 1


def test_denied_node_is_reported_once_across_restarts(machine):
    """A node that the unit never allows costs one restart; a later node causes another one."""
    machine.add("nvidia0")
    first = machine.watch()
    machine.now += MIN_UPTIME_SECONDS
    assert len(first.record_newly_denied()) == 1
    second = machine.watch()
    machine.now += MIN_UPTIME_SECONDS
    assert second.record_newly_denied() == ()
    machine.add("nvidia1")
    assert [Path(path).name for path in second.record_newly_denied()] == ["nvidia1"]


def test_nothing_is_reported_without_a_state_folder(tmp_path):
    """Otherwise the service would restart endlessly."""
    machine = Machine(tmp_path)
    machine.add("nvidia0")
    watch = DeviceNodeWatch(
        tmp_path / "gone", lambda: machine.now, (f"{tmp_path}/nvidia*",), machine.refusals.__getitem__
    )
    machine.now += MIN_UPTIME_SECONDS
    assert watch.record_newly_denied() == ()


def test_denial_is_read_from_the_kernel(tmp_path):
    node = tmp_path / "node"
    node.touch()
    assert denial_errno(str(node)) == 0
    assert denial_errno(str(tmp_path / "none")) == errno.ENOENT


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({"INVOCATION_ID": "1", "NOTIFY_SOCKET": "/run/x"}, True), ({"INVOCATION_ID": "1"}, False), ({}, False)],
)
def test_only_a_service_manager_restarts_the_daemon(environment, expected):
    assert is_under_systemd(environment) is expected
