"""The settings of optional features: owners, steps, peaks, and other exporters' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from telemetry_daemon.config import rules
from telemetry_daemon.config.inputs import DEFAULT_JOB_DIRECTORY, DEFAULT_STEPS_DIRECTORY
from telemetry_daemon.config.rules import about
from telemetry_parsers.dataclass import dataclass, field

NameExposure = Literal["name", "hash", "none"]


@dataclass(frozen=True, slots=True)
class AttributionSettings:
    """The owners of cards: pods, jobs, containers and users. docs/owners.md describes what each source needs."""

    enabled: bool = field(
        default=False,
        metadata=about(
            "Report each card's owner in metrics and documents, and record each owner in `jobs.jsonl` in the "
            "state directory. A change needs a restart."
        ),
    )
    kubelet_socket: str = field(
        default="",
        metadata=about(
            "The kubelet's socket for pod resources. Empty: the default paths are tried.",
            example="/var/lib/kubelet/pod-resources/kubelet.sock",
            rule=rules.check_absolute_path_or_empty,
        ),
    )
    resources: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Additional resource names under which device plugins of this cluster offer cards.",
            example=["example.com/gpu"],
            rule=rules.check_one_line,
        ),
    )
    job_directory: str = field(
        default=DEFAULT_JOB_DIRECTORY,
        metadata=about(
            "The folder in which `telemetry job` writes a file for each job; only root may write there.",
            rule=rules.check_absolute_path,
        ),
    )
    job_maps: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Folders in which other tools record the job of each card. Put the kind before each folder: `dcgm:` (dcgm-exporter), "
            "`jobstats:` or `dme:` (AMD Device Metrics Exporter).",
            example=["jobstats:/run/gpustat"],
            rule=rules.check_job_map,
        ),
    )
    users: NameExposure = field(
        default="name",
        metadata=about("How users and accounts are exposed: by name, as a keyed hash of the name, or not at all."),
    )
    pods: NameExposure = field(default="name", metadata=about("How pods, namespaces and containers are exposed."))
    jobs: NameExposure = field(default="name", metadata=about("How jobs are exposed."))
    hash_key_file: str = field(
        default="",
        metadata=about(
            "A file with the key for the hashes. Nodes with the same key compute the same hash for a name. Empty: a key in the "
            "state directory of this node.",
            example="/etc/telemetry/owners.key",
            rule=rules.check_absolute_path_or_empty,
        ),
    )
    environment: bool = field(
        default=False,
        metadata=about(
            "Read certain environment variables (ranks, job ids) of processes that use cards, if the service has the permission. "
            "Other variables are not stored."
        ),
    )
    process_metrics: bool = field(
        default=False,
        metadata=about("Export the memory of the 16 largest processes of each card, with pid, name and user."),
    )
    inline_labels: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Owner labels to add to every series of a card with exactly one owner. Each change of owner then starts new "
            "series; `accelerator_allocation_ratio` has the same information without new series.",
            example=["pod_namespace", "pod_name"],
            rule=rules.check_owner_label,
        ),
    )


@dataclass(frozen=True, slots=True)
class StepsSettings:
    """The steps that jobs report in files. docs/profile.md describes these files."""

    enabled: bool = field(
        default=False,
        metadata=about(
            "Read the jobs' files and export their counters as `telemetry_steps_…`. A change needs a restart."
        ),
    )
    directory: str = field(
        default=DEFAULT_STEPS_DIRECTORY,
        metadata=about(
            "The folder in which jobs write their files. With mode 1777, every user can create files there, but cannot replace other users' files.",
            rule=rules.check_absolute_path,
        ),
    )
    expire_after: float = field(
        default=900.0,
        metadata=about(
            "Seconds for which a file is read after its last write. Older files belong to jobs that have ended.",
            low=1,
            high=86_400,
        ),
    )


@dataclass(frozen=True, slots=True)
class PeakSettings:
    """The peak performance of a model, which replaces all built-in peaks of the model. MODEL is the model's exact name, as in the label `model`. Example: `[peaks."MTT S5000"]`. A section without numbers removes the model's peaks."""

    flops: Mapping[str, float] = field(
        default_factory=dict,
        metadata=about(
            "Dense operations per second of the whole card, by data type.",
            example={"bf16": 4.8e14, "fp8": 9.6e14},
            name_rule=rules.check_data_type,
            low=1,
            high=1e20,
        ),
    )
    flops_per_cycle: Mapping[str, float] = field(
        default_factory=dict,
        metadata=about(
            "Dense operations per cycle of the whole card, by data type; required for estimates of FLOP/s.",
            example={"bf16": 262144},
            name_rule=rules.check_data_type,
            low=1,
            high=1e12,
        ),
    )
    memory_bytes_per_second: float | None = field(
        default=None,
        metadata=about(
            "Bytes per second between the card and its memory, for reads and writes together.",
            example=1.6e12,
            low=1,
            high=1e16,
        ),
    )
    origin: Literal["configured", "measured"] = field(
        default="configured",
        metadata=about(
            "The label `peak_origin` of `accelerator_info`. `telemetry config peaks` sets it to `measured`."
        ),
    )


@dataclass(frozen=True, slots=True)
class CompatSettings:
    """The metrics page that uses another exporter's names. It is always served at `/metrics/EXPORTER`, even without these settings. EXPORTER is the exporter's name. Example: `[compat.dcgm-exporter]`. `docs/compatibility.md` lists all exporters."""

    listen_address: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "An additional address, or a list of addresses, for this page alone. Its path there is `/metrics`, so that Prometheus' "
            "configuration need not change. The format is the same as in `web.listen_address`. `web.config_file` and "
            "`web.allowed_hosts` apply, too.",
            example=[":9400"],
            rule=rules.check_listen_address,
            accepts_string=True,
        ),
    )
    hostname_label: Literal["", "Hostname", "hostname"] = field(
        default="",
        metadata=about(
            "How the label with the node's name is spelled; releases of dcgm-exporter differ. Empty: as in the release of `version`."
        ),
    )
    version: str = field(
        default="",
        metadata=about(
            "The exporter's release whose metric names are used, if `docs/compatibility.md` lists more than one. Empty: the "
            "default release. `?version=…` in a request takes precedence.",
            example="4.9",
        ),
    )
