"""Every setting, said once: its name and type, its default, its limits and what it does. The file has the same shape.

From here come the models that validate a file, the environment variables, the default file and the reference.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Literal

from telemetry_daemon.config import rules
from telemetry_daemon.config.inputs import DEFAULT_RUNTIME_DIRECTORY
from telemetry_daemon.config.optional_sections import AttributionSettings, CompatSettings, PeakSettings, StepsSettings
from telemetry_daemon.config.rules import about
from telemetry_parsers.dataclass import dataclass, field

if TYPE_CHECKING:
    from telemetry_parsers.model import Poll

Mode = Literal["auto", "always", "never", "inventory"]

# Free in the Prometheus project's list of exporters' ports, and not 19400, where managed GPU nodes of Azure run NVIDIA's exporter.
DEFAULT_PORT = 19820
DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged to standard error, and how."""

    level: Literal["debug", "info", "warning", "error"] = field(
        default="info", metadata=about("Messages less severe than this are not written.")
    )
    format: Literal["text", "json"] = field(
        default="text",
        metadata=about("`text` for people and the journal, `json` (one object per line) for log collectors."),
    )


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Where the metrics are served, and to whom."""

    listen_address: tuple[str, ...] = field(
        default=(DEFAULT_ADDRESS,),
        metadata=about(
            "Where to listen: an address or a list of addresses. `host:port`, `[IPv6 address]:port`, `:port` for every "
            "interface, or `unix:/path`. The default can be reached from this machine only; for a Prometheus elsewhere, "
            f"use `:{DEFAULT_PORT}`, and protect it with `config_file` or a firewall.",
            example=[f":{DEFAULT_PORT}"],
            rule=rules.listen_address,
            alone=True,
        ),
    )
    allowed_hosts: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Host names that requests may be for, without port. Loopback addresses always answer only for "
            "`localhost`, addresses such as `127.0.0.1`, and these names, so that no page in a browser on this machine "
            "can read the metrics through a name of its own; other requests get 421. Needed behind a proxy that keeps the "
            "client's `Host`. `*.example.com` allows all names below one, `*` all. Once it is set, every other address "
            "holds to it, too, and answers for its own IP address besides. Empty: other addresses answer for every name.",
            example=["telemetry.example.com", "*.gpu.example.com"],
            rule=rules.allowed_host,
            alone=True,
        ),
    )
    config_file: str = field(
        default="",
        metadata=about(
            "A web configuration file in the format of the Prometheus exporter-toolkit: TLS, client certificates, "
            "passwords. Empty: plain HTTP, open to everybody who can reach the address.",
            example="/etc/telemetry/web.yml",
            rule=rules.absolute_path_or_none,
        ),
    )
    telemetry_path: str = field(default="/metrics", metadata=about("The path of the metrics page.", rule=rules.route))


@dataclass(frozen=True, slots=True)
class PollSettings:
    """One of a source's polls. POLL is its name as listed by `telemetry doctor`, for example `processes`."""

    mode: Literal["auto", "always", "never"] = field(
        default="auto",
        metadata=about(
            "`auto`: polled as its source is, unless that takes too much from the node's jobs, as `ps` of Intel's xpu-smi does. "
            "`always`: polled even then. `never`: not polled; readings that only this poll reports are absent."
        ),
    )


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How one source is polled. NAME is the source's name as listed by `telemetry doctor`, for example `mthreads-gmi`."""

    mode: Mode = field(
        default="auto",
        metadata=about(
            "`auto`: polled if it is found, and less often while a cheaper source gives the same readings; a missing one "
            "is looked for again at least once a minute. `always`: polled at its full rate, whatever other sources "
            "give. `inventory`: polled at the start and then only as often as inventories are. `never`: not used.",
        ),
    )
    path: str = field(
        default="",
        metadata=about(
            "The tool to run. For a source that reads files: the folder that stands for `/`, such as `/host` in a container "
            "that has the host's /sys at /host/sys. Empty: the tool is looked for where its vendor installs it.",
            example="/opt/vendor/bin/tool",
            rule=rules.absolute_path_or_none,
        ),
    )
    interval: float | None = field(
        default=None,
        metadata=about(
            "Seconds between fast polls; `counters` and `gpm` are made every 10 at most.",
            example=30.0,
            low=0.2,
            high=86_400,
        ),
    )
    deadline: float | None = field(
        default=None, metadata=about("Seconds after which a poll is given up.", example=5.0, low=0.1, high=300)
    )
    wake_suspended: bool = field(
        default=False, metadata=about("Poll even while all cards of the vendor are suspended; this keeps them awake.")
    )
    polls: Mapping[str, PollSettings] = field(default_factory=dict, metadata=about(""))

    def why_off(self, poll: Poll) -> str:
        """Return why a poll is off, by its own setting or its source's, or an empty text if it is on."""
        mode = self.polls.get(poll.name, PollSettings()).mode
        if self.mode == "never" or mode == "never":
            return "switched off by the configuration"
        return f"off unless its mode is `always`: {poll.costs}" if poll.costs and mode == "auto" else ""


@dataclass(frozen=True, slots=True)
class ParsersSettings:
    """Parsers that are not part of device telemetry."""

    paths: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Folders with parser modules. They must belong to root or to the service's user, and no other user may be able to write to them.",
            example=["/etc/telemetry/parsers"],
            rule=rules.absolute_path,
        ),
    )


@dataclass(frozen=True, slots=True)
class ExpectSettings:
    """What this node should have."""

    devices: Mapping[str, int] = field(
        default_factory=dict,
        metadata=about(
            "How many devices of each vendor the node should have. Exported as `telemetry_devices_expected`, so that an "
            "alert fires for a device that has been missing from the start.",
            example={"nvidia": 8},
            low=0,
            high=4096,
        ),
    )


