"""A full disk: no torn or temporary file remains, one log line, scrapes work, and everything recovers."""

import subprocess
from pathlib import Path

import prometheus_client.parser as oracle
import pytest

from faults.small_disk import SmallDisk
from kits.daemon import COMMAND, Daemon, clean_environment
from kits.tool_node import TOOL, series, tool_node
from kits.waiting import PATIENCE_SECONDS
from telemetry_daemon.recordings.flight_recorder import FlightFileWriter
from telemetry_daemon.recordings.last_minutes import CaptureLine, RecentCaptures
from telemetry_daemon.state.devices_file import DevicesFileWriter, load
from telemetry_daemon.state.flights import file_name, list_flights
from telemetry_parsers.codec.captures import capture_from_plain, capture_to_plain, decode_line, encode_line
from telemetry_parsers.model import Capture, Identity, Library

pytestmark = pytest.mark.installed

UP = "accelerator_up{"


def families(path: Path) -> set[str]:
    text = path.read_text()
    assert text.endswith("\n")
    return {family.name for family in oracle.text_string_to_metric_families(text)}


@pytest.mark.needs("root")
def test_the_textfile_stays_whole_and_comes_back(tmp_path: Path, disk: SmallDisk) -> None:
    path = disk.folder / "telemetry.prom"
    daemon, _ = tool_node(tmp_path, f'[export.textfile]\npath = "{path}"\ninterval = 1\n')
    with daemon:
        daemon.until(lambda: path.exists() and "accelerator_up" in families(path))
        disk.fill()
        before = path.stat().st_mtime_ns
        daemon.until(lambda: path.exists() and path.stat().st_mtime_ns > before)
        assert "accelerator_up" in families(path)
        path.unlink()
        disk.fill()
        daemon.until(lambda: daemon.logged("cannot write the textfile"))
        assert not path.exists(), "the collector would go on telling old numbers"
        assert series(daemon, UP)
        disk.empty()
        daemon.until(path.exists)
        assert "accelerator_up" in families(path)
        assert [path.name for path in disk.folder.iterdir()] == ["telemetry.prom"]
        daemon.logs("cannot write the textfile")
        assert daemon.stop()[0] == 0
        assert list(disk.folder.iterdir()) == []


@pytest.mark.needs("root")
def test_unsaved_devices_are_saved_once_there_is_space(disk: SmallDisk, caplog: pytest.LogCaptureFixture) -> None:
    path = disk.folder / "devices.json"
    first, second = (Identity(id=name, vendor="acme", device="0", model="A1") for name in ("ACME-1", "ACME-2"))
    memory = DevicesFileWriter(path, 0.0)
    memory.save((first,))
    disk.fill()
    for _ in range(3):
        memory.save((first, second))
    assert [identity.id for identity in load(path).devices] == ["ACME-1"]
    assert [record.message for record in caplog.records] == [
        "the devices cannot be saved and will be forgotten at a restart"
    ]
    disk.empty()
    memory.save((first, second))
    assert [identity.id for identity in load(path).devices] == ["ACME-1", "ACME-2"]
    assert [path.name for path in disk.folder.iterdir()] == ["devices.json"]


@pytest.mark.needs("root")
def test_recording_ends_with_a_whole_line_and_a_reason(tmp_path: Path, disk: SmallDisk) -> None:
    daemon, _ = tool_node(tmp_path)
    daemon.write_config(daemon.config)
    recording = disk.folder / "recording.jsonl"
    command = [*COMMAND, "record", "--for", "60", "-o", str(recording), "--config", str(daemon.config_path)]
    (disk.folder / "other").write_bytes(bytes(184 << 10))  # one round of all sources takes 44 KiB
    done = subprocess.run(command, env=clean_environment(daemon.environment), capture_output=True, text=True)
    assert done.returncode == 69
    assert done.stderr.endswith("free some space or record to another disk\n")
    assert "No space left on device" in done.stderr
    captures = [capture_from_plain(decode_line(line)) for line in recording.read_text().splitlines()]
    assert recording.read_bytes().endswith(b"\n")
    assert TOOL in {capture.source for capture in captures}
    assert all(not capture.outputs or capture.outputs[0].text for capture in captures if capture.source == TOOL)


@pytest.mark.needs("curl")
def test_daemon_without_a_working_log_still_serves(tmp_path: Path) -> None:
    """/dev/full refuses every line from the first on."""
    port = tmp_path / "web.sock"
    ready, _ = tool_node(tmp_path)
    ready.write_config(ready.config)
    command = ["sh", "-c", 'exec "$@" 2>/dev/full', "sh", *COMMAND, "serve", "--config", str(ready.config_path)]
    command += ["--web.listen-address", f"unix:{port}"]
    with subprocess.Popen(command, env=clean_environment(ready.environment), stdout=subprocess.DEVNULL) as process:
        try:
            Daemon.until(ready, port.exists)
            asked = ["curl", "-sS", "--fail", "--unix-socket", str(port), "http://localhost/metrics"]
            Daemon.until(
                ready,
                lambda: UP in subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_SECONDS).stdout,
            )
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()


@pytest.mark.needs("root")
def test_flight_file_is_complete_or_missing(disk: SmallDisk) -> None:
    line = CaptureLine(
        "smi", "fast", 1.0, encode_line(capture_to_plain(Capture("smi", "fast", Library("x")))).encode() + b"\n"
    )
    ring = RecentCaptures()
    ring.add(line)
    writer = FlightFileWriter(str(disk.folder), ())
    disk.fill()
    assert "No space left on device" in writer.write(file_name(1.7e9, "lost"), ring.packed())
    assert [path.name for path in disk.folder.rglob("*") if path.is_file()] == ["ballast"]
    disk.empty()
    assert writer.write(file_name(1.7e9, "lost"), ring.packed()) == ""
    assert [flight.cause for flight in list_flights(str(disk.folder))] == ["lost"]
    disk.fill()
    assert "No space left on device" in writer.write(file_name(1.8e9, "lost"), ring.packed())
    disk.empty()
    assert [flight.wall_time for flight in list_flights(str(disk.folder))] == [1.7e9]
