"""`telemetry forget` where no daemon runs."""

from __future__ import annotations

from pathlib import Path

from daemon_kit import run
from telemetry_daemon.state import devices_file
from telemetry_parsers.model import Identity

ASCEND = "4ED7F9F2 DA8741D8"


def test_an_id_with_blanks_is_told_as_it_is_to_be_typed(tmp_path: Path) -> None:
    path = devices_file.path_in(str(tmp_path))
    devices_file.save(path, [Identity(ASCEND, "ascend", "0", "910B3", lost_since=1.7e9)])
    config = tmp_path / "telemetry.toml"
    config.write_text(f'[state]\ndirectory = "{tmp_path}"\nruntime_directory = "{tmp_path}/run"\n')
    status, _, told = run("forget", "4ED7F9F2", "--config", str(config))
    assert (status, told) == (64, f"telemetry: '4ED7F9F2' is not a lost device; the lost devices are '{ASCEND}'\n")
    assert run("forget", ASCEND, "--config", str(config))[:2] == (0, f"forgot {ASCEND}\n")
    assert devices_file.load(path) == ()
