"""The settings about other exporters' names: where their pages are served besides, and how labels are spelled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from telemetry_daemon.config import rules
from telemetry_daemon.config.about import about


@dataclass(frozen=True, slots=True)
class CompatSettings:
    """The page under another exporter's names, which is at `/metrics/EXPORTER` without any setting. EXPORTER is its name, for example `[compat.dcgm-exporter]`; `docs/compatibility.md` lists them."""

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
            "How the label with the node's name is spelled: releases of dcgm-exporter differ. Empty: as most of them do. "
            "One of: `Hostname`, `hostname`, or empty."
        ),
    )
