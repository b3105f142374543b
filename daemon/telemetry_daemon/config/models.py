"""The configuration file's sections as pydantic models: every setting with its default, its limits and what it does."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from telemetry_daemon.config import rules
from telemetry_daemon.config.settings import (
    DEFAULT_ADDRESS,
    LogSettings,
    Mode,
    RankSettings,
    Settings,
    SourceSettings,
    WebSettings,
)

_DEFAULTS = Settings()

AbsolutePath = Annotated[str, AfterValidator(rules.absolute_path)]
OptionalPath = Annotated[str, AfterValidator(rules.absolute_path_or_none)]
SourceName = Annotated[str, AfterValidator(rules.source_name)]
ListenAddress = Annotated[str, AfterValidator(rules.listen_address)]
AllowedHost = Annotated[str, AfterValidator(rules.allowed_host)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Section(BaseModel):
    """A section that refuses what it does not know and converts nothing."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class LogSection(Section):
    """What is logged to standard error, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Messages less severe than this are not written."
    )
    format: Literal["text", "json"] = Field(
        default="text",
        description="`text` for people and the journal, `json` (one object per line) for log collectors.",
    )


class WebSection(Section):
    """Where the metrics are served, and to whom."""

    listen_address: Annotated[
        list[ListenAddress], BeforeValidator(_as_list), AfterValidator(rules.all_different), Field(min_length=1)
    ] = Field(
        default=[DEFAULT_ADDRESS],
        description=(
            "Where to listen: an address or a list of addresses. `host:port`, `[IPv6 address]:port`, `:port` for every "
            "interface, or `unix:/path`. The default can be reached from this machine only; for a Prometheus elsewhere, "
            "use `:19400`, and protect it with `config_file` or a firewall."
        ),
        examples=[[":19400"]],
    )
    allowed_hosts: Annotated[list[AllowedHost], BeforeValidator(_as_list), AfterValidator(rules.all_different)] = Field(
        default=[],
        description=(
            "Host names that requests may be for, without port. Loopback addresses always answer only for "
            "`localhost`, addresses such as `127.0.0.1`, and these names, so that no page in a browser on this machine "
            "can read the metrics through a name of its own; other requests get 421. Needed behind a proxy that keeps the "
            "client's `Host`. `*.example.com` allows all names below one, `*` all. Once it is set, every other address "
            "holds to it, too, and answers for its own IP address besides. Empty: other addresses answer for every name."
        ),
        examples=[["telemetry.example.com", "*.gpu.example.com"]],
    )
    config_file: OptionalPath = Field(
        default="",
        description=(
            "A web configuration file in the format of the Prometheus exporter-toolkit: TLS, client certificates, "
            "passwords. Empty: plain HTTP, open to everybody who can reach the address."
        ),
        examples=["/etc/telemetry/web.yml"],
    )
    telemetry_path: Annotated[str, AfterValidator(rules.route)] = Field(
        default="/metrics", description="The path of the metrics page."
    )


class PollSection(Section):
    """One of a source's polls. POLL is its name as listed by `telemetry doctor`, for example `processes`."""

    mode: Literal["auto", "never"] = Field(
        default="auto",
        description="`auto`: asked as its source is. `never`: not asked; what it alone tells is then absent.",
    )


class SourceSection(Section):
    """How one source is polled. NAME is the source's name as listed by `telemetry doctor`, for example `mthreads-gmi`."""

    mode: Mode = Field(
        default="auto",
        description=(
            "`auto`: polled if it is found, and less often while a cheaper source gives the same readings; a missing one "
            "is looked for again at least once a minute. `always`: polled at its full rate, whatever other sources "
            "give. `inventory`: polled at the start and then only as often as inventories are. `never`: not used."
        ),
    )
    path: OptionalPath = Field(
        default="",
        description=(
            "The tool to run. For a source that reads files: the folder that stands for `/`, such as `/host` in a container "
            "that has the host's /sys at /host/sys. Empty: the tool is looked for where its vendor installs it."
        ),
        examples=["/opt/vendor/bin/tool"],
    )
    interval: float | None = Field(
        default=None, ge=0.2, le=86_400, description="Seconds between fast polls.", examples=[30.0]
    )
    deadline: float | None = Field(
        default=None, ge=0.1, le=300, description="Seconds after which a poll is given up.", examples=[5.0]
    )
    wake_suspended: bool = Field(
        default=False, description="Poll even while all cards of the vendor are suspended; this keeps them awake."
    )
    polls: dict[str, PollSection] = Field(default_factory=dict)

    def to_settings(self) -> SourceSettings:
        """The plain settings of the source."""
        off = tuple(sorted(name for name, poll in self.polls.items() if poll.mode == "never"))
        return SourceSettings(**self.model_dump(exclude={"polls"}), polls_off=off)

    @classmethod
    def from_settings(cls, settings: SourceSettings) -> SourceSection:
        """The section that gives these settings."""
        plain = asdict(settings)
        off = plain.pop("polls_off")
        return cls.model_validate({**plain, "polls": {name: {"mode": "never"} for name in off}})


class ParsersSection(Section):
    """Parsers that are not part of device telemetry."""

    paths: Annotated[list[AbsolutePath], AfterValidator(rules.all_different)] = Field(
        default=[],
        description=(
            "Folders with parser modules. They must belong to root or to the service's user and be writable by nobody else."
        ),
        examples=[["/etc/telemetry/parsers"]],
    )


