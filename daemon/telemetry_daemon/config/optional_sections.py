"""The settings of what is off or empty by default: owners and steps of jobs, peaks of cards, and other exporters' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from telemetry_daemon.config import rules
from telemetry_daemon.config.inputs import DEFAULT_JOB_DIRECTORY, DEFAULT_STEPS_DIRECTORY
from telemetry_daemon.config.rules import about
from telemetry_parsers.dataclass import dataclass, field

Shown = Literal["name", "hash", "none"]


@dataclass(frozen=True, slots=True)
class AttributionSettings:
    """Whose card it is: pods, jobs, containers and users. See docs/owners.md for what each source needs."""

    enabled: bool = field(
        default=False,
        metadata=about(
            "Report the owner of each card, in metrics and all documents, and keep a record of each owner in `jobs.jsonl` in the "
            "state directory. A change needs a restart."
        ),
    )
    kubelet_socket: str = field(
        default="",
        metadata=about(
            "The kubelet's socket for pod resources. Empty: it is looked for in the usual places.",
            example="/var/lib/kubelet/pod-resources/kubelet.sock",
            rule=rules.absolute_path_or_none,
        ),
    )
    resources: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Further names under which device plugins of this cluster offer cards, beside the vendors' own.",
            example=["example.com/gpu"],
            rule=rules.one_line,
        ),
    )
    job_directory: str = field(
        default=DEFAULT_JOB_DIRECTORY,
        metadata=about(
            "Where `telemetry job` writes a file for each job; only root may write there.",
            rule=rules.absolute_path,
        ),
    )
    job_maps: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Folders in which other tools write which job has which card: `dcgm:` (dcgm-exporter), `jobstats:` or `dme:` (AMD "
            "Device Metrics Exporter), and the folder.",
            example=["jobstats:/run/gpustat"],
            rule=rules.job_map,
        ),
    )
    users: Shown = field(
        default="name",
        metadata=about("How users and accounts are exposed: by name, as a keyed hash of it, or not at all."),
    )
    pods: Shown = field(default="name", metadata=about("How pods, namespaces and containers are exposed."))
    jobs: Shown = field(default="name", metadata=about("How jobs are exposed."))
    hash_key_file: str = field(
        default="",
        metadata=about(
            "A file with the key of the hashes: nodes with the same key give the same name the same hash. Empty: a key of this "
            "node's own, in the state directory.",
            example="/etc/telemetry/owners.key",
            rule=rules.absolute_path_or_none,
        ),
    )
    environment: bool = field(
        default=False,
        metadata=about(
            "Read a few named variables (ranks, job ids) of the processes on cards, where the service has the right to; nothing "
            "else of an environment is kept."
        ),
    )
    process_metrics: bool = field(
        default=False,
        metadata=about("Export the memory of the 16 largest processes of each card, with pid, name and user."),
    )
    inline_labels: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Labels of the owner to put on every series of a card that has exactly one. Each change of owner then begins new "
            "series: `accelerator_allocation_ratio` serves the same questions without that.",
            example=["pod_namespace", "pod_name"],
            rule=rules.owner_label,
        ),
    )


@dataclass(frozen=True, slots=True)
class StepsSettings:
    """The steps that jobs count themselves, in files that they write. See docs/profile.md for what a job writes."""

    enabled: bool = field(
        default=False,
        metadata=about("Read the files and export their counters as `telemetry_steps_…`. A change needs a restart."),
    )
    directory: str = field(
        default=DEFAULT_STEPS_DIRECTORY,
        metadata=about(
            "Where jobs write their files. Everybody may write there, but only replace their own files: mode 1777.",
            rule=rules.absolute_path,
        ),
    )
    expire_after: float = field(
        default=900.0,
        metadata=about(
            "Seconds after which a file that is written no more is passed over: its job has ended.", low=1, high=86_400
        ),
    )


@dataclass(frozen=True, slots=True)
class PeakSettings:
    """What cards of a model can do at best; replaces all built-in peaks of the model. MODEL is its exact name as in the label `model`, for example `[peaks."MTT S5000"]`. A section without numbers removes the model's peaks."""

    flops: Mapping[str, float] = field(
        default_factory=dict,
        metadata=about(
            "Dense operations in a second by data type, of the whole card.",
            example={"bf16": 4.8e14, "fp8": 9.6e14},
            name_rule=rules.dtype,
            low=1,
            high=1e20,
        ),
    )
    flops_per_cycle: Mapping[str, float] = field(
        default_factory=dict,
        metadata=about(
            "Dense operations in one cycle of the whole card, by data type; estimates of FLOP/s need it.",
            example={"bf16": 262144},
            name_rule=rules.dtype,
            low=1,
            high=1e12,
        ),
    )
    memory_bytes_per_second: float | None = field(
        default=None,
        metadata=about(
            "Bytes between the card and its memory in a second, both directions together.",
            example=1.6e12,
            low=1,
            high=1e16,
        ),
    )
    origin: Literal["configured", "measured"] = field(
        default="configured",
        metadata=about("The label `peak_origin` of `accelerator_info`; `telemetry config peaks` writes `measured`."),
    )


@dataclass(frozen=True, slots=True)
class CompatSettings:
    """The metrics page that uses another exporter's names. It is always served at `/metrics/EXPORTER`, even without these settings. EXPORTER is its name, for example `[compat.dcgm-exporter]`; `docs/compatibility.md` lists them."""

    listen_address: tuple[str, ...] = field(
        default=(),
        metadata=about(
            "Where this page alone is served as `/metrics` besides, so that nothing changes in Prometheus: an address or a list "
            "of addresses as in `web.listen_address`, with the same `web.config_file` and `web.allowed_hosts`.",
            example=[":9400"],
            rule=rules.listen_address,
            alone=True,
        ),
    )
    hostname_label: Literal["", "Hostname", "hostname"] = field(
        default="",
        metadata=about(
            "How the label with the node's name is spelled: releases of dcgm-exporter differ. Empty: as in the version served."
        ),
    )
    version: str = field(
        default="",
        metadata=about(
            "The release of the exporter whose names are served, where `docs/compatibility.md` has several. Empty: the usual "
            "one. `?version=…` in a request wins.",
            example="4.9",
        ),
    )
