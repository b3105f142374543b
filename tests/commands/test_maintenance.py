"""`telemetry maintenance` with the running daemon, and `telemetry forget` without it."""

import re
import signal
from pathlib import Path

from kits.command_line import run_main
from kits.daemon import Daemon, bare_config
from kits.waiting import PATIENCE_SECONDS
from telemetry_daemon.state import devices_file
from telemetry_daemon.state.devices_file import StoredDevices
from telemetry_parsers.model import Identity

HOST_ONLY = "[sources.host]\ninterval = 1.0\n"


def samples(page: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r"^(telemetry_maintenance\S*) (\S+)$", page, re.MULTILINE)}


def test_maintenance_survives_a_restart_and_ends(tmp_path: Path) -> None:
    config = ("--config", str(tmp_path / "telemetry.toml"))
    with Daemon(tmp_path, HOST_ONLY) as running:
        assert samples(running.page()) == {"telemetry_maintenance": 0.0}
        assert running.document()["maintenance"] is None
        assert run_main("maintenance", *config)[:2] == (0, "the node is not in maintenance\n")
        status, output, _ = run_main("maintenance", "on", "--for", "2h", "--reason", "new <fans>", *config)
        assert (status, output.splitlines()[0][:50]) == (0, "in maintenance for 2 h 0 min more, until " + output[41:50])
        assert output.splitlines()[0].endswith("UTC: new <fans>")
        page = samples(running.page())
        assert page["telemetry_maintenance"] == 1.0
        assert 7000 < page["telemetry_maintenance_ends_in_seconds"] <= 7200
        assert running.document()["maintenance"]["reason"] == "new <fans>"
        assert "new &lt;fans&gt;" in running.get("/")[1]
        running.until(lambda: running.logged("maintenance announced"))
        running.signal(signal.SIGTERM)
        assert running.process is not None
        running.process.wait(PATIENCE_SECONDS)
    with Daemon(tmp_path, HOST_ONLY) as running:
        assert samples(running.page())["telemetry_maintenance"] == 1.0
        running.until(lambda: running.logged("maintenance continues"))
        assert "new <fans>" in run_main("maintenance", "status", *config)[1]
        assert run_main("maintenance", "off", *config)[:2] == (0, "maintenance is off\n")
        page = samples(running.page())
        assert page["telemetry_maintenance"] == 0.0
        assert page["telemetry_maintenance_ends_in_seconds"] <= 0
        assert run_main("maintenance", "off", *config)[:2] == (0, "the node was not in maintenance\n")
        assert run_main("maintenance", "on", "--for", "1s", *config)[0] == 0
        running.until(lambda: samples(running.page())["telemetry_maintenance"] == 0.0)
        running.until(lambda: running.logged("maintenance has ended"))


def test_invalid_reason_is_refused() -> None:
    for reason in ("x" * 201, "two\nlines"):
        status, _, message = run_main("maintenance", "on", "--reason", reason)
        assert (status, "at most 200 printable characters" in message) == (64, True), message


def test_announcement_needs_a_daemon(tmp_path: Path) -> None:
    status, _, message = run_main("maintenance", "on", "--config", bare_config(tmp_path))
    assert (status, "no daemon answers" in message) == (69, True), message


def test_unsaved_maintenance_is_reported_and_in_force(tmp_path: Path) -> None:
    config = ("--config", str(tmp_path / "telemetry.toml"))
    (tmp_path / "state").write_text("in the way of the folder")
    with Daemon(tmp_path, HOST_ONLY) as running:
        status, _, message = run_main("maintenance", "on", *config)
        assert (status, "this change will be lost when the daemon restarts" in message) == (2, True), message
        assert samples(running.page())["telemetry_maintenance"] == 1.0


ASCEND = "4ED7F9F2 DA8741D8"


def test_id_with_blanks_is_quoted(tmp_path: Path) -> None:
    path = devices_file.path_in(f"{tmp_path}/state")
    devices_file.save(path, StoredDevices((Identity(ASCEND, "ascend", "0", "910B3", lost_since=1.7e9),), since=1.6e9))
    config = bare_config(tmp_path)
    status, _, message = run_main("forget", "4ED7F9F2", "--config", config)
    assert (status, message) == (
        64,
        f"telemetry: '4ED7F9F2' is not a lost device, and has no open event; the lost devices are '{ASCEND}'\n",
    )
    assert run_main("forget", ASCEND, "--config", config)[:2] == (0, f"forgot {ASCEND}\n")
    assert devices_file.load(path) == StoredDevices(since=1.6e9)


def test_lost_devices_of_a_vendor_or_all_are_forgotten(tmp_path: Path) -> None:
    path = devices_file.path_in(f"{tmp_path}/state")
    here = Identity("GPU-1", "amd", "0", "MI300X")
    lost = [
        Identity(f"GPU-{n}", vendor, "1", "X", lost_since=1.7e9) for n, vendor in ((2, "amd"), (3, "amd"), (4, "acme"))
    ]
    devices_file.save(path, StoredDevices((here, *lost)))
    config = bare_config(tmp_path)
    where = ("--config", config)
    assert run_main("forget", "--all-lost", "--vendor", "amd", *where)[:2] == (0, "forgot 2 lost devices\n")
    assert {device.id for device in devices_file.load(path).devices} == {"GPU-1", "GPU-4"}
    assert run_main("forget", "GPU-1", *where)[0] == 64, "it is not lost"
    assert run_main("forget", "--all-lost", *where)[:2] == (0, "forgot 1 lost device\n")
    assert run_main("forget", "--all-lost", *where)[:2] == (0, "forgot 0 lost devices\n")
    assert devices_file.load(path) == StoredDevices((here,))


def test_unknown_vendor_is_reported(tmp_path: Path) -> None:
    config = bare_config(tmp_path)
    forget = ("forget", "--all-lost", "--config", config, "--vendor")
    assert run_main(*forget, "nvidai")[::2] == (64, "telemetry: unknown vendor 'nvidai'; did you mean 'nvidia'?\n")
    assert "the vendors are amd, ascend" in run_main(*forget, "zzz")[2]
    assert run_main(*forget, "nvidia")[:2] == (0, "forgot 0 lost devices\n")
