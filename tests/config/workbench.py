"""Writes configuration files and reads them back through the public functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import pytest

from telemetry_daemon.config.file import LoadedConfig, load_with_origins
from telemetry_daemon.config.inputs import ConfigError, ConfigInputs
from telemetry_daemon.config.settings import (
    ExpectSettings,
    ExportSettings,
    LogSettings,
    ParsersSettings,
    PollSettings,
    Settings,
    SourceSettings,
    StateSettings,
    TextfileSettings,
    WebSettings,
)

SOURCES = ("host", "hy-smi", "mthreads-gmi", "nvml")
# A file that sets nearly everything, and its settings.
FULL_FILE = """
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
[sources.nvml.polls.links]
mode = "never"
[sources.nvml.polls.processes]
mode = "never"
[sources.hy-smi]
mode = "never"
[sources.host]
[parsers]
paths = ["/etc/telemetry/parsers", '/with "quotes" and ünïcode and \\']
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
_OFF = dict.fromkeys(("links", "processes"), PollSettings("never"))
FULL = Settings(
    log=LogSettings("debug", "json"),
    web=WebSettings(
        ("0.0.0.0:9000", "[::1]:9001"),
        ("gpu7", "*.gpu.example.com", "10.0.0.7", "fd00::7"),
        "/etc/telemetry/web.yml",
        "/node/metrics",
    ),
    sources={
        "hy-smi": SourceSettings(mode="never"),
        "nvml": SourceSettings("always", "/usr/lib/libnvidia-ml.so.1", 1.0, 0.5, wake_suspended=True, polls=_OFF),
    },
    parsers=ParsersSettings(("/etc/telemetry/parsers", '/with "quotes" and ünïcode and \\')),
    expect=ExpectSettings({"hygon": 0, "nvidia": 8}),
    state=StateSettings("/srv/state", "/srv/run"),
    export=ExportSettings(TextfileSettings("/srv/text/telemetry.prom", 60.0)),
)


@dataclass(frozen=True)
class Workbench:
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "telemetry.toml"

    def inputs(
        self,
        text: str | bytes | None = None,
        environment: Mapping[str, str] | None = None,
        overrides: Mapping[str, object] | None = None,
        known_sources: tuple[str, ...] | None = SOURCES,
        known_polls: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> ConfigInputs:
        """Return the inputs of a run with this file, these variables and flags; without `text` there is no file."""
        if text is not None:
            self.file.write_bytes(text.encode() if isinstance(text, str) else text)
        return ConfigInputs(
            environment=environment or {},
            overrides=overrides or {},
            known_sources=known_sources,
            known_polls=known_polls,
            default_path=str(self.file),
        )

    def loaded(self, *arguments: object, **more: object) -> LoadedConfig:
        return load_with_origins(self.inputs(*arguments, **more))  # type: ignore[arg-type]  # passed through

    def settings(self, *arguments: object, **more: object) -> Settings:
        return self.loaded(*arguments, **more).settings

    def complaints(self, *arguments: object, **more: object) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.loaded(*arguments, **more)
        lines = str(caught.value).split("\n")
        assert lines == list(caught.value.lines)
        return [line.replace(f"{self.folder}/", "") for line in lines]
