"""The settings in force, as plain frozen data; the package config makes and validates them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

Mode = Literal["auto", "always", "never", "inventory"]

DEFAULT_ADDRESS = "127.0.0.1:19400"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What goes to standard error, and how."""

    level: str = "info"
    format: str = "text"


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Where the metrics are served; `config_file` is the exporter-toolkit's web configuration."""

    listen_address: tuple[str, ...] = (DEFAULT_ADDRESS,)
    config_file: str = ""
    telemetry_path: str = "/metrics"
    allowed_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How one source is polled; None leaves the parser's own figure. `polls_off` are the polls that are never asked."""

    mode: Mode = "auto"
    path: str = ""
    interval: float | None = None
    deadline: float | None = None
    wake_suspended: bool = False
    polls_off: tuple[str, ...] = ()

    def is_off(self, poll: str) -> bool:
        """Whether a poll is switched off, alone or with all of its source."""
        return self.mode == "never" or poll in self.polls_off


@dataclass(frozen=True, slots=True)
class RankSettings:
    """Where the job's rank table is, which of its servers this node is, and whether that server is shown by number."""

    table: str = ""
    server: str = ""
    map_addresses: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a running daemon or command."""

    log: LogSettings = field(default_factory=LogSettings)
    web: WebSettings = field(default_factory=WebSettings)
    sources: tuple[tuple[str, SourceSettings], ...] = ()
    plugin_paths: tuple[str, ...] = ()
    expected_devices: tuple[tuple[str, int], ...] = ()
    state_directory: str = "/var/lib/telemetry"
    runtime_directory: str = "/run/telemetry"
    textfile_path: str = ""
    textfile_interval: float = 15.0
    ranks: RankSettings = field(default_factory=RankSettings)

    def source(self, name: str) -> SourceSettings:
        """The settings of a source, the defaults for one that is not named."""
        return dict(self.sources).get(name, SourceSettings())

    def all_known(self, sources: Collection[str], polls: Mapping[str, Collection[str]]) -> bool:
        """Whether there are all sources and polls that are named."""
        return all(name in sources and {*source.polls_off} <= {*polls.get(name, ())} for name, source in self.sources)


# The flags of the command line that change one setting, by the setting's path.
FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "log.level": "--log.level",
        "log.format": "--log.format",
        "web.listen_address": "--web.listen-address",
        "web.config_file": "--web.config.file",
        "web.telemetry_path": "--web.telemetry-path",
    }
)
