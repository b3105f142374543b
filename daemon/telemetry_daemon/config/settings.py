"""All settings, from which the variables, the default file and the reference are derived."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal

from telemetry_daemon.config import rules
from telemetry_daemon.config.inputs import DEFAULT_RUNTIME_DIRECTORY
from telemetry_daemon.config.optional_sections import AttributionSettings, CompatSettings, PeakSettings, StepsSettings
from telemetry_daemon.config.rules import about, check_exporter, check_model_name, check_route, check_source_name
from telemetry_parsers.dataclass import dataclass, field

if TYPE_CHECKING:
    from telemetry_parsers.model import Poll

Mode = Literal["auto", "always", "never", "inventory"]

# This port is free in Prometheus' list of exporter ports.
DEFAULT_PORT = 19820
DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = field(
        default="info", metadata=about("The lowest severity of messages to log.")
    )
    format: Literal["text", "json"] = field(
        default="text",
        metadata=about("`text` for people and the journal, `json` (one object per line) for log collectors."),
    )


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The web server and its access rules."""

    listen_address: tuple[str, ...] = field(
        default=(DEFAULT_ADDRESS,),
        metadata=about(
            "The address to listen on, or a list of addresses: `host:port`, `[IPv6 address]:port`, `:port` for every "
            "interface, or `unix:/path`. The default accepts connections from this machine only. For a Prometheus server "
            f"elsewhere, use `:{DEFAULT_PORT}`, and protect the port with `config_file` or a firewall.",
            example=[f":{DEFAULT_PORT}"],
            rule=rules.check_listen_address,
            accepts_string=True,
        ),
    )
    allowed_hosts: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Host names, without port, that requests may have in their `Host` header; other requests get 421. A loopback address "
            "always accepts only `localhost`, addresses such as `127.0.0.1`, and these names, which prevents DNS rebinding. "
            "Other addresses accept every name if this list is empty, otherwise only their own IP address and these names. "
            "Needed behind a proxy that keeps the client's `Host`. `*.example.com` allows all subdomains, `*` all names.",
            example=["telemetry.example.com", "*.gpu.example.com"],
            rule=rules.check_allowed_host,
            accepts_string=True,
        ),
    )
    config_file: str = field(
        default="",
        metadata=about(
            "A web configuration file in the format of the Prometheus exporter-toolkit, for TLS, client "
            "certificates and passwords. Empty: plain HTTP for all clients that can reach the address.",
            example="/etc/telemetry/web.yml",
            rule=rules.check_absolute_path_or_empty,
        ),
    )
    telemetry_path: str = field(default="/metrics", metadata=about("The path of the metrics page.", rule=check_route))


@dataclass(frozen=True, slots=True)
class PollSettings:
    """Settings of one poll. POLL stands for the poll's name, for example `processes`. `telemetry doctor` shows the names."""

    mode: Literal["auto", "always", "never"] = field(
        default="auto",
        metadata=about(
            "`auto`: polled with its source, unless the poll disturbs jobs too much (such as `ps` of Intel's xpu-smi). "
            "`always`: polled in any case. `never`: not polled; readings that only this poll reports are absent."
        ),
    )


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Settings of a source. NAME stands for its name, for example `mthreads-gmi`. `telemetry doctor` shows the names."""

    mode: Mode = field(
        default="auto",
        metadata=about(
            "`auto`: polled if found, and less often while a cheaper source reports the same readings. The daemon looks "
            "for a missing source at least once a minute. `always`: polled at its full rate, whatever other sources "
            "report. `inventory`: polled at the start, and then only as often as inventory polls. `never`: not used.",
        ),
    )
    path: str = field(
        default="",
        metadata=about(
            "The tool to run. Empty: the tool is searched for where its vendor installs it. For a source that reads files: the "
            "folder to use as `/`, such as `/host` in a container that has the host's /sys at /host/sys.",
            example="/opt/vendor/bin/tool",
            rule=rules.check_absolute_path_or_empty,
        ),
    )
    interval: float | None = field(
        default=None,
        metadata=about(
            "Seconds between fast polls. The polls `counters` and `gpm` never run more often than by default.",
            example=30.0,
            low=0.2,
            high=86_400,
        ),
    )
    deadline: float | None = field(
        default=None, metadata=about("Seconds after which a poll fails.", example=5.0, low=0.1, high=300)
    )
    wake_suspended: bool = field(
        default=False, metadata=about("Poll even while cards of the vendor are suspended. This wakes the cards.")
    )
    polls: Mapping[str, PollSettings] = field(default_factory=dict, metadata=about(""))

    def disabled_reason(self, poll: Poll) -> str:
        """Return why a poll is off, or "" if it is on."""
        mode = self.polls.get(poll.name, PollSettings()).mode
        if self.mode == "never" or mode == "never":
            return "switched off by the configuration"
        return f"off, because {poll.costs}; the mode `always` enables the poll" if poll.costs and mode == "auto" else ""


@dataclass(frozen=True, slots=True)
class ParsersSettings:
    """Parsers that are not part of device telemetry."""

    paths: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Folders with parser modules. They must belong to root or the service's user and must not be writable by other users.",
            example=["/etc/telemetry/plugins"],
            rule=rules.check_absolute_path,
        ),
    )


@dataclass(frozen=True, slots=True)
class ExpectSettings:
    """The expected devices of this node."""

    devices: Mapping[str, int] = field(
        default_factory=dict,
        metadata=about(
            "The number of devices of each vendor that the node should have. It is exported as `telemetry_devices_expected`, so "
            "that an alert fires even for a device that has been missing from the start.",
            example={"nvidia": 8},
            low=0,
            high=4096,
        ),
    )


@dataclass(frozen=True, slots=True)
class StateSettings:
    """The folders for the daemon's files."""

    directory: str = field(
        default="/var/lib/telemetry",
        metadata=about(
            "The folder for data that survives restarts, such as the identities of devices. Other users must not have write permission.",
            rule=rules.check_absolute_path,
        ),
    )
    runtime_directory: str = field(
        default=DEFAULT_RUNTIME_DIRECTORY,
        metadata=about(
            "The folder of lock files, the control socket and the local socket. Other users must not have write permission. A reboot may clear the folder.",
            rule=rules.check_absolute_path,
        ),
    )


