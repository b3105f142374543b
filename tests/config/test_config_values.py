"""What a good file says arrives in the settings, and what is not said has its default."""

from __future__ import annotations

import pytest

from config.workbench import FULL, FULL_FILE, Workbench
from telemetry_daemon.config.settings import Settings


def test_every_setting_of_a_file_arrives(bench: Workbench) -> None:
    assert bench.settings(FULL_FILE) == FULL


@pytest.mark.parametrize("text", [None, "", "# nothing\n", "[log]\n[web]\n[sources]\n[export.textfile]\n"])
def test_what_is_not_said_has_its_default(bench: Workbench, text: str | None) -> None:
    assert bench.settings(text) == Settings()


def test_whole_seconds_become_the_same_type_as_fractions(bench: Workbench) -> None:
    interval = bench.settings("[sources.nvml]\ninterval = 30\n").source("nvml").interval
    assert isinstance(interval, float)
    assert interval == 30.0


def test_windows_line_ends_are_read(bench: Workbench) -> None:
    assert bench.settings('[log]\r\nlevel = "error"\r\n').log.level == "error"


@pytest.mark.parametrize(
    "address",
    [
        ":19820",
        "127.0.0.1:0",
        "0.0.0.0:65535",
        "[::]:19820",
        "[fe80::1%eth0]:19820",
        "localhost:19820",
        "node-7.cluster.example:80",
        "unix:/run/telemetry/web.sock",
    ],
)
def test_one_address_may_stand_without_a_list(bench: Workbench, address: str) -> None:
    assert bench.settings(f'[web]\nlisten_address = "{address}"\n').web.listen_address == (address,)


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("allowed_hosts", "*", ("*",)),
        *(("telemetry_path", path, path) for path in ("/metrics", "/m", "/node-1/gpu.metrics", "/apix")),
    ],
)
def test_hosts_and_the_path_of_the_page_may_be_chosen(
    bench: Workbench, setting: str, value: str, expected: object
) -> None:
    assert getattr(bench.settings(f'web.{setting} = "{value}"\n').web, setting) == expected


def test_sources_are_sorted_so_that_equal_files_give_equal_settings(bench: Workbench) -> None:
    one = '[sources.nvml]\nmode = "never"\n[sources.host]\nmode = "always"\n'
    other = '[sources.host]\nmode = "always"\n[sources.nvml]\nmode = "never"\n'
    assert bench.settings(one) == bench.settings(other)