@dataclass(frozen=True, slots=True)
class StateSettings:
    """Where files are kept."""

    directory: str = field(
        default="/var/lib/telemetry",
        metadata=about(
            "Where the identities of devices are kept across restarts; no other user may write there.",
            rule=rules.absolute_path,
        ),
    )
    runtime_directory: str = field(
        default=DEFAULT_RUNTIME_DIRECTORY,
        metadata=about(
            "Where lock files, the control socket and the local socket are; no other user may write there. A reboot may clear it.",
            rule=rules.absolute_path,
        ),
    )


@dataclass(frozen=True, slots=True)
class TextfileSettings:
    """The metrics as a file, for the textfile collector of node_exporter."""

    path: str = field(
        default="",
        metadata=about(
            "The file to write; it is replaced at every interval. Empty: none is written.",
            example="/var/lib/prometheus/node-exporter/telemetry.prom",
            rule=rules.textfile_path,
        ),
    )
    interval: float = field(default=15.0, metadata=about("Seconds between writes.", low=1, high=86_400))


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Ways to share the readings other than being scraped."""

    textfile: TextfileSettings = field(default_factory=TextfileSettings)


@dataclass(frozen=True, slots=True)
class PrivacySettings:
    """What the metrics reveal about the cluster."""

    map_addresses: bool = field(
        default=True,
        metadata=about(
            "Show the server of a rank by its position in the rank table (0, 1 …), which is the same on every node, instead "
            "of by its id there, which is often the address of a machine. `false` shows the id.",
        ),
    )


@dataclass(frozen=True, slots=True)
class FlightRecorderSettings:
    """The recording of the minutes before a card was lost, an error came, heat throttled a card, or a source failed."""

    enabled: bool = field(
        default=True,
        metadata=about(
            "Keep the output of the tools of the last two minutes, in at most 8 MiB of memory, and write it to a file in `flights` "
            "in the state directory when something happens: at most 6 files an hour and one for the first loss of each card, 100 MiB "
            "in all. They are masked as `telemetry record` masks, and `--replay` plays them."
        ),
    )


@dataclass(frozen=True, slots=True)
class RankSettings:
    """Where the job's rank table is, which of its servers this node is, and whether that server is shown by number."""

    table: str = ""
    server: str = ""
    map_addresses: bool = True


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a running daemon or command."""

    rank_table: str = field(
        default="",
        metadata=about(
            "A job's rank table for Ascend devices (hccl.json, versions 1.0, 1.2 and 2.0). Each of this node's devices that "
            "it lists gets `accelerator_rank_info` with its rank. The file may appear after the daemon has started, and is "
            "read again when it changes. `telemetry config check` shows what is found in it. Empty: none.",
            example="/user/serverid/devindex/config/hccl.json",
            rule=rules.absolute_path_or_none,
        ),
    )
    rank_table_server: str = field(
        default="",
        metadata=about(
            "Which server of the rank table this node is: its `server_id` there (version 2.0: `net_instance_id`) or one of "
            "its addresses. Empty: the server with this node's host name or one of its addresses, or the only server.",
            example="10.20.11.7",
            rule=rules.one_line,
        ),
    )
    peak_dtypes: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Data types whose peaks are exported beside the 16-bit one that each card has (`bf16`, or `fp16` on cards without).",
            example=["fp8", "fp32"],
            rule=rules.dtype,
        ),
    )
    log: LogSettings = field(default_factory=LogSettings)
    web: WebSettings = field(default_factory=WebSettings)
    sources: Mapping[str, SourceSettings] = field(default_factory=dict, metadata=about("", name_rule=rules.source_name))
    parsers: ParsersSettings = field(default_factory=ParsersSettings)
    expect: ExpectSettings = field(default_factory=ExpectSettings)
    peaks: Mapping[str, PeakSettings] = field(default_factory=dict, metadata=about("", name_rule=rules.model_name))
    compat: Mapping[str, CompatSettings] = field(default_factory=dict, metadata=about("", name_rule=rules.peer))
    state: StateSettings = field(default_factory=StateSettings)
    export: ExportSettings = field(default_factory=ExportSettings)
    privacy: PrivacySettings = field(default_factory=PrivacySettings)
    attribution: AttributionSettings = field(default_factory=AttributionSettings)
    steps: StepsSettings = field(default_factory=StepsSettings)
    flight_recorder: FlightRecorderSettings = field(default_factory=FlightRecorderSettings)

    @property
    def ranks(self) -> RankSettings:
        """Return the settings about ranks."""
        return RankSettings(self.rank_table, self.rank_table_server, self.privacy.map_addresses)

    def source(self, name: str) -> SourceSettings:
        """Return the settings of a source, or the defaults."""
        return self.sources.get(name, SourceSettings())

    def all_known(self, sources: Collection[str], polls: Mapping[str, Collection[str]]) -> bool:
        """Return whether all configured sources and polls exist."""
        return all(
            name in sources and {*source.polls} <= {*polls.get(name, ())} for name, source in self.sources.items()
        )


def reads(settings: Settings) -> str:
    """Return a fingerprint of the settings that decide what is read: equal fingerprints read the same."""
    used = (
        *(sorted(settings.sources.items()), settings.parsers, settings.ranks, settings.attribution),
        *(sorted(settings.peaks.items()), settings.peak_dtypes),
    )
    return f"{crc32(repr(used).encode()):08x}"


# The command line flags of single settings, by the setting's path.
FLAGS: Mapping[str, str] = {
    "log.level": "--log.level",
    "log.format": "--log.format",
    "web.listen_address": "--web.listen-address",
    "web.config_file": "--web.config.file",
    "web.telemetry_path": "--web.telemetry-path",
}