class ExpectSection(Section):
    """What this node should have."""

    devices: dict[str, Annotated[int, Field(ge=0, le=4096)]] = Field(
        default={},
        description=(
            "How many devices of each vendor the node should have. Exported as `telemetry_devices_expected`, so that an "
            "alert fires for a device that has been missing from the start."
        ),
        examples=[{"nvidia": 8}],
    )


class StateSection(Section):
    """Where files are kept."""

    directory: AbsolutePath = Field(
        default=_DEFAULTS.state_directory,
        description="Where the identities of devices are kept across restarts; nobody else may write there.",
    )
    runtime_directory: AbsolutePath = Field(
        default=_DEFAULTS.runtime_directory,
        description="Where lock files and the control socket are; nobody else may write there. A reboot may clear it.",
    )


class TextfileSection(Section):
    """The metrics as a file, for the textfile collector of node_exporter."""

    path: Annotated[str, AfterValidator(rules.textfile_path)] = Field(
        default="",
        description="The file to write; it is replaced at every interval. Empty: none is written.",
        examples=["/var/lib/prometheus/node-exporter/telemetry.prom"],
    )
    interval: float = Field(default=_DEFAULTS.textfile_interval, ge=1, le=86_400, description="Seconds between writes.")


class ExportSection(Section):
    """Ways to share the readings other than being scraped."""

    textfile: TextfileSection = Field(default_factory=TextfileSection)


class PrivacySection(Section):
    """What the metrics reveal about the cluster."""

    map_addresses: bool = Field(
        default=True,
        description=(
            "Show the server of a rank by its position in the rank table (0, 1 …), which is the same on every node, instead "
            "of by its id there, which is often the address of a machine. `false` shows the id."
        ),
    )


class ConfigFile(Section):
    """The whole file."""

    rank_table: OptionalPath = Field(
        default="",
        description=(
            "A job's rank table for Ascend devices (hccl.json, versions 1.0, 1.2 and 2.0). Each of this node's devices that "
            "it lists gets `accelerator_rank_info` with its rank. The file may appear after the daemon has started, and is "
            "read again when it changes. `telemetry config check` shows what is found in it. Empty: none."
        ),
        examples=["/user/serverid/devindex/config/hccl.json"],
    )
    rank_table_server: Annotated[str, AfterValidator(rules.one_line)] = Field(
        default="",
        description=(
            "Which server of the rank table this node is: its `server_id` there (version 2.0: `net_instance_id`) or one of "
            "its addresses. Empty: the server with this node's host name or one of its addresses, or the only server."
        ),
        examples=["10.20.11.7"],
    )
    log: LogSection = Field(default_factory=LogSection)
    web: WebSection = Field(default_factory=WebSection)
    sources: dict[SourceName, SourceSection] = Field(default_factory=dict)
    parsers: ParsersSection = Field(default_factory=ParsersSection)
    expect: ExpectSection = Field(default_factory=ExpectSection)
    state: StateSection = Field(default_factory=StateSection)
    export: ExportSection = Field(default_factory=ExportSection)
    privacy: PrivacySection = Field(default_factory=PrivacySection)

    def to_settings(self) -> Settings:
        """The plain settings; a source section that changes nothing is left out."""
        sources = ((name, section.to_settings()) for name, section in sorted(self.sources.items()))
        return Settings(
            log=LogSettings(level=self.log.level, format=self.log.format),
            web=WebSettings(
                listen_address=tuple(self.web.listen_address),
                allowed_hosts=tuple(self.web.allowed_hosts),
                config_file=self.web.config_file,
                telemetry_path=self.web.telemetry_path,
            ),
            sources=tuple((name, source) for name, source in sources if source != SourceSettings()),
            plugin_paths=tuple(self.parsers.paths),
            expected_devices=tuple(sorted(self.expect.devices.items())),
            state_directory=self.state.directory,
            runtime_directory=self.state.runtime_directory,
            textfile_path=self.export.textfile.path,
            textfile_interval=self.export.textfile.interval,
            ranks=RankSettings(
                table=self.rank_table, server=self.rank_table_server, map_addresses=self.privacy.map_addresses
            ),
        )

    @classmethod
    def from_settings(cls, settings: Settings) -> ConfigFile:
        """The file that gives these settings."""
        web = settings.web
        return cls.model_validate(
            {
                "log": {"level": settings.log.level, "format": settings.log.format},
                "web": {
                    "listen_address": list(web.listen_address),
                    "allowed_hosts": list(web.allowed_hosts),
                    "config_file": web.config_file,
                    "telemetry_path": web.telemetry_path,
                },
                "sources": {name: SourceSection.from_settings(source) for name, source in settings.sources},
                "parsers": {"paths": list(settings.plugin_paths)},
                "expect": {"devices": dict(settings.expected_devices)},
                "state": {"directory": settings.state_directory, "runtime_directory": settings.runtime_directory},
                "rank_table": settings.ranks.table,
                "rank_table_server": settings.ranks.server,
                "privacy": {"map_addresses": settings.ranks.map_addresses},
                "export": {"textfile": {"path": settings.textfile_path, "interval": settings.textfile_interval}},
            }
        )
