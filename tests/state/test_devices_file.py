"""Devices are remembered over restarts, and an unusable file costs only the memory."""

import json
import logging
import os
import threading

import pytest

from telemetry_daemon.state import devices_file
from telemetry_daemon.state.devices_file import StoredDevices
from telemetry_parsers.model import Identity

CARD = Identity(
    id="GPU-1", vendor="nvidia", device="0", model="X", index=0, uuid="GPU-1", bus_id="0000:33:00.0",
    power_kind="average", listed_by=("nvml", "nvidia-smi"), lost_since=12.5,
)  # fmt: skip


def test_saved_devices_are_loaded_without_simulated_ones(tmp_path, caplog):
    path = devices_file.path_in(str(tmp_path / "state"))
    assert (devices_file.load(path), caplog.records) == (StoredDevices(), [])
    devices_file.save(path, StoredDevices((CARD, Identity("s", "amd", "0", "Y", simulated=True))))
    assert devices_file.load(path) == StoredDevices((CARD,))
    assert [entry.name for entry in path.parent.iterdir()] == ["devices.json"]


def test_file_keeps_the_time_of_its_creation(tmp_path):
    path = devices_file.path_in(str(tmp_path))
    assert [devices_file.DevicesFileWriter(path, now).stored.since for now in (100.5, 200.5)] == [100.5, 200.5]
    devices_file.DevicesFileWriter(path, 300.5).save((CARD,))
    assert devices_file.DevicesFileWriter(path, 400.5).stored.since == devices_file.load(path).since == 300.5
    path.unlink()
    assert devices_file.DevicesFileWriter(path, 500.5).stored.since == 500.5


def test_file_of_an_earlier_version_has_no_time(tmp_path):
    path = devices_file.path_in(str(tmp_path))
    devices_file.save(path, StoredDevices((CARD,), since=100.5))
    document = json.loads(path.read_text())
    del document["since"], document["events"]
    path.write_text(json.dumps(document))
    memory = devices_file.DevicesFileWriter(path, 200.5)
    assert memory.stored == StoredDevices((CARD,), since=0.0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b'{"schema": "telemetry.devices/9", "devices": []}',
        b'{"schema": "telemetry.devices/1", "devices": [{}]}',
        json.dumps({"schema": "telemetry.devices/1", "devices": [{"id": 7}]}).encode(),
    ],
)
def test_unusable_file_is_reported_and_ignored(tmp_path, caplog, content):
    path = devices_file.path_in(str(tmp_path))
    path.write_bytes(content)
    assert devices_file.load(path) == StoredDevices()
    assert [(record.levelno, record.path) for record in caplog.records] == [(logging.WARNING, str(path))]


def test_file_of_root_is_readable_for_the_service(tmp_path):
    """Root runs `telemetry forget` while the service is stopped, perhaps with a strict umask."""
    service = (12345, 12346) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    path = devices_file.path_in(str(tmp_path / "state"))
    path.parent.mkdir()
    os.chown(path.parent, *service)
    devices_file.save(path, StoredDevices((CARD,)))
    status = path.stat()
    assert (status.st_uid, status.st_gid) == service


def test_concurrent_saves_leave_one_valid_file(tmp_path, caplog):
    path = devices_file.path_in(str(tmp_path))
    memory = devices_file.DevicesFileWriter(path, 0.0)
    cards = [tuple(Identity(f"GPU-{n}-{k}", "nvidia", "0", "X") for k in range(n)) for n in range(1, 60)]

    def keep(mine):
        for identities in mine:
            memory.save(identities)

    threads = [threading.Thread(target=keep, args=(cards[start::4],)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.message for record in caplog.records] == []
    assert devices_file.load(path) == memory.stored
    assert [entry.name for entry in tmp_path.iterdir()] == ["devices.json"]
