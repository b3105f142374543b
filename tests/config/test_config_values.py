"""What a good file says arrives in the settings, and what is not said has its default."""

from __future__ import annotations

import pytest

from config.workbench import FULL, FULL_FILE, Workbench
from telemetry_daemon.config.settings import Settings


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_every_setting_of_a_file_arrives(bench: Workbench, line_end: str) -> None:
    settings = bench.settings(FULL_FILE.replace("\n", line_end))
    assert settings == FULL
    assert isinstance(settings.source("nvml").interval, float), "whole seconds have the type of fractions"


@pytest.mark.parametrize("path", ["/m", "/node-1/gpu.metrics", "/apix"])
def test_the_path_of_the_page_may_be_chosen(bench: Workbench, path: str) -> None:
    web = bench.settings(f'[web]\ntelemetry_path = "{path}"\nallowed_hosts = "*"\n').web
    assert (web.telemetry_path, web.allowed_hosts) == (path, ("*",))


@pytest.mark.parametrize("text", [None, "", "# nothing\n", "[log]\n[web]\n[sources]\n[export.textfile]\n"])
def test_what_is_not_said_has_its_default(bench: Workbench, text: str | None) -> None:
    assert bench.settings(text) == Settings()


@pytest.mark.parametrize(
    "address",
    [
        ":19820",
        "127.0.0.1:0",
        "0.0.0.0:65535",
        "[fe80::1%eth0]:19820",
        "node-7.cluster.example:80",
        "unix:/run/telemetry/web.sock",
    ],
)
def test_one_address_may_stand_without_a_list(bench: Workbench, address: str) -> None:
    assert bench.settings(f'[web]\nlisten_address = "{address}"\n').web.listen_address == (address,)
