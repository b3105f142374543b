"""What a good file says arrives in the settings, and what is not said has its default."""

from __future__ import annotations

import pytest

from config.workbench import Workbench
from telemetry_daemon.config.settings import (
    ExpectSettings,
    ExportSettings,
    LogSettings,
    ParsersSettings,
    Settings,
    SourceSettings,
    StateSettings,
    TextfileSettings,
    WebSettings,
)

WHOLE_FILE = """
[log]
level = "debug"
format = "json"

[web]
listen_address = ["0.0.0.0:9000", "[::1]:9001"]
config_file = "/etc/telemetry/web.yml"
telemetry_path = "/node/metrics"
allowed_hosts = ["gpu7", "*.gpu.example.com", "10.0.0.7", "fd00::7"]

[sources.nvml]
mode = "always"
path = "/usr/lib/libnvidia-ml.so.1"
interval = 1
deadline = 0.5
wake_suspended = true

[sources.hy-smi]
mode = "never"

[sources.host]

[parsers]
paths = ["/etc/telemetry/parsers"]

[expect.devices]
nvidia = 8
hygon = 0

[state]
directory = "/srv/state"
runtime_directory = "/srv/run"

[export.textfile]
path = "/srv/text/telemetry.prom"
interval = 60
"""


def test_every_setting_of_a_file_arrives(bench: Workbench) -> None:
    assert bench.settings(WHOLE_FILE) == Settings(
        log=LogSettings("debug", "json"),
        web=WebSettings(
            ("0.0.0.0:9000", "[::1]:9001"),
            ("gpu7", "*.gpu.example.com", "10.0.0.7", "fd00::7"),
            "/etc/telemetry/web.yml",
            "/node/metrics",
        ),
        sources={
            "hy-smi": SourceSettings(mode="never"),
            "nvml": SourceSettings("always", "/usr/lib/libnvidia-ml.so.1", 1.0, 0.5, wake_suspended=True),
        },
        parsers=ParsersSettings(("/etc/telemetry/parsers",)),
        expect=ExpectSettings({"hygon": 0, "nvidia": 8}),
        state=StateSettings("/srv/state", "/srv/run"),
        export=ExportSettings(TextfileSettings("/srv/text/telemetry.prom", 60.0)),
    )


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


def test_all_hosts_may_be_allowed(bench: Workbench) -> None:
    assert bench.settings('[web]\nallowed_hosts = "*"\n').web.allowed_hosts == ("*",)


@pytest.mark.parametrize("path", ["/metrics", "/m", "/node-1/gpu.metrics", "/apix"])
def test_a_path_of_the_metrics_page_may_be_chosen(bench: Workbench, path: str) -> None:
    assert bench.settings(f'[web]\ntelemetry_path = "{path}"\n').web.telemetry_path == path


def test_sources_are_sorted_so_that_equal_files_give_equal_settings(bench: Workbench) -> None:
    one = '[sources.nvml]\nmode = "never"\n[sources.host]\nmode = "always"\n'
    other = '[sources.host]\nmode = "always"\n[sources.nvml]\nmode = "never"\n'
    assert bench.settings(one) == bench.settings(other)