@dataclass(frozen=True, slots=True)
class TextfileSettings:
    """The metrics as a file, for the textfile collector of node_exporter."""

    path: str = field(
        default="",
        metadata=about(
            "The file to write, which is replaced at every interval. Empty: no file is written.",
            example="/var/lib/prometheus/node-exporter/telemetry.prom",
            rule=rules.check_textfile_path,
        ),
    )
    interval: float = field(default=15.0, metadata=about("Seconds between writes.", low=1, high=86_400))


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """The settings of exports to files."""

    textfile: TextfileSettings = field(default_factory=TextfileSettings)


@dataclass(frozen=True, slots=True)
class PrivacySettings:
    """The protection of identifiers in the metrics."""

    map_addresses: bool = field(
        default=True,
        metadata=about(
            "Replace the id of a rank's server with the server's position in the rank table (0, 1 …). The id is often a "
            "machine's address. The position is the same on every node.",
        ),
    )


@dataclass(frozen=True, slots=True)
class FlightRecorderSettings:
    """The recording of the minutes before an alarm, such as a lost card or a failed source."""

    enabled: bool = field(
        default=True,
        metadata=about(
            "Keep at least the last two minutes of the tools' output in at most 8 MiB of memory. After an alarm, write this output to a "
            "file in `flights` in the state directory. The limits are 6 files an hour, one more file for the first loss of each "
            "card, and 100 MiB in total. The files are masked like those of `telemetry record`, and `--replay` plays them."
        ),
    )


@dataclass(frozen=True, slots=True)
class RankSettings:
    """The job's rank table, and this node's server ID in the table."""

    table: str = ""
    server: str = ""
    map_addresses: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a running daemon or command."""

    rank_table: str = field(
        default="",
        metadata=about(
            "A job's rank table for Ascend devices (hccl.json, versions 1.0, 1.2 and 2.0). The "
            "daemon exposes the rank of each listed device of this node as `accelerator_rank_info`. The file may appear after "
            "the daemon has started. The daemon reads the file again when it changes. `telemetry config check` shows what the "
            "file contains. Empty: no rank table.",
            example="/user/serverid/devindex/config/hccl.json",
            rule=rules.check_absolute_path_or_empty,
        ),
    )
    rank_table_server: str = field(
        default="",
        metadata=about(
            "This node's server in the rank table: its `server_id` (version 2.0: `net_instance_id`) or one of its addresses. "
            "Empty: the server with this node's host name or address, or the only server in the table.",
            example="10.20.11.7",
            rule=rules.check_one_line,
        ),
    )
    peak_dtypes: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Additional data types whose peaks are exported. The peak of `bf16` (on cards without it, `fp16`) is exported in any case.",
            example=["fp8", "fp32"],
            rule=rules.check_data_type,
        ),
    )
    log: LogSettings = field(default_factory=LogSettings)
    web: WebSettings = field(default_factory=WebSettings)
    sources: Mapping[str, SourceSettings] = field(default_factory=dict, metadata=about("", name_rule=check_source_name))
    parsers: ParsersSettings = field(default_factory=ParsersSettings)
    expect: ExpectSettings = field(default_factory=ExpectSettings)
    peaks: Mapping[str, PeakSettings] = field(default_factory=dict, metadata=about("", name_rule=check_model_name))
    compat: Mapping[str, CompatSettings] = field(default_factory=dict, metadata=about("", name_rule=check_exporter))
    state: StateSettings = field(default_factory=StateSettings)
    export: ExportSettings = field(default_factory=ExportSettings)
    privacy: PrivacySettings = field(default_factory=PrivacySettings)
    attribution: AttributionSettings = field(default_factory=AttributionSettings)
    steps: StepsSettings = field(default_factory=StepsSettings)
    flight_recorder: FlightRecorderSettings = field(default_factory=FlightRecorderSettings)

    @property
    def ranks(self) -> RankSettings:
        """Return the settings for the rank table."""
        return RankSettings(self.rank_table, self.rank_table_server, self.privacy.map_addresses)

    def source(self, name: str) -> SourceSettings:
        """Return the settings of a source. A source that is not configured has the defaults."""
        return self.sources.get(name, SourceSettings())

    def has_only_known_names(self, sources: Collection[str], polls: Mapping[str, Collection[str]]) -> bool:
        """Return whether all sources and polls in the settings exist."""
        return all(
            name in sources and {*source.polls} <= {*polls.get(name, ())} for name, source in self.sources.items()
        )


def settings_hash(settings: Settings) -> str:
    """Return a hash of the settings that affect the readings."""
    reading_settings = (
        *(sorted(settings.sources.items()), settings.parsers, settings.ranks, settings.attribution),
        *(sorted(settings.peaks.items()), settings.peak_dtypes),
    )
    return f"{crc32(repr(reading_settings).encode()):08x}"


# Maps the path of a setting to its command line flag.
FLAGS: Mapping[str, str] = {
    "log.level": "--log.level",
    "log.format": "--log.format",
    "web.listen_address": "--web.listen-address",
    "web.config_file": "--web.config.file",
    "web.telemetry_path": "--web.telemetry-path",
}
