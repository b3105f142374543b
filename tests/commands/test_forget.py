"""`telemetry forget` where no daemon runs."""

from __future__ import annotations

from pathlib import Path

from kits.command_line import run_main
from kits.daemon import bare_config
from telemetry_daemon.state import devices_file
from telemetry_daemon.state.devices_file import Remembered
from telemetry_parsers.model import Identity

ASCEND = "4ED7F9F2 DA8741D8"


def test_an_id_with_blanks_is_told_as_it_is_to_be_typed(tmp_path: Path) -> None:
    path = devices_file.path_in(f"{tmp_path}/state")
    devices_file.save(path, Remembered((Identity(ASCEND, "ascend", "0", "910B3", lost_since=1.7e9),), since=1.6e9))
    config = bare_config(tmp_path)
    status, _, told = run_main("forget", "4ED7F9F2", "--config", config)
    assert (status, told) == (
        64,
        f"telemetry: '4ED7F9F2' is not a lost device, and has no open event; the lost devices are '{ASCEND}'\n",
    )
    assert run_main("forget", ASCEND, "--config", config)[:2] == (0, f"forgot {ASCEND}\n")
    assert devices_file.load(path) == Remembered(since=1.6e9)


def test_all_lost_devices_or_those_of_a_vendor_and_no_others(tmp_path: Path) -> None:
    path = devices_file.path_in(f"{tmp_path}/state")
    here = Identity("GPU-1", "amd", "0", "MI300X")
    lost = [
        Identity(f"GPU-{n}", vendor, "1", "X", lost_since=1.7e9) for n, vendor in ((2, "amd"), (3, "amd"), (4, "acme"))
    ]
    devices_file.save(path, Remembered((here, *lost)))
    config = bare_config(tmp_path)
    where = ("--config", config)
    assert run_main("forget", "--all-lost", "--vendor", "amd", *where)[:2] == (0, "forgot 2 lost devices\n")
    assert {one.id for one in devices_file.load(path).devices} == {"GPU-1", "GPU-4"}
    assert run_main("forget", "GPU-1", *where)[0] == 64, "it is not lost"
    assert run_main("forget", "--all-lost", *where)[:2] == (0, "forgot 1 lost device\n")
    assert run_main("forget", "--all-lost", *where)[:2] == (0, "forgot 0 lost devices\n")
    assert devices_file.load(path) == Remembered((here,))


def test_a_vendor_that_nobody_knows_is_told_where_none_was_forgotten(tmp_path: Path) -> None:
    config = bare_config(tmp_path)
    forget = ("forget", "--all-lost", "--config", config, "--vendor")
    assert run_main(*forget, "nvidai")[::2] == (64, "telemetry: unknown vendor 'nvidai'; did you mean 'nvidia'?\n")
    assert "the vendors are amd, ascend" in run_main(*forget, "zzz")[2]
    assert run_main(*forget, "nvidia")[:2] == (0, "forgot 0 lost devices\n")


def test_what_is_to_be_forgotten_must_be_said(tmp_path: Path) -> None:
    for arguments, word in (
        ((), "required"),
        (("GPU-1", "--all-lost"), "--all-lost"),
        (("GPU-1", "--vendor", "amd"), "--vendor"),
    ):
        status, _, told = run_main("forget", *arguments)
        assert (status, word in told) == (64, True), told
